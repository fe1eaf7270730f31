"""Suites for stores that can be read, written and listed, and for hierarchies in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import omnizarr
from omnizarr import stores
from omnizarr.errors import InvalidArgument, InvalidName, ReadOnly, StoreError
from omnizarr.stores import MemoryStore, Range, SetsIf, Store, Versioned, can_list
from omnizarr.stores.base import SetsPartially

TEN = bytes(range(10))
BAD_KEYS = ["", "/", "/x", "x/", "a//b", ".", "..", "../x", "a/..", "a/../../x", "a/./b", "a\0b"]

# Examples of one test share its store, and test classes share the test.
ONE_STORE = [
    HealthCheck.function_scoped_fixture,
    HealthCheck.differing_executors,
    HealthCheck.too_slow,  # a store may be remote, or the machine busy
]

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
        keys = ["foo", "FOO", "Ω/zarr.json", "ß/é", "a b/c d", "%2e%2e", ".z", "c..d/...", "-_.?"]
        self.put(store, {key: key.encode() for key in keys})
        assert [store.get(key) for key in keys] == [key.encode() for key in keys]
        assert store.get("Foo") is None

    @settings(max_examples=25, suppress_health_check=ONE_STORE, deadline=None)
    @given(parts=st.lists(ranges, min_size=1, max_size=8))
    def test_a_range_is_that_part_of_the_value(self, store: Store, parts: list[Range]) -> None:
        if store.get("k") is None:
            self.put(store, {"k": TEN, "empty": b""})
        assert [store.get("k", part) for part in parts] == [part.of(TEN) for part in parts]
        assert {store.get("empty", part) for part in parts} == {b""}

    def test_many_values_come_in_the_order_asked_for(self, store: Store) -> None:
        self.put(store, {"k": TEN, "l": b"l"})
        parts = [Range(2, 3), None, None, None, Range(-2), None]
        asked = [*zip("kxlkkl", parts, strict=True)]
        expected = [TEN[2:5], None, b"l", TEN, TEN[-2:], b"l"]
        assert stores.get_many(store, asked) == expected
        assert stores.get_many(store, iter(asked)) == expected
        assert stores.get_many(store, []) == []
        drafted = [("k", (2, 3)), ("missing", (0, 1)), ("k", (0, None)), ("k", (7, None))]
        assert stores.get_partial_values(store, drafted) == [TEN[2:5], None, TEN, TEN[7:]]

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

    def test_a_failed_request_is_an_error_that_names_the_key(self, broken: Store) -> None:
        uses: list[Callable[[], object]] = [
            lambda: broken.get("a/k"),
            lambda: broken.get("a/k", Range(0, 1)),
            lambda: stores.get_many(broken, [("a/k", None)]),
        ]
        if not broken.read_only:
            uses += [lambda: broken.set("a/k", b"1"), lambda: broken.erase("a/k")]
        for use in uses:
            with pytest.raises(StoreError, match="a/k"):
                use()

    def test_a_failed_listing_is_an_error_and_not_empty(self, broken: Store) -> None:
        if stores.can_list(broken):
            with pytest.raises(StoreError):
                list(stores.list_prefix(broken, ""))
            with pytest.raises(StoreError):
                stores.list_dir(broken, "a/")


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


# No key is also the folder of another: directories cannot have that.
keys = st.builds(
    lambda folders, name: "/".join([*folders, name]),
    st.lists(st.sampled_from(["a", "a-", "a0", "ab", "Ω"]), max_size=2),
    st.sampled_from(["k", "0.0", "zarr.json"]),
)
steps = st.one_of(
    st.tuples(st.just("set"), keys, st.binary(max_size=40)),
    st.tuples(st.just("erase"), keys, st.none()),
    st.tuples(st.just("part"), keys, st.tuples(st.integers(0, 50), st.binary(max_size=20))),
)


class WritableTests(Suite):
    """`set`, `erase`, and the functions derived from them."""

    @pytest.mark.parametrize(
        "value",
        [b"", bytearray(b"array"), memoryview(b"view"), np.zeros((2, 3), "<u2").data],
        ids=["empty", "bytearray", "view", "table"],
    )
    def test_any_contiguous_buffer_can_be_a_value(self, store: Store, value: Any) -> None:
        store.set("a/k", value)
        stores.set_many(store, [("a/l", value), ("m", value)])
        assert [store.get(key) for key in ("a/k", "a/l", "m")] == [bytes(value)] * 3

    def test_a_buffer_that_changes_later_does_not_change_the_value(self, store: Store) -> None:
        buffer = bytearray(b"before")
        store.set("k", buffer)
        buffer[:] = b"after!"
        assert store.get("k") == b"before"

    def test_what_is_no_buffer_leaves_the_old_value(self, store: Store) -> None:
        store.set("k", b"old")
        for value in ("text", ["list"], None):
            with pytest.raises(TypeError):
                store.set("k", value)  # type: ignore[arg-type] # what is tested
        assert store.get("k") == b"old"

    def test_erased_keys_are_absent_and_erasing_again_is_no_error(self, store: Store) -> None:
        self.put(store, {"a/b": b"1", "a/c": b"2", "d": b"3", "e": b"4"})
        store.erase("a/b")
        store.erase("a/b")
        store.erase("a")  # a folder is not a key
        stores.erase_values(store, ["d", "missing"])
        assert [store.get(k) for k in ("a/b", "a/c", "d", "e")] == [None, b"2", None, b"4"]
        store.set("a/b", b"again")
        assert store.get("a/b") == b"again"

    def test_of_many_values_for_one_key_the_last_stays(self, store: Store) -> None:
        stores.set_many(store, iter([("k", b"first"), ("l", b"l"), ("k", b"last")]))
        assert (store.get("k"), store.get("l")) == (b"last", b"l")

    def test_a_new_value_is_stored_only_where_there_is_none(self, store: Store) -> None:
        assert stores.set_new(store, "a/k", b"first") is True
        assert stores.set_new(store, "a/k", memoryview(b"second")) is False
        assert store.get("a/k") == b"first"
        store.erase("a/k")
        assert stores.set_new(store, "a/k", b"") is True
        assert stores.set_new(store, "a/k", b"third") is False
        assert store.get("a/k") == b""

    def test_parts_are_written_at_their_offsets(self, store: Store) -> None:
        self.put(store, {"k": bytes(5), "other": b"abc"})
        parts = [("k", 3, b"\xbb\xcc"), ("other", 3, b"d"), ("k", 1, b"\xaa"), ("new", 2, b"x")]
        stores.set_partial_values(store, parts)
        assert store.get("k") == bytes.fromhex("00aa00bbcc")
        assert (store.get("other"), store.get("new")) == (b"abcd", b"\0\0x")

    @pytest.mark.parametrize("wrong", [("k", -1, b"X"), ("k", -1, b""), ("../k", 0, b"X")])
    def test_a_wrong_part_is_an_error_before_anything_changes(
        self, store: Store, wrong: tuple[str, int, bytes]
    ) -> None:
        """A15: a negative offset, or a key that leads outside the store."""
        self.put(store, {"j": b"j", "k": b"abc"})
        with pytest.raises((StoreError, InvalidArgument), match=repr(wrong[0])):
            stores.set_partial_values(store, [("j", 0, b"x"), wrong])
        assert (store.get("j"), store.get("k")) == (b"j", b"abc")
        if isinstance(store, SetsPartially):
            with pytest.raises((StoreError, InvalidArgument), match=repr(wrong[0])):
                store.set_partial(*wrong)
        with pytest.raises(StoreError, match="overlap"):
            stores.set_partial_values(store, [("j", 0, b"x"), ("k", 3, b"xx"), ("k", 1, b"xxx")])
        assert (store.get("j"), store.get("k")) == (b"j", b"abc")

    @pytest.mark.parametrize("key", BAD_KEYS)
    def test_a_key_that_leads_elsewhere_is_not_written(self, store: Store, key: str) -> None:
        self.put(store, {"a/b": b"kept"})
        uses: list[Callable[[], None]] = [
            lambda: store.set(key, b"evil"),
            lambda: store.erase(key),
            lambda: stores.set_many(store, [("a/c", b"c"), (key, b"evil")]),
            lambda: stores.set_partial_values(store, [(key, 0, b"evil")]),
        ]
        for use in uses:
            with pytest.raises(InvalidArgument) as caught:
                use()
            assert repr(key) in str(caught.value)
        assert store.get("a/b") == b"kept"

    @settings(max_examples=25, suppress_health_check=ONE_STORE, deadline=None)
    @given(history=st.lists(steps, max_size=12))
    def test_any_history_gives_what_a_dictionary_would_hold(
        self, store: Store, history: list[tuple[str, str, Any]]
    ) -> None:
        expected: dict[str, bytes] = {}
        for _, key, _ in history:  # the store is the same for all examples
            store.erase(key)
        for step, key, value in history:
            if step == "set":
                store.set(key, value)
                expected[key] = value
            elif step == "erase":
                store.erase(key)
                expected.pop(key, None)
            elif value[1]:
                start, part = value
                stores.set_partial_values(store, [(key, start, part)])
                old = expected.get(key, b"").ljust(start, b"\0")
                expected[key] = old[:start] + part + old[start + len(part) :]
        for _, key, _ in history:
            assert store.get(key) == expected.get(key)


class PartialTests(Suite):
    """`set_partial`: change a part without reading the rest."""

    def test_a_part_is_changed_in_place(self, store: Store) -> None:
        if not isinstance(store, SetsPartially):
            pytest.fail(f"{store!r} has no set_partial")
        store.set("k", b"0123456789")
        for key, start, part, expected in (
            ("k", 2, b"ab", b"01ab456789"),
            ("k", 8, b"cdef", b"01ab4567cdef"),
            ("k", 14, b"g", b"01ab4567cdef\0\0g"),
            ("new", 3, memoryview(b"x"), b"\0\0\0x"),
        ):
            store.set_partial(key, start, part)
            assert store.get(key) == expected


BAD_PREFIXES = ["a", "a/b", "/", "./", "../", "a//", "a/../../", "\0/"]


class ListableTests(Suite):
    """`list`, `list_prefix`, `list_dir` and `erase_prefix`, native or derived."""

    def test_listed_sizes_are_those_of_all_values_below_a_prefix(self, store: Store) -> None:
        values = {"a": b"1", "b/c": b"", "b/d/e": TEN, "bb/c": b"22"}
        self.put(store, values)
        for prefix in ("", "b/", "x/"):
            expected = {key: len(v) for key, v in values.items() if key.startswith(prefix)}
            assert dict(stores.list_sizes(store, prefix)) == expected
            entries = {entry.key: entry.size for entry in stores.list_entries(store, prefix)}
            assert entries.keys() == expected.keys()  # with the sizes that are known
            assert all(size in (None, expected[key]) for key, size in entries.items())

    def test_names_with_special_characters_are_only_names(self, store: Store) -> None:
        names = ["a*/x", "a?/x", "[a]/x", "a%/x", "a_/x", "ab/x", "a'b/y", "\U0001f600/z"]
        self.put(store, dict.fromkeys(names, b"1"))
        try:
            store.set("a\\b", b"1")
        except InvalidName:  # such as Azure, which would take it for a slash
            assert store.get("a/b") is None
        for name in names:
            if "/" in name:
                prefix = name[: name.index("/") + 1]
                assert list(stores.list_prefix(store, prefix)) == [name]
                assert stores.list_dir(store, prefix) == ([name], [])

    @pytest.mark.parametrize("prefix", BAD_PREFIXES)
    def test_a_prefix_ends_in_a_slash_and_stays_inside(self, store: Store, prefix: str) -> None:
        self.put(store, {"a/b": b"1", "ab/x": b"2"})
        for use in (
            lambda: list(stores.list_prefix(store, prefix)),
            lambda: stores.list_dir(store, prefix),
            lambda: stores.erase_prefix(store, prefix),
        ):
            with pytest.raises(InvalidArgument):
                use()
        assert sorted(stores.list_prefix(store, "")) == ["a/b", "ab/x"]

    def test_more_keys_than_one_answer_holds_are_all_listed(self, store: Store) -> None:
        names = [f"d{i % 7}/k{i}" for i in range(1200)]
        stores.set_many(store, [(name, b"") for name in names])
        assert sorted(stores.list_prefix(store, "")) == sorted(names)
        assert len(list(stores.list_prefix(store, "d3/"))) == len(stores.list_dir(store, "d3/")[0])
        assert stores.list_dir(store, "")[1] == [f"d{i}/" for i in range(7)]

    @settings(max_examples=25, suppress_health_check=ONE_STORE, deadline=None)
    @given(names=st.sets(keys, max_size=8), erased=st.sampled_from(["", "a/", "a/Ω/", "ab/"]))
    @example(names=set(), erased="")
    @example(names={"a/k", "a/a/k", "a-/k", "a0/k", "0.0", "Ω/ab/k"}, erased="a/")
    def test_listings_agree_with_the_keys(self, store: Store, names: set[str], erased: str) -> None:
        stores.erase_prefix(store, "")
        stores.set_many(store, [(name, b"1") for name in names])
        for prefix in ("", "a/", "a/a/", "Ω/", "k/", "a/k/"):
            below = {name for name in names if name.startswith(prefix)}
            assert sorted(stores.list_prefix(store, prefix)) == sorted(below)
            assert stores.list_dir(store, prefix) == stores.one_level(below, prefix)
        stores.erase_prefix(store, erased)
        left = sorted(name for name in names if not name.startswith(erased))
        assert sorted(stores.list_prefix(store, "")) == left
        assert all((store.get(name) is None) == name.startswith(erased) for name in names)


class AbilityTests(Suite):
    """Every ability of the store has its suite."""

    def test_every_ability_of_the_store_has_its_suite(self, store: Store) -> None:
        inherited = {suite.__name__ for suite in type(self).__mro__}
        claims = {
            "ListableTests": can_list(store),
            "PartialTests": isinstance(store, SetsPartially),
            "VersionedTests": isinstance(store, Versioned),
            "ConditionalTests": isinstance(store, SetsIf),
            "ClosableTests": hasattr(store, "close"),
        }
        missing = [name for name, claimed in claims.items() if claimed and name not in inherited]
        assert missing == [], f"{type(self).__name__} should also inherit these"

    def test_it_is_a_store_and_shows_itself(self, store: Store) -> None:
        assert isinstance(store, Store)
        assert store.read_only in (True, False)
        assert repr(store)


FORMATS: list[Any] = [2, 3, "3-draft"]


def build(store: Store, zarr_format: Any) -> np.ndarray[Any, Any]:
    """Create a small hierarchy, and return the values of its array ``g/a``."""
    values = np.arange(35, dtype="<i4").reshape(5, 7)
    root = omnizarr.create_group(store, zarr_format=zarr_format, attributes={"title": "é"})
    made = root.create_array(
        "g/a", shape=(5, 7), chunks=(2, 3), dtype="<i4", compressors=None, attributes={"n": 1}
    )
    made[...] = values
    made[1, 2:5] = values[1, 2:5] = -1
    return values


class HierarchyTests(Suite):
    """Groups, arrays and attributes in every format that has groups."""

    @pytest.mark.parametrize("zarr_format", FORMATS)
    def test_a_hierarchy_has_the_same_keys_and_bytes_as_in_memory(
        self, store: Store, zarr_format: Any
    ) -> None:
        memory = MemoryStore()
        build(memory, zarr_format)
        build(store, zarr_format)
        found = {key: store.get(key) for key in stores.list_prefix(store, "")}
        assert found == dict(memory.values)

    @pytest.mark.parametrize("zarr_format", FORMATS)
    def test_a_hierarchy_is_read_changed_and_erased(self, store: Store, zarr_format: Any) -> None:
        values = build(store, zarr_format)
        root = omnizarr.open(store, "r" if store.read_only else "r+", kind="group")
        assert [name for name, _ in root.members(max_depth=None)] == ["g", "g/a"]
        assert root.attrs["title"] == "é"
        array: Any = root["g/a"]
        np.testing.assert_array_equal(array[1:4, 2:], values[1:4, 2:])
        array.resize((6, 7))
        array[5] = 9
        assert omnizarr.open(store, path="g/a")[5].tolist() == [9] * 7
        root.delete("g")
        assert [name for name, _ in omnizarr.open(store).members()] == []
