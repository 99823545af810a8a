"""What network is made of."""
