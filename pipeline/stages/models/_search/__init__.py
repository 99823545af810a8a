"""Models within a stage: trials of search, folds of cross_validate."""
