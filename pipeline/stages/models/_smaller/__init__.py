"""What compress is made of."""
