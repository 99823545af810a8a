"""What an aggregate computes, a function a class: its values, the steps that parts can share, and the result."""
