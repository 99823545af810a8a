"""Tests of what is told of a published run."""
