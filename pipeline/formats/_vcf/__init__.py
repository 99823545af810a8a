"""VCF text to genotype tables."""
