"""Bulk operations on whole hierarchies."""
