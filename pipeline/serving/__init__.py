"""A published model behind HTTP: rows in and out, batches, measures, and the app that has them."""
