"""The report page: findings, figures and the page itself."""
