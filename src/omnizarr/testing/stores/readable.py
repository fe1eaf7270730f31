"""Suites for stores that can be read."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnizarr import stores
from omnizarr.errors import InvalidArgument, ReadOnly, StoreError
from omnizarr.stores import Range, SetsIf, Store
from omnizarr.stores.base import SetsPartially

TEN = bytes(range(10))
BAD_KEYS = ["", "/", "/x", "x/", "a//b", ".", "..", "../x", "a/..", "a/../../x", "a/./b", "a\0b"]

# Examples of one test share its store, and test classes share the test.
ONE_STORE = [HealthCheck.function_scoped_fixture, HealthCheck.differing_executors]

ranges = st.builds(Range, st.integers(-15, 15), st.one_of(st.none(), st.integers(0, 15)))


class Suite:
    """The parent class of all suites: an empty store, and a method to fill it."""

    @pytest.fixture
    def store(self) -> Store:
        """Return an empty store; a test class overrides it."""
        raise NotImplementedError(f"{type(self).__name__} must define the fixture `store`")

    def put(self, store: Store, values: dict[str, bytes]) -> None:
        """Store values; a test class of a read-only store overrides it."""
        for key, value in values.items():
            store.set(key, value)


class ReadableTests(Suite):
    """`get`, `get_many` and ranges."""

    def test_a_value_is_read_as_it_was_put(self, store: Store) -> None:
        values = {"a": b"1", "b/c": b"", "b/d": TEN, "large": bytes(range(256)) * 8192}
        self.put(store, values)
        assert {key: store.get(key) for key in values} == values

    def test_sizes_are_those_of_the_values_that_are_there(self, store: Store) -> None:
        values = {"a": b"1", "b/c": b"", "b/d": TEN}
        self.put(store, values)
        found = stores.sizes(store, [*values, "x", "b", "a/c"])
        assert found == {key: len(value) for key, value in values.items()}
        assert stores.sizes(store, []) == {}

    def test_a_key_that_is_not_there_is_none(self, store: Store) -> None:
        self.put(store, {"a/b": b"1"})
        for key in ("x", "a", "a/x", "a/b/c", "x/y/z"):
            assert store.get(key) is None
            assert store.get(key, Range(0, 1)) is None
            assert store.get(key, Range(-1)) is None

    def test_keys_are_case_sensitive_text(self, store: Store) -> None:
        keys = [
            "foo",
            "FOO",
            "Ω/zarr.json",
            "ß/é x",
            "a b/c",
            "%2e%2e",
            ".z",
            "c..d/...",
            "-_.",
            "q?",
        ]
        self.put(store, {key: key.encode() for key in keys})
        assert [store.get(key) for key in keys] == [key.encode() for key in keys]
        assert store.get("Foo") is None

    @settings(max_examples=25, suppress_health_check=ONE_STORE)
    @given(parts=st.lists(ranges, min_size=1, max_size=8))
    def test_a_range_is_that_part_of_the_value(self, store: Store, parts: list[Range]) -> None:
        if store.get("k") is None:
            self.put(store, {"k": TEN})
        assert [store.get("k", part) for part in parts] == [part.of(TEN) for part in parts]

    def test_parts_of_an_empty_value_are_empty(self, store: Store) -> None:
        self.put(store, {"k": b""})
        for part in (Range(), Range(0, 5), Range(3), Range(-2)):
            assert store.get("k", part) == b""

    def test_many_values_come_in_the_order_asked_for(self, store: Store) -> None:
        self.put(store, {"k": TEN, "l": b"l"})
        asked = [
            ("k", Range(2, 3)),
            ("x", None),
            ("l", None),
            ("k", None),
            ("k", Range(-2)),
            ("l", None),
        ]
        expected = [TEN[2:5], None, b"l", TEN, TEN[-2:], b"l"]
        assert stores.get_many(store, asked) == expected
        assert stores.get_many(store, iter(asked)) == expected
        assert stores.get_many(store, []) == []

    def test_partial_values_are_asked_for_in_the_words_of_the_draft(self, store: Store) -> None:
        self.put(store, {"k": TEN})
        asked = [("k", (2, 3)), ("missing", (0, 1)), ("k", (0, None)), ("k", (7, None))]
        assert stores.get_partial_values(store, asked) == [TEN[2:5], None, TEN, TEN[7:]]

    @pytest.mark.parametrize("key", BAD_KEYS)
    def test_a_key_that_leads_elsewhere_is_not_read(self, store: Store, key: str) -> None:
        for use in (
            lambda: store.get(key),
            lambda: store.get(key, Range(0, 1)),
            lambda: stores.get_many(store, [(key, None)]),
        ):
            with pytest.raises(InvalidArgument) as caught:
                use()
            assert repr(key) in str(caught.value)


class AbsenceTests(Suite):
    """A store that cannot be reached raises an error; it never reports a missing key."""

    @pytest.fixture
    def broken(self) -> Store:
        """Return a store whose back end fails every request; a test class overrides it."""
        raise NotImplementedError(f"{type(self).__name__} has to define the fixture `broken`")

    def test_a_failed_read_is_an_error_that_names_the_key(self, broken: Store) -> None:
        for use in (
            lambda: broken.get("a/k"),
            lambda: broken.get("a/k", Range(0, 1)),
            lambda: stores.get_many(broken, [("a/k", None)]),
        ):
            with pytest.raises(StoreError, match="a/k"):
                use()

    def test_a_failed_listing_is_an_error_and_not_empty(self, broken: Store) -> None:
        if stores.can_list(broken):
            with pytest.raises(StoreError):
                list(stores.list_prefix(broken, ""))
            with pytest.raises(StoreError):
                stores.list_dir(broken, "a/")

    def test_a_failed_write_is_an_error_that_names_the_key(self, broken: Store) -> None:
        if not broken.read_only:
            with pytest.raises(StoreError, match="a/k"):
                broken.set("a/k", b"1")
            with pytest.raises(StoreError, match="a/k"):
                broken.erase("a/k")


class ReadOnlyTests(Suite):
    """A read-only store refuses to write before anything is changed."""

    @pytest.fixture
    def reader(self) -> Store:
        """Return a read-only store with ``a/k: b"1"``; a test class overrides it."""
        raise NotImplementedError(f"{type(self).__name__} has to define the fixture `reader`")

    def test_every_write_is_refused(self, reader: Store) -> None:
        assert reader.read_only is True
        uses: list[Callable[[], None]] = [
            lambda: reader.set("a/k", b"2"),
            lambda: reader.set("new", b"2"),
            lambda: reader.erase("a/k"),
            lambda: reader.erase("missing"),
            lambda: stores.erase_prefix(reader, "a/"),
            lambda: stores.erase_prefix(reader, ""),
            lambda: stores.erase_values(reader, ["a/k"]),
            lambda: stores.set_many(reader, [("a/k", b"2")]),
            lambda: stores.set_partial_values(reader, [("a/k", 0, b"2")]),
        ]
        if isinstance(reader, SetsIf):
            uses.append(lambda: _set_if(reader))
        if isinstance(reader, SetsPartially):
            uses.append(lambda: reader.set_partial("a/k", 0, b"2"))
        for use in uses:
            with pytest.raises(ReadOnly):
                use()
        assert reader.get("a/k") == b"1"
        assert reader.get("new") is None

    def test_it_reads_and_lists(self, reader: Store) -> None:
        assert reader.get("a/k", Range(0, 1)) == b"1"
        assert reader.get("missing") is None
        if stores.can_list(reader):
            assert list(stores.list_prefix(reader, "")) == ["a/k"]


def _set_if(store: SetsIf) -> None:
    store.set_if("new", b"2", None)
