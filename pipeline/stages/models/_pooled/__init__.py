"""Sums of sites whose rows never leave: in exact fixed point, masked, and put together again."""
