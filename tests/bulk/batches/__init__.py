"""Shuffled batches of rows."""
