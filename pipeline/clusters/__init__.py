"""Dask clusters, one kind a file."""
