"""What a report page shows: findings in the outputs, and their figures."""
