"""Shuffled batches of rows, as machine learning reads."""
