"""PLINK's file sets."""
