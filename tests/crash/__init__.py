"""Machines that try every way in which something may go wrong."""
