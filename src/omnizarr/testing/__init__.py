"""Test tools: stores that record, fail or wait, and test suites for stores.

The suites are in `omnizarr.testing.stores`, which needs `pytest` and `hypothesis`.
"""

from omnizarr.testing.wrappers import Call, FaultyStore, RecordingStore, SlowStore

__all__ = ["Call", "FaultyStore", "RecordingStore", "SlowStore"]
