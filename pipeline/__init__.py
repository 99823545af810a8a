"""Big-table analytics from one YAML job file: the same on a laptop, on GPUs and on a Dask cluster."""
