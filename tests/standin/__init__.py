"""A strict stand-in for CuPy on machines without a GPU: it computes with NumPy, refuses what CuPy refuses and counts what a GPU would do.

Names, signatures and loops are asked of the real CuPy, which need only be installed. It says nothing about rounding, races or the order of
atomic sums, nor about indices out of range (CuPy wraps them): those want a GPU.
"""
