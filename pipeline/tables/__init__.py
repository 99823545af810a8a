"""Partitioned, lazy tables: what stages are written with."""
