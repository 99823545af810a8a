"""Reading a job file: text to a tree with places, environment and overrides, and problems in plain words."""
