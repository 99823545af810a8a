"""Whole SQL queries: read and checked, taken apart where Polars' SQL needs it, and their numbers kept whole."""
