"""What stages share that look at rows in an order: groups as stretches of sorted rows, and spans of time."""
