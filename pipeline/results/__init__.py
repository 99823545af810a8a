"""What is on disk or in a bucket, and when it counts."""
