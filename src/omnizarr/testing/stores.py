"""Test suites for stores, one for each ability; they need `pytest` and `hypothesis`.

A test class inherits the suites for the abilities of its store and creates an empty store::

    from omnizarr.testing.stores import StoreTests

    class TestMyStore(StoreTests):
        @pytest.fixture
        def store(self, tmp_path):
            return MyStore(tmp_path)

`StoreTests` is for every store that reads, writes and lists; one of its tests fails if a store has
an ability whose suite is not inherited.
"""

from __future__ import annotations

import itertools
import os
import pickle
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnizarr
from omnizarr import stores
from omnizarr.errors import InvalidArgument, InvalidName, ReadOnly, StoreError
from omnizarr.stores import MemoryStore, Range, SetsIf, Store, Versioned, can_list
from omnizarr.stores.base import traits
from omnizarr.testing import run_in_fork, run_in_threads

TEN = bytes(range(10))
BAD_KEYS = ["", "/", "/x", "x/", "a//b", ".", "..", "../x", "a/..", "a/../../x", "a/./b", "a\0b"]
BAD_PREFIXES = ["a", "a/b", "/", "./", "../", "a//", "a/../../", "\0/"]
# Examples of one test share its store, and test classes share the test; a store may be remote.
examples = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.differing_executors,
        HealthCheck.too_slow,
    ],
)
ranges = st.builds(Range, st.integers(-15, 15), st.one_of(st.none(), st.integers(0, 15)))
# No key is also the folder of another: directories cannot have that.
keys = st.builds(
    lambda folders, name: "/".join([*folders, name]),
    st.lists(st.sampled_from(["a", "a-", "a0", "ab", "Ω"]), max_size=2),
    st.sampled_from(["k", "0.0", "zarr.json"]),
)
prefixes = st.sampled_from(["", "a/", "a/Ω/", "ab/", "k/"])
listed = st.permutations(["", "a/", "a/a/", "Ω/", "k/", "a/k/"])
steps = st.one_of(
    st.tuples(st.just("set"), keys, st.binary(max_size=40)),
    st.tuples(st.just("erase"), keys, st.none()),
    st.tuples(st.just("erase_prefix"), prefixes, st.none()),
    st.tuples(st.just("part"), keys, st.tuples(st.integers(0, 50), st.binary(min_size=1))),
)


def refuse_bad_keys(*uses: Callable[[str], object]) -> None:
    """Check that each call raises an error for each bad key, and that its message has the key."""
    for use, key in itertools.product(uses, BAD_KEYS):
        with pytest.raises(InvalidArgument) as caught:
            use(key)
        assert repr(key) in str(caught.value)


class Suite:
    """The parent class of all suites; a test class defines the fixture `store`, an empty store."""

    def put(self, store: Store, values: dict[str, bytes]) -> None:
        """Store values; a test class of a read-only store overrides it."""
        for key, value in values.items():
            store.set(key, value)


class ReadableTests(Suite):
    """`get`, `get_many` and ranges."""

    def test_values_and_sizes_are_those_that_were_put(self, store: Store) -> None:
        values = {"a": b"1", "b/c": b"", "b/d": TEN, "large": bytes(range(256)) * 8192}
        names = ["foo", "FOO", "Ω/zarr.json", "ß/é", "a b/c d", "%2e%2e", ".z", "c..d/...", "-_.?"]
        values |= {name: name.encode() for name in names}
        self.put(store, values)
        absent = ["x", "b", "a/c", "b/x", "b/d/e", "x/y/z", "Foo"]
        assert {key: store.get(key) for key in values} == values
        lengths = {key: len(value) for key, value in values.items()}
        assert stores.sizes(store, [*values, *absent]) == lengths
        assert stores.sizes(store, []) == {}
        for key in absent:
            assert [store.get(key, part) for part in (None, Range(0, 1), Range(-1))] == [None] * 3

    @examples
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

    def test_a_key_that_leads_elsewhere_is_not_read(self, store: Store) -> None:
        refuse_bad_keys(
            store.get,
            lambda key: store.get(key, Range(0, 1)),
            lambda key: stores.get_many(store, [(key, None)]),
        )


