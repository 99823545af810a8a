"""The seam between CPU and GPU: with clusters/cuda.py the only place that imports cudf, cudf_polars, cupy or rmm.

It chooses once a run: which engine collects a query, what holds arrays, which device XGBoost trains on.
"""
