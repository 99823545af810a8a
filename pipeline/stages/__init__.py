"""The stages: one file a stage, named like it, in a folder by subject."""
