"""The 22 queries of TPC-H as jobs, against DuckDB's answers to their SQL on the same files."""
