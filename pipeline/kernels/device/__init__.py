"""CUDA kernels of our own, one family a file: the source that a thread runs, and the same said plainly. Their PTX lies in `ptx/`."""
