"""Long runs of what must never go wrong: ``python -m tests.soak`` writes docs/reliability.md.

The same functions run for a short time in tests/faults.
"""
