"""For the tests of stages and formats, ours and those of other packages: `stages`, `examples` and `formats`. Nothing of it needs pytest."""
