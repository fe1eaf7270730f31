"""Suites for stores, one for each ability; they need `pytest` and `hypothesis`.

A class of tests inherits the suites that its store claims to pass and makes an empty store::

    from omnizarr.testing.stores import StoreTests

    class TestMyStore(StoreTests):
        @pytest.fixture
        def store(self, tmp_path):
            return MyStore(tmp_path)

`StoreTests` is what a store that reads, writes and lists should pass. The others come on top: for
optional abilities (`PartialTests`, `VersionedTests`, `ConditionalTests`), for what a store is used
for (`SharedTests`, `ForkTests`, `ClosableTests`, `ReadOnlyTests`), and for failures
(`AbsenceTests`). A store with an ability whose suite is left out fails one test that says so.
"""

import pytest

_MODULES = "abilities readable sharing writable"
pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in _MODULES.split()))

from omnizarr.testing.stores.abilities import AbilityTests, HierarchyTests  # noqa: E402
from omnizarr.testing.stores.readable import (  # noqa: E402
    AbsenceTests,
    ReadableTests,
    ReadOnlyTests,
    Suite,
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
from omnizarr.testing.stores.writable import (  # noqa: E402
    ListableTests,
    PartialTests,
    WritableTests,
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
    """What a store that reads, writes and lists should pass."""
