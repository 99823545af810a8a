"""Rounds of federated averaging: a model that sites train on their own rows, and the masked steps that they send."""
