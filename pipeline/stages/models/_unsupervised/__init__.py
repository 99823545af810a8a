"""What the stages share that learn from rows without a target."""
