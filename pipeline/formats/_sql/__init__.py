"""Databases: where they are, what their columns are, and how rows come and go by ADBC."""
