"""Stages on genotype tables."""
