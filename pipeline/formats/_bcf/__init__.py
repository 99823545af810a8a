"""BCF to genotype tables."""