class AbsenceTests(Suite):
    """A store that cannot be reached, the fixture `broken`, never reports a missing key."""

    def test_a_failed_request_is_an_error_that_names_the_key(self, broken: Store) -> None:
        uses: list[Callable[[str], object]] = [
            broken.get,
            lambda key: broken.get(key, Range(0, 1)),
            lambda key: stores.get_many(broken, [(key, None)]),
        ]
        if not broken.read_only:
            uses += [lambda key: broken.set(key, b"1"), broken.erase]
        for use in uses:
            with pytest.raises(StoreError, match="a/k"):
                use("a/k")
        if stores.can_list(broken):
            with pytest.raises(StoreError):
                list(stores.list_prefix(broken, ""))
            with pytest.raises(StoreError):
                stores.list_dir(broken, "a/")


class ReadOnlyTests(Suite):
    """A read-only store, the fixture `reader` with ``a/k: b"1"``, refuses every write."""

    def test_every_write_is_refused_and_the_rest_works(self, reader: Any) -> None:
        assert reader.read_only is True
        uses: list[Callable[[str], object]] = [
            lambda key: reader.set(key, b"2"),
            reader.erase,
            lambda key: stores.erase_prefix(reader, key.rpartition("/")[0] + "/" * ("/" in key)),
            lambda key: stores.erase_values(reader, [key]),
            lambda key: stores.set_many(reader, [(key, b"2")]),
            lambda key: stores.set_partial_values(reader, [(key, 0, b"2")]),
        ]
        if isinstance(reader, SetsIf):
            uses.append(lambda key: reader.set_if(key, b"2", None))
        if hasattr(reader, "set_partial"):
            uses.append(lambda key: reader.set_partial(key, 0, b"2"))
        for use in uses:
            for key in ("a/k", "new"):
                with pytest.raises(ReadOnly):
                    use(key)
        assert reader.get("a/k") == reader.get("a/k", Range(0, 1)) == b"1"
        assert reader.get("new") is reader.get("missing") is None
        if stores.can_list(reader):
            assert list(stores.list_prefix(reader, "")) == ["a/k"]


class WritableTests(Suite):
    """`set`, `erase`, and the functions derived from them."""

    def test_any_contiguous_buffer_can_be_a_value_and_is_copied(self, store: Store) -> None:
        buffers: list[Any] = [b"", bytearray(b"array"), memoryview(b"view"), np.zeros((2, 3)).data]
        for value in buffers:
            store.set("a/k", value)
            stores.set_many(store, iter([("m", b"first"), ("a/l", value), ("m", value)]))
            assert [store.get(key) for key in ("a/k", "a/l", "m")] == [bytes(value)] * 3
        store.set("k", buffers[1])
        buffers[1][:] = b"other"
        wrong: Any
        for wrong in ("text", ["list"], None):
            with pytest.raises(TypeError):
                store.set("k", wrong)
        assert store.get("k") == b"array"

    def test_erased_keys_are_absent_and_erasing_again_is_no_error(self, store: Store) -> None:
        self.put(store, {"a/b": b"1", "a/c": b"2", "d": b"3", "e": b"4"})
        stores.erase_values(store, ["a/b", "a/b", "d", "missing", "a"])  # a folder is not a key
        assert [store.get(k) for k in ("a/b", "a/c", "d", "e")] == [None, b"2", None, b"4"]

    def test_a_new_value_is_stored_only_where_there_is_none(self, store: Store) -> None:
        for value in (b"first", b""):
            assert stores.set_new(store, "a/k", value) is True
            assert stores.set_new(store, "a/k", memoryview(b"second")) is False
            assert store.get("a/k") == value
            store.erase("a/k")

    @pytest.mark.parametrize("wrong", [("k", -1, b"X"), ("k", -1, b""), ("../k", 0, b"X")])
    def test_a_wrong_part_is_an_error_before_anything_changes(
        self, store: Store, wrong: tuple[str, int, bytes]
    ) -> None:
        """A15: a negative offset, or a key that leads outside the store."""
        self.put(store, {"j": b"j", "k": b"abc"})
        with pytest.raises((StoreError, InvalidArgument), match=repr(wrong[0])):
            stores.set_partial_values(store, [("j", 0, b"x"), wrong])
        if hasattr(store, "set_partial"):
            with pytest.raises((StoreError, InvalidArgument), match=repr(wrong[0])):
                store.set_partial(*wrong)
        with pytest.raises(StoreError, match="overlap"):
            stores.set_partial_values(store, [("j", 0, b"x"), ("k", 3, b"xx"), ("k", 1, b"xxx")])
        assert (store.get("j"), store.get("k")) == (b"j", b"abc")

    def test_a_key_that_leads_elsewhere_is_not_written(self, store: Store) -> None:
        self.put(store, {"a/b": b"kept"})
        refuse_bad_keys(
            lambda key: store.set(key, b"evil"),
            store.erase,
            lambda key: stores.set_many(store, [("a/c", b"c"), (key, b"evil")]),
            lambda key: stores.set_partial_values(store, [(key, 0, b"evil")]),
        )
        assert store.get("a/b") == b"kept"


