"""Test suites for stores, one for each ability; they need `pytest` and `hypothesis`.

A test class inherits the suites for the abilities of its store and creates an empty store::

    from omnizarr.testing.stores import StoreTests

    class TestMyStore(StoreTests):
        @pytest.fixture
        def store(self, tmp_path):
            return MyStore(tmp_path)

`StoreTests` is for every store that reads, writes and lists. There are further suites for optional
abilities (`PartialTests`, `VersionedTests`, `ConditionalTests`), for the use of a store
(`SharedTests`, `ForkTests`, `ClosableTests`, `ReadOnlyTests`), and for failures (`AbsenceTests`).
One test fails if a store has an ability whose suite is not inherited.
"""

import pytest

_MODULES = "access sharing"
pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in _MODULES.split()))

from omnizarr.testing.stores.access import (  # noqa: E402
    AbilityTests,
    AbsenceTests,
    HierarchyTests,
    ListableTests,
    PartialTests,
    ReadableTests,
    ReadOnlyTests,
    Suite,
    WritableTests,
)
from omnizarr.testing.stores.sharing import (  # noqa: E402
    ClosableTests,
    ConditionalTests,
    ForkTests,
    PicklableTests,
    SharedTests,
    ThreadTests,
    VersionedTests,
)

__all__ = [
    "AbilityTests",
    "AbsenceTests",
    "ClosableTests",
    "ConditionalTests",
    "ForkTests",
    "HierarchyTests",
    "ListableTests",
    "PartialTests",
    "PicklableTests",
    "ReadOnlyTests",
    "ReadableTests",
    "SharedTests",
    "StoreTests",
    "Suite",
    "ThreadTests",
    "VersionedTests",
    "WritableTests",
]


class StoreTests(
    AbilityTests,
    ReadableTests,
    WritableTests,
    ListableTests,
    PicklableTests,
    ThreadTests,
    HierarchyTests,
):
    """The tests for every store that reads, writes and lists."""
