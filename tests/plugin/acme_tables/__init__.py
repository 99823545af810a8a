"""A stage and a format for gpu-table-pipeline, from another package."""