class PartialTests(Suite):
    """`set_partial`: change a part without reading the rest."""

    def test_a_part_is_changed_in_place(self, store: Any) -> None:
        store.set("k", b"0123456789")
        for key, start, part, expected in (
            ("k", 2, b"ab", b"01ab456789"),
            ("k", 8, b"cdef", b"01ab4567cdef"),
            ("k", 14, b"g", b"01ab4567cdef\0\0g"),
            ("new", 3, memoryview(b"x"), b"\0\0\0x"),
        ):
            store.set_partial(key, start, part)
            assert store.get(key) == expected


class ListableTests(Suite):
    """`list`, `list_prefix`, `list_dir` and `erase_prefix`, native or derived."""

    lists_empty_folders = False  # True for some file systems: `list_dir` finds folders without keys

    def test_names_with_special_characters_are_only_names(self, store: Store) -> None:
        names = ["a*/x", "a?/x", "[a]/x", "a%/x", "a_/x", "ab/x", "a'b/y", "\U0001f600/z"]
        self.put(store, dict.fromkeys(names, b"1"))
        try:
            store.set("a\\b", b"1")
        except InvalidName:  # such as Azure, which would take it for a slash
            assert store.get("a/b") is None
        for name in names:
            prefix = name[: name.index("/") + 1]
            assert list(stores.list_prefix(store, prefix)) == [name]
            assert stores.list_dir(store, prefix) == ([name], [])

    def test_a_prefix_ends_in_a_slash_and_stays_inside(self, store: Store) -> None:
        self.put(store, {"a/b": b"1", "ab/x": b"2"})
        uses: list[Callable[[str], object]] = [
            lambda prefix: list(stores.list_prefix(store, prefix)),
            lambda prefix: stores.list_dir(store, prefix),
            lambda prefix: stores.erase_prefix(store, prefix),
        ]
        for use, prefix in itertools.product(uses, BAD_PREFIXES):
            with pytest.raises(InvalidArgument):
                use(prefix)
        assert sorted(stores.list_prefix(store, "")) == ["a/b", "ab/x"]

    def test_more_keys_than_one_answer_holds_are_all_listed(self, store: Store) -> None:
        names = [f"d{i % 7}/k{i}" for i in range(1010)]  # clouds list a thousand at a time
        stores.set_many(store, [(name, b"") for name in names])
        assert sorted(stores.list_prefix(store, "")) == sorted(names)
        assert len(list(stores.list_prefix(store, "d3/"))) == len(stores.list_dir(store, "d3/")[0])
        assert stores.list_dir(store, "")[1] == [f"d{i}/" for i in range(7)]

    @examples
    @given(history=st.lists(steps, max_size=12), listed=listed)
    def test_any_history_gives_what_a_dictionary_would_hold(
        self, store: Store, history: list[tuple[str, str, Any]], listed: list[str]
    ) -> None:
        stores.erase_prefix(store, "")  # the store is the same for all examples
        expected: dict[str, bytes] = {}
        for step, key, value in history:
            if step == "set":
                store.set(key, value)
                expected[key] = value
            elif step == "erase":
                store.erase(key)
                expected.pop(key, None)
            elif step == "erase_prefix":
                stores.erase_prefix(store, key)
                expected = {k: v for k, v in expected.items() if not k.startswith(key)}
            else:
                start, part = value
                stores.set_partial_values(store, [(key, start, part)])
                old = expected.get(key, b"").ljust(start, b"\0")
                expected[key] = old[:start] + part + old[start + len(part) :]
        for prefix in listed[:3]:
            below = {key: len(v) for key, v in expected.items() if key.startswith(prefix)}
            assert sorted(stores.list_prefix(store, prefix)) == sorted(below)
            names, folders = stores.one_level(below, prefix)
            found = stores.list_dir(store, prefix)
            assert found[0] == names
            assert found[1] == folders or (self.lists_empty_folders and {*found[1]} > {*folders})
            assert dict(stores.list_sizes(store, prefix)) == below
            entries = {entry.key: entry.size for entry in stores.list_entries(store, prefix)}
            assert entries.keys() == below.keys()  # with the sizes that are known
            assert all(size in (None, below[key]) for key, size in entries.items())
        assert {key: store.get(key) for key in expected} == expected


