"""Conventions: what attributes mean, on top of arrays and groups."""
