"""Columns that are several numbers of a model's matrix each: the n-grams of a text, the pixels of an image."""