class PicklableTests(Suite):
    """A store can be sent to another process."""

    def test_a_pickled_store_has_the_same_values(self, store: Any) -> None:
        self.put(store, {"a/b": b"1", "c": b"2"})
        again = pickle.loads(pickle.dumps(store))
        assert type(again) is type(store)
        assert again.read_only == store.read_only
        assert [again.get(key) for key in ("a/b", "c", "d")] == [b"1", b"2", None]


class SharedTests(Suite):
    """Two store objects for the same storage see each other's values."""

    def test_pickled_stores_are_the_same_place_and_lose_nothing(self, store: Store) -> None:
        copies: list[Any] = [pickle.loads(pickle.dumps(store)) for _ in range(3)]
        assert copies[0] == store
        assert hash(copies[0]) == hash(store)
        values = {f"a/k{i}": b"%d" % i for i in range(30)}

        def work(number: int) -> None:
            for key in list(values)[number::3]:
                copies[number].set(key, values[key])

        run_in_threads(work, 3)
        assert {key: store.get(key) for key in values} == values
        store.set("a/k0", b"from here")
        assert copies[0].get("a/k0") == b"from here"
        copies[0].erase("a/k0")
        assert store.get("a/k0") is None


class ForkTests(Suite):
    """A store that has been used still works in a forked child and in its parent."""

    pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")

    def test_a_fork_while_threads_use_the_store_does_not_hang(self, store: Store) -> None:
        store.set("before", b"1")
        stop = threading.Event()

        def child() -> None:
            assert stores.get_many(store, [("before", None), ("x", None)]) == [b"1", None]
            store.set("child", b"2")
            assert store.get("child") == b"2"

        def work(number: int) -> None:
            if number:
                while not stop.is_set():
                    store.get("before")
                return
            try:
                for _ in range(3):
                    run_in_fork(child)
            finally:
                stop.set()

        run_in_threads(work, 3)
        store.set("after", b"3")
        assert [store.get(key) for key in ("before", "child", "after")] == [b"1", b"2", b"3"]


class ClosableTests(Suite):
    """`close` and `with`."""

    def test_closing_is_idempotent_and_with_closes(self, store: Any) -> None:
        with store as entered:
            assert entered is store
            store.set("k", b"1")
        store.close()
        store.close()


class VersionedTests(Suite):
    """`generation` and `get_versioned`."""

    settles: float = 0  # seconds until a store with a coarse clock trusts what it just wrote

    def test_a_missing_key_has_no_generation(self, store: Any) -> None:
        assert store.generation("a/k") is None
        assert store.get_versioned("a/k") == (None, None)
        assert store.get_versioned("a/k", Range(0, 1)) == (None, None)
        refuse_bad_keys(store.generation, store.get_versioned)

    def test_a_generation_stays_until_the_value_is_replaced(self, store: Any) -> None:
        self.put(store, {"k": TEN, "l": b"l"})
        time.sleep(self.settles)
        first = store.generation("k")
        assert isinstance(first, str)
        for part in (None, Range(), Range(2, 3), Range(-3), Range(20)):
            expected = TEN if part is None else part.of(TEN)
            assert store.get_versioned("k", part) == (expected, first)
        self.put(store, {"l": b"other"})
        assert store.generation("k") == first
        self.put(store, {"k": b"two"})
        second = store.generation("k")
        assert second not in (first, None)
        store.erase("k")
        assert store.generation("k") is None
        self.put(store, {"k": b"three"})
        assert store.generation("k") not in (first, second, None)
        seen = set()
        for i in range(20):  # values of one length
            self.put(store, {"k": b"%05d" % i})
            value, generation = store.get_versioned("k")
            assert value == b"%05d" % i
            seen.add(generation)
        assert len(seen) == 20


