"""The rules of expect."""
