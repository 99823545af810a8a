"""Stages of matrix computing and simulation."""
