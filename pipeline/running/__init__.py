"""What happens while a plan runs."""
