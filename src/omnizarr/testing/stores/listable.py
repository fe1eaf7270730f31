"""Listing: all keys, keys below a prefix, one level."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnizarr import stores
from omnizarr.errors import InvalidMetadata
from omnizarr.stores import Store
from omnizarr.testing.stores.readable import ONE_STORE, Suite
from omnizarr.testing.stores.writable import keys

BAD_PREFIXES = ["a", "a/b", "/", "./", "../", "a//", "a/../../", "\0/"]


class ListableTests(Suite):
    """`list`, `list_prefix`, `list_dir` and `erase_prefix`, native or derived."""

    def test_an_empty_store_lists_nothing(self, store: Store) -> None:
        assert list(stores.list_prefix(store, "")) == []
        assert list(stores.list_prefix(store, "a/")) == []
        assert stores.list_dir(store, "") == ([], [])
        assert stores.list_dir(store, "a/") == ([], [])

    def test_keys_below_a_prefix_are_listed_once_each(self, store: Store) -> None:
        self.put(store, dict.fromkeys(["a/b", "a/c/d", "ab/x", "e/f/g", "h", "Ω/é"], b"1"))
        assert sorted(stores.list_prefix(store, "")) == sorted(
            ["a/b", "a/c/d", "ab/x", "e/f/g", "h", "Ω/é"]
        )
        assert sorted(stores.list_prefix(store, "a/")) == ["a/b", "a/c/d"]
        assert sorted(stores.list_prefix(store, "a/c/")) == ["a/c/d"]
        assert sorted(stores.list_prefix(store, "Ω/")) == ["Ω/é"]
        for prefix in ("b/", "a/b/", "h/", "a/c/d/"):
            assert list(stores.list_prefix(store, prefix)) == []

    def test_one_level_is_keys_and_prefixes(self, store: Store) -> None:
        names = ["a/b", "a/c", "a/d/e", "a/d/f/g", "a/f/g", "a0", "a-/x", "h"]
        self.put(store, dict.fromkeys(names, b"1"))
        assert stores.list_dir(store, "a/") == (["a/b", "a/c"], ["a/d/", "a/f/"])
        assert stores.list_dir(store, "a/d/") == (["a/d/e"], ["a/d/f/"])
        assert stores.list_dir(store, "") == (["a0", "h"], ["a-/", "a/"])
        for prefix in ("b/", "h/", "a/b/"):
            assert stores.list_dir(store, prefix) == ([], [])

    def test_names_with_special_characters_are_only_names(self, store: Store) -> None:
        names = ["a*/x", "a?/x", "[a]/x", "a%/x", "a_/x", "ab/x", "a\\b", "a'b/y", "\U0001f600/z"]
        self.put(store, dict.fromkeys(names, b"1"))
        for name in names:
            if "/" in name:
                prefix = name[: name.index("/") + 1]
                assert list(stores.list_prefix(store, prefix)) == [name]
                assert stores.list_dir(store, prefix) == ([name], [])

    def test_a_prefix_is_erased_exactly(self, store: Store) -> None:
        self.put(store, dict.fromkeys(["a/b", "a/c/d", "ab/x", "a0", "x"], b"1"))
        stores.erase_prefix(store, "a/")
        stores.erase_prefix(store, "a/")
        stores.erase_prefix(store, "missing/")
        assert sorted(stores.list_prefix(store, "")) == ["a0", "ab/x", "x"]
        assert store.get("a/c/d") is None
        stores.erase_prefix(store, "")
        assert list(stores.list_prefix(store, "")) == []
        store.set("a/b", b"again")
        assert list(stores.list_prefix(store, "")) == ["a/b"]

    @pytest.mark.parametrize("prefix", BAD_PREFIXES)
    def test_a_prefix_ends_in_a_slash_and_stays_inside(self, store: Store, prefix: str) -> None:
        self.put(store, {"a/b": b"1", "ab/x": b"2"})
        for use in (
            lambda: list(stores.list_prefix(store, prefix)),
            lambda: stores.list_dir(store, prefix),
            lambda: stores.erase_prefix(store, prefix),
        ):
            with pytest.raises(InvalidMetadata):
                use()
        assert sorted(stores.list_prefix(store, "")) == ["a/b", "ab/x"]

    def test_more_keys_than_one_answer_holds_are_all_listed(self, store: Store) -> None:
        names = [f"d{i % 7}/k{i}" for i in range(1200)]
        stores.set_many(store, [(name, b"") for name in names])
        assert sorted(stores.list_prefix(store, "")) == sorted(names)
        assert len(list(stores.list_prefix(store, "d3/"))) == len(stores.list_dir(store, "d3/")[0])
        assert stores.list_dir(store, "")[1] == [f"d{i}/" for i in range(7)]

    @settings(max_examples=15, suppress_health_check=ONE_STORE)
    @given(names=st.sets(keys, max_size=8), erased=st.sampled_from(["", "a/", "a/Ω/", "ab/"]))
    def test_listings_agree_with_the_keys(self, store: Store, names: set[str], erased: str) -> None:
        stores.erase_prefix(store, "")
        stores.set_many(store, [(name, b"1") for name in names])
        for prefix in ("", "a/", "a/a/", "Ω/"):
            below = {name for name in names if name.startswith(prefix)}
            assert sorted(stores.list_prefix(store, prefix)) == sorted(below)
            assert stores.list_dir(store, prefix) == stores.one_level(below, prefix)
        stores.erase_prefix(store, erased)
        left = sorted(name for name in names if not name.startswith(erased))
        assert sorted(stores.list_prefix(store, "")) == left
