"""Tests of the core: parts, nodes, tables, plans, runs."""
