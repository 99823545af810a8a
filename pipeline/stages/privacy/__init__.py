"""Stages about who can be recognised in a table."""
