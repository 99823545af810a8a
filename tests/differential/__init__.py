"""Random tables through every stage of tables and through random expressions, compared with DuckDB cell by cell."""
