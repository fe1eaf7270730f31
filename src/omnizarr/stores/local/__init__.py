"""Stores in directories: the store, atomic file replacement, listing, file names."""
