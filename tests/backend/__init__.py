"""Tests of the seam to the libraries: their threads."""
