"""Genotypes and row ranges of Parquet files."""
