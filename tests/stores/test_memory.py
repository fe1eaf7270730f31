"""The store in a dictionary."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Iterator, MutableMapping

import numpy as np
import pytest

from omnizarr import stores
from omnizarr.errors import InvalidArgument, ReadOnly, StoreError
from omnizarr.storage import MemoryStore
from omnizarr.stores import Range, Store


class Foreign(MutableMapping[str, bytes]):
    """A mapping that is not a dict."""

    def __init__(self) -> None:
        self.inner: dict[str, bytes] = {}

    def __getitem__(self, key: str) -> bytes:
        return self.inner[key]

    def __setitem__(self, key: str, value: bytes) -> None:
        self.inner[key] = value

    def __delitem__(self, key: str) -> None:
        del self.inner[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.inner)

    def __len__(self) -> int:
        return len(self.inner)


@pytest.mark.parametrize("kind", [dict, Foreign])
def test_the_given_mapping_holds_the_values(kind: type[MutableMapping[str, bytes]]) -> None:
    values = kind()
    store = MemoryStore(values)
    store.set("a/b", b"x")
    assert dict(values) == {"a/b": b"x"}
    values["c"] = b"y"
    assert store.get("c") == b"y"
    store.erase("a/b")
    assert dict(values) == {"c": b"y"}


def test_an_empty_mapping_is_shared() -> None:
    values: dict[str, bytes] = {}
    MemoryStore(values).set("k", b"x")
    assert values == {"k": b"x"}


def test_a_store_without_a_mapping_has_its_own() -> None:
    first, second = MemoryStore(), MemoryStore()
    first.set("k", b"x")
    assert second.get("k") is None
    assert isinstance(first, Store)


@pytest.mark.parametrize("value", [b"abc", bytearray(b"abc"), memoryview(b"abc")])
def test_a_value_is_kept_as_it_was_when_it_was_set(value: bytes | bytearray | memoryview) -> None:
    store = MemoryStore()
    store.set("k", value)
    if isinstance(value, bytearray):
        value[0] = 0
    assert store.get("k") == b"abc"
    assert type(store.get("k")) is bytes


def test_a_buffer_of_an_array_is_copied() -> None:
    array = np.arange(4, dtype="<i2")
    store = MemoryStore()
    store.set("k", memoryview(array))
    array[:] = 0
    assert store.get("k") == np.arange(4, dtype="<i2").tobytes()


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (Range(), b"0123456789"),
        (Range(2, 3), b"234"),
        (Range(7), b"789"),
        (Range(7, 100), b"789"),
        (Range(0, 0), b""),
        (Range(50, 5), b""),
        (Range(-3), b"789"),
        (Range(-3, 2), b"78"),
        (Range(-100), b"0123456789"),
        (Range(-100, 2), b"01"),
    ],
)
def test_a_range_is_part_of_a_value(part: Range, expected: bytes) -> None:
    store = MemoryStore({"k": b"0123456789"})
    assert store.get("k", part) == expected
    assert store.get("missing", part) is None


@pytest.mark.parametrize("key", ["..", "a/../b", ".", "/a", "a/", "a//b", "", "a\0b"])
def test_keys_that_no_store_may_have_are_refused(key: str) -> None:
    store = MemoryStore({"a": b"x"})
    for call in (lambda: store.get(key), lambda: store.set(key, b"y"), lambda: store.erase(key)):
        with pytest.raises(InvalidArgument, match="key") as caught:
            call()
        assert repr(key) in str(caught.value)
    assert store.values == {"a": b"x"}


def test_erasing_a_missing_key_is_no_error() -> None:
    store = MemoryStore({"a": b"x"})
    store.erase("b")
    stores.erase_prefix(store, "a/")
    assert store.values == {"a": b"x"}


def test_listing_and_prefixes_follow_the_slashes() -> None:
    store = MemoryStore(dict.fromkeys(("a/b", "a/c", "a/d/e", "ab/f", "g"), b""))
    assert sorted(store.list()) == ["a/b", "a/c", "a/d/e", "ab/f", "g"]
    assert sorted(stores.list_prefix(store, "a/")) == ["a/b", "a/c", "a/d/e"]
    assert stores.list_dir(store, "a/") == (["a/b", "a/c"], ["a/d/"])
    assert stores.list_dir(store, "") == (["g"], ["a/", "ab/"])
    stores.erase_prefix(store, "a/")
    assert sorted(store.values) == ["ab/f", "g"]
    stores.erase_prefix(store, "")
    assert store.values == {}


def test_the_store_may_change_while_it_is_listed() -> None:
    store = MemoryStore({"a": b"", "b": b""})
    for key in store.list():
        store.set(f"{key}/new", b"")
    assert sorted(store.values) == ["a", "a/new", "b", "b/new"]


def test_a_read_only_store_refuses_before_anything_is_touched() -> None:
    values = {"a": b"x"}
    store = MemoryStore(values, read_only=True)
    for call in (
        lambda: store.set("a", b"y"),
        lambda: store.erase("a"),
        lambda: stores.erase_prefix(store, ""),
        lambda: stores.erase_values(store, ["a"]),
        lambda: stores.set_partial_values(store, [("a", 0, b"y")]),
        lambda: stores.set_many(store, [("a", b"y")]),
    ):
        with pytest.raises(ReadOnly, match="memory is read-only"):
            call()
    assert values == {"a": b"x"}
    assert store.get("a") == b"x"


def test_stores_over_one_mapping_are_equal() -> None:
    values: dict[str, bytes] = {}
    assert MemoryStore(values) == MemoryStore(values, read_only=True)
    assert hash(MemoryStore(values)) == hash(MemoryStore(values))
    assert MemoryStore({}) != MemoryStore({})
    assert stores.resolve(values) == MemoryStore(values)


def test_of_equal_new_values_one_is_first() -> None:
    several: list[MutableMapping[str, bytes]] = [{}, UserDict()]
    for values in several:
        store = MemoryStore(values)
        for value in (b"document", b"", b"1"):
            assert store.set_new(f"k{len(value)}", value) is True
            assert store.set_new(f"k{len(value)}", value) is False


def test_no_part_of_a_value_has_a_negative_length() -> None:
    """A15: it was counted from the end of the value, or of what was before it."""
    store = MemoryStore({"k": b"abcdef"})
    for part in ((0, -1), (2, -3), (-4, -1)):
        with pytest.raises(StoreError, match="at least 0"):
            stores.get_partial_values(store, [("k", part)])
