"""Stages of finance."""
