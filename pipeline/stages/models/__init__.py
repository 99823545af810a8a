"""Stages that train models."""
