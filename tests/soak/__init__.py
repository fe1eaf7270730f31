"""Machines for tests/faults, which tries little of what they can; `make soak` tries everything."""
