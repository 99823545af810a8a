"""What the stage cox knows of lives: how long they lasted, the hazards that features multiply, and what is published of them."""
