"""Kernels compiled by numba for arrays in a CPU's memory, where NumPy cannot reach its bandwidth; the plain versions are their oracles.

Kernels import these inside their functions, so that a plan does not wait for numba.
"""
