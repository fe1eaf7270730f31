"""Whether a class of tests has the suites of all abilities that its store claims."""

from __future__ import annotations

from omnizarr.stores import SetsIf, Store, Versioned, can_list
from omnizarr.stores.store import SetsPartially
from omnizarr.testing.stores.listable import ListableTests
from omnizarr.testing.stores.readable import Suite
from omnizarr.testing.stores.sharing import ClosableTests
from omnizarr.testing.stores.versioned import ConditionalTests, VersionedTests
from omnizarr.testing.stores.writable import PartialTests


class AbilityTests(Suite):
    """No ability goes untested."""

    def test_every_ability_of_the_store_has_its_suite(self, store: Store) -> None:
        claims = {
            ListableTests: can_list(store),
            PartialTests: isinstance(store, SetsPartially),
            VersionedTests: isinstance(store, Versioned),
            ConditionalTests: isinstance(store, SetsIf),
            ClosableTests: hasattr(store, "close"),
        }
        missing = [
            suite.__name__
            for suite, claimed in claims.items()
            if claimed and not isinstance(self, suite)
        ]
        assert missing == [], f"{type(self).__name__} should also inherit these"

    def test_it_is_a_store_and_shows_itself(self, store: Store) -> None:
        assert isinstance(store, Store)
        assert store.read_only in (True, False)
        assert repr(store)
