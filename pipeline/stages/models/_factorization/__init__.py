"""What matrix_factorization is made of."""
