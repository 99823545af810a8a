"""Pure array functions of genomics, on NumPy or CuPy by the data given: no files, no frames, no cluster."""
