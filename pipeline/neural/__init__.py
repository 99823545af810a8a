"""Networks in JAX: arrays in, arrays out. Its modules import JAX, so who trains or predicts imports them, and no plan does."""