class ConditionalTests(VersionedTests):
    """`set_if`: compare-and-set."""

    def test_a_value_is_stored_only_if_the_old_one_is_known(self, store: Any) -> None:
        assert store.set_if("k", b"one", None) is True
        assert store.set_if("k", b"other", None) is False
        first = store.generation("k")
        assert store.set_if("k", memoryview(b"two"), first) is True
        assert store.set_if("k", b"three", first) is False
        assert store.get("k") == b"two"
        store.erase("k")
        assert store.set_if("k", b"four", first) is False
        assert store.get("k") is None
        with pytest.raises(InvalidArgument):
            store.set_if("../k", b"x", None)

    def test_threads_that_count_lose_nothing(self, store: Any) -> None:
        store.set("n", b"0")

        def count(number: int) -> None:
            done = 0
            while done < 8:
                value, generation = store.get_versioned("n")
                done += store.set_if("n", b"%d" % (int(value) + 1), generation)

        run_in_threads(count, 4)
        assert store.get("n") == b"32"


class AbilityTests(Suite):
    """Every ability of the store has its suite."""

    def test_every_ability_of_the_store_has_its_suite(self, store: Store) -> None:
        assert isinstance(store, Store)
        assert store.read_only in (True, False)
        assert repr(store)
        inherited = {suite.__name__ for suite in type(self).__mro__}
        claims = {
            "ListableTests": can_list(store),
            "PartialTests": hasattr(store, "set_partial"),
            "VersionedTests": isinstance(store, Versioned),
            "ConditionalTests": isinstance(store, SetsIf),
            "ClosableTests": hasattr(store, "close"),
        }
        missing = [name for name, claimed in claims.items() if claimed and name not in inherited]
        assert missing == [], f"{type(self).__name__} should also inherit these"


class StoreTests(ReadableTests, WritableTests, ListableTests, PicklableTests, AbilityTests):
    """The tests for every store that reads, writes and lists, also from several threads."""

    def test_threads_write_read_and_erase_at_once(self, store: Store) -> None:
        values = [bytes([i]) * (20_000 + i) for i in range(3)]
        store.set("k", values[0])

        def work(number: int) -> None:
            for i in range(12):
                key = f"t{number}/k{i}"
                store.set(key, values[i % 3])
                assert store.get(key) == values[i % 3]
                store.erase(key)
                if number == 0:
                    store.set("k", values[i % 3])
                assert store.get("k") in values  # the old value or the new one

        run_in_threads(work, 6)
        assert list(stores.list_prefix(store, "")) == ["k"]

    @pytest.mark.parametrize("zarr_format", [2, 3, "3-draft"])
    def test_a_hierarchy_is_stored_as_in_memory_read_changed_and_erased(
        self, store: Store, zarr_format: Any
    ) -> None:
        memory, values = MemoryStore(), np.arange(35, dtype="<i4").reshape(5, 7)
        for each in (memory, store):
            root = omnizarr.create_group(each, zarr_format=zarr_format, attributes={"title": "é"})
            array: Any = root.create_array(
                "g/a", data=values, chunks=(2, 3), compressors=None, attributes={"n": 1}
            )
            array[1, 2:5] = -1
        found = {key: store.get(key) for key in stores.list_prefix(store, "")}
        if traits(store).separator == ".":  # else chunks of version 2 have other keys
            assert found == dict(memory.values)
        root = omnizarr.open(store, "r+", kind="group")
        assert [name for name, _ in root.members(max_depth=None)] == ["g", "g/a"]
        assert root.attrs["title"] == "é"
        array = root["g/a"]
        assert array[1:4, 2:].tolist() == [[-1, -1, -1, 12, 13], *values[2:4, 2:].tolist()]
        array.resize((6, 7))
        array[5] = 9
        assert omnizarr.open(store, path="g/a")[5].tolist() == [9] * 7
        root.delete("g")
        assert [name for name, _ in omnizarr.open(store).members()] == []
