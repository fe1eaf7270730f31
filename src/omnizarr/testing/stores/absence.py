"""Failures: an absent key is one that is proven to be absent, and a refused write does nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from omnizarr import stores
from omnizarr.errors import ReadOnly, StoreError
from omnizarr.stores import Range, SetsIf, Store
from omnizarr.stores.store import SetsPartially
from omnizarr.testing.stores.readable import Suite


class AbsenceTests(Suite):
    """A store that cannot be reached raises; it never says that a key is not there."""

    @pytest.fixture
    def broken(self) -> Store:
        """A store whose back end fails every request; a class of tests makes its own."""
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
    """A store that is opened for reading refuses to write before anything is touched."""

    @pytest.fixture
    def reader(self) -> Store:
        """A read-only store that holds ``a/k: b"1"``; a class of tests makes its own."""
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
