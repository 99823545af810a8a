"""A published run told to others: what each column comes from, an RO-Crate, OpenLineage's events, MLflow."""
