"""What linear is made of."""
