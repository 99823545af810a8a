"""The seam between CPU and GPU."""
