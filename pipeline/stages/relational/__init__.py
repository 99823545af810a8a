"""Relational stages: what SQL does to tables."""
