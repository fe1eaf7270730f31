"""Long stress tests: ``python -m tests.soak`` writes docs/generated/reliability.md.

The same functions run for a short time in tests/faults.
"""
