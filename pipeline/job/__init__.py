"""The typed job, and the way from a job file to it: every problem with its place."""
