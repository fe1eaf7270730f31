"""Caches: bounded, keyed by complete values, empty in forked children."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.concurrency import cache
from omnizarr.concurrency.cache import Cache, cached


@pytest.fixture
def table() -> Iterator[Cache[Any, Any]]:
    made: Cache[Any, Any] = Cache(3)
    yield made
    cache._caches.remove(made)


def test_a_full_cache_is_emptied(table: Cache[Any, Any]) -> None:
    for number in range(10):
        assert table.put(number, -number) == -number
        assert table.get(number) == -number
        assert len(table) <= 3
    assert table.get("missing") is None


def test_a_function_is_called_once_for_equal_arguments() -> None:
    calls: list[tuple[str, ...]] = []

    @cached(2)
    def joined(*parts: str) -> str:
        calls.append(parts)
        return "".join(parts)

    assert [joined("a", "b"), joined("a", "b"), joined("ab")] == ["ab"] * 3
    assert calls == [("a", "b"), ("ab",)]
    cache.clear_all()
    assert joined("a", "b") == "ab"
    assert len(calls) == 3
    cache._caches.pop()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_begins_with_empty_caches(table: Cache[Any, Any]) -> None:
    oz.create_array(None, data=np.arange(8))
    table.put("a", 1)
    child = os.fork()
    if child == 0:
        empty = all(len(each) == 0 for each in cache._caches)
        os._exit(0 if empty and table.put("b", 2) == table.get("b") else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert table.get("a") == 1
