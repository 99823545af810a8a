"""What the stage `window` computes: its functions as a job writes them, as queries, and over windows that roll."""
