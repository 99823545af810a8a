"""Feature stages: from a table to what a model reads."""
