"""A9: codecs and stores that keep their input never see memory that is used again."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import omnizarr as oz
from tests.conformance.key_value import SmallestStore
from tests.sampling import sample

SHAPE = (12, 16)
# What codecs were given, and what it held then.
_kept: list[tuple[Any, bytes]] = []


def kept(given: Any) -> Any:
    _kept.append((given, bytes(given)))
    return given


@dataclass(frozen=True)
class Keeping:
    """Returns its input and keeps it."""

    @classmethod
    def bind(cls, named: Any) -> Any:
        return cls()

    def encode(self, data: Any, *_: Any) -> Any:
        return kept(data)

    def decode(self, data: Any, *_: Any) -> Any:
        return kept(data)


class Same(Keeping):
    """A codec of bytes that keeps its input."""

    kind: ClassVar[str] = "bytes->bytes"
    name: ClassVar[str] = "test.same"

    def encoded_size(self, size: int) -> int | None:
        return size


class SameArray(Keeping):
    """A filter that keeps its input."""

    kind: ClassVar[str] = "array->array"
    name: ClassVar[str] = "test.filter"

    def resolve(self, spec: Any) -> Any:
        return spec


oz.register("codec", Same.name, Same)
oz.register("codec", SameArray.name, SameArray)


class KeepingFiles(oz.storage.LocalStore):
    """A subclass of the directory store that keeps the last value."""

    def set(self, key: str, value: Any) -> None:
        kept(value)
        super().set(key, value)

    def set_many(self, values: Any) -> None:
        for key, value in values:
            self.set(key, value)


class Naive(SmallestStore):
    """A minimal store that keeps and returns the very objects that it is given."""

    def set(self, key: str, value: Any) -> None:
        self.values[key] = value


class Changing(Naive):
    """A store of values that could be changed in place unnoticed."""

    def set(self, key: str, value: Any) -> None:
        self.values[key] = bytearray(value)

    def get(self, key: str, range: Any = None) -> Any:
        value = super().get(key, range)
        if value is not None:
            kept(value)
        return value


STORES = (oz.storage.LocalStore, KeepingFiles, Naive, Changing, oz.storage.MemoryStore)
CHAINS = {
    "none": ["bytes"],
    "same": ["bytes", "test.same"],
    "filter": ["test.filter", "bytes", "zstd"],
    "filter-turned": ["test.filter", oz.codecs.TransposeCodec(order=(1, 0)), "bytes"],
    "crc": ["bytes", "crc32c", "test.same"],
}


@pytest.mark.parametrize(
    ("chain", "store", "engine", "sharded"),
    sample(itertools.product(CHAINS, STORES, ["auto", "reference"], [False, True]), 40),
)
def test_objects_kept_by_codecs_and_stores_do_not_change(
    chain: str, store: Any, engine: str, sharded: bool, tmp_path: Path
) -> None:
    """A9: chunks hold the written values even if someone keeps or returns their buffer."""
    made = store(tmp_path / "x") if issubclass(store, oz.storage.LocalStore) else store()
    data = np.arange(1, 1 + np.prod(SHAPE), dtype="u2").reshape(SHAPE)
    _kept.clear()
    with oz.configure(engine=engine, threads=1):
        array = oz.create_array(
            made,
            shape=SHAPE,
            dtype="u2",
            chunks=(4, 4),
            shards=(4, 8) if sharded else None,
            codecs=CHAINS[chain],
        )
        given = data.copy()
        array[...] = given
        array[::2] = given[::2]
        array[3:9, 2:11] = given[3:9, 2:11]
        array[:4, :4] = given[:4, :4]
        assert np.array_equal(array[...], data)
        assert np.array_equal(array[1:11:3, 3:9], data[1:11:3, 3:9])
        assert all(bytes(held) == then for held, then in _kept)
        given[...] = 0  # which is the caller's own again
        assert np.array_equal(array[...], data)
