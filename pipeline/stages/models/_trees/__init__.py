"""What xgboost is made of."""
