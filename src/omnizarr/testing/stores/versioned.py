"""Generations: telling values apart without fetching them, and replacing only what is known."""

from __future__ import annotations

import threading
import time

import pytest

from omnizarr.errors import InvalidMetadata
from omnizarr.stores import Range, SetsIf, Store, Versioned
from omnizarr.testing.stores.readable import BAD_KEYS, TEN, Suite


class VersionedTests(Suite):
    """`generation` and `get_versioned`."""

    # Seconds until a store with a coarse clock trusts what it just wrote.
    settles: float = 0

    @pytest.fixture
    def versioned(self, store: Store) -> Versioned:
        if not isinstance(store, Versioned):
            pytest.fail(f"{store!r} has no generation and get_versioned")
        return store

    def test_a_missing_key_has_no_generation(self, versioned: Versioned) -> None:
        assert versioned.generation("a/k") is None
        assert versioned.get_versioned("a/k") == (None, None)
        assert versioned.get_versioned("a/k", Range(0, 1)) == (None, None)

    def test_a_generation_stays_until_the_value_is_replaced(
        self, store: Store, versioned: Versioned
    ) -> None:
        self.put(store, {"k": b"one", "l": b"l"})
        time.sleep(self.settles)
        first = versioned.generation("k")
        assert isinstance(first, str)
        assert versioned.get_versioned("k") == (b"one", first)
        self.put(store, {"l": b"other"})
        assert store.get("k") == b"one"
        assert versioned.generation("k") == first
        self.put(store, {"k": b"two"})
        assert versioned.generation("k") not in (first, None)

    def test_a_part_comes_with_the_generation_of_the_whole(
        self, store: Store, versioned: Versioned
    ) -> None:
        self.put(store, {"k": TEN})
        time.sleep(self.settles)
        for part in (Range(), Range(2, 3), Range(-3), Range(20)):
            assert versioned.get_versioned("k", part) == (part.of(TEN), versioned.generation("k"))

    def test_many_values_of_one_length_are_told_apart(
        self, store: Store, versioned: Versioned
    ) -> None:
        seen = set()
        for i in range(20):
            self.put(store, {"k": b"%05d" % i})
            value, generation = versioned.get_versioned("k")
            assert value == b"%05d" % i
            seen.add(generation)
        assert len(seen) == 20

    def test_an_erased_key_has_no_generation(self, store: Store, versioned: Versioned) -> None:
        self.put(store, {"k": b"one"})
        first = versioned.generation("k")
        store.erase("k")
        assert versioned.generation("k") is None
        self.put(store, {"k": b"two"})
        assert versioned.generation("k") not in (first, None)

    @pytest.mark.parametrize("key", BAD_KEYS)
    def test_a_key_that_leads_elsewhere_has_no_generation(
        self, versioned: Versioned, key: str
    ) -> None:
        with pytest.raises(InvalidMetadata):
            versioned.generation(key)
        with pytest.raises(InvalidMetadata):
            versioned.get_versioned(key)


class ConditionalTests(VersionedTests):
    """`set_if`: compare and replace."""

    @pytest.fixture
    def conditional(self, store: Store) -> SetsIf:
        if not isinstance(store, SetsIf):
            pytest.fail(f"{store!r} has no set_if")
        return store

    def test_a_key_is_created_only_once(self, store: Store, conditional: SetsIf) -> None:
        assert conditional.set_if("a/k", b"one", None) is True
        assert conditional.set_if("a/k", b"two", None) is False
        assert store.get("a/k") == b"one"

    def test_a_value_is_replaced_only_if_it_is_the_one_known(
        self, store: Store, versioned: Versioned, conditional: SetsIf
    ) -> None:
        store.set("k", b"one")
        first = versioned.generation("k")
        assert conditional.set_if("k", memoryview(b"two"), first) is True
        assert store.get("k") == b"two"
        assert conditional.set_if("k", b"three", first) is False
        assert store.get("k") == b"two"
        store.erase("k")
        assert conditional.set_if("k", b"four", first) is False
        assert store.get("k") is None

    def test_a_key_that_leads_elsewhere_is_not_set(self, conditional: SetsIf) -> None:
        with pytest.raises(InvalidMetadata):
            conditional.set_if("../k", b"x", None)

    def test_threads_that_count_lose_nothing(
        self, store: Store, versioned: Versioned, conditional: SetsIf
    ) -> None:
        errors: list[BaseException] = []
        store.set("n", b"0")

        def count() -> None:
            try:
                done = 0
                while done < 8:
                    value, generation = versioned.get_versioned("n")
                    done += conditional.set_if("n", b"%d" % (int(value or b"0") + 1), generation)
            except BaseException as e:
                errors.append(e)

        threads = [threading.Thread(target=count) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert store.get("n") == b"32"
