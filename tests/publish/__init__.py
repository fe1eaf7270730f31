"""Tests of the one way in which something new becomes visible."""
