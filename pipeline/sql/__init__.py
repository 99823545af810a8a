"""The SQL of filter and derive: its text before Polars parses it, and the tree that Polars makes of it."""
