"""Copies from and to every kind of store: resumed, updated, replaced and verified."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.errors import StoreError
from omnizarr.stores import LocalStore, MemoryStore, Store, resolve
from omnizarr.stores.fsspec import FsspecStore
from omnizarr.stores.lmdb import LMDBStore
from omnizarr.stores.redis import RedisStore
from omnizarr.stores.sqlite import SQLiteStore
from omnizarr.stores.zip.store import ZipStore
from tests.bulk.test_copy import Failing, change, fill, values
from tests.servers.fixtures import Cloud
from tests.servers.redis import redis_server

CLOUDS = ("s3", "gs", "az")
FILES: dict[str, Callable[[Path], Store]] = {
    "memory": lambda folder: MemoryStore(),
    "directory": lambda folder: LocalStore(folder / "x.zarr"),
    "zip": lambda folder: ZipStore(folder / "x.zip", mode="a"),
    "sqlite": lambda folder: SQLiteStore(folder / "x.sqlite"),
    "lmdb": lambda folder: LMDBStore(folder / "x.lmdb"),
    "fsspec": lambda folder: FsspecStore.from_url(f"memory://{folder.name}"),
}
# Each kind is once a source and once a destination.
RING = [
    *("directory", "s3", "sqlite", "gs", "directory", "lmdb", "az", "directory", "redis", "zip"),
    *("lmdb", "memory", "redis", "fsspec", "zip", "sqlite", "directory"),
]

_numbers = itertools.count()


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str], Store]]:
    """Return a function that makes an empty store of a kind."""
    with ExitStack() as stack:

        def one(kind: str) -> Store:
            number = next(_numbers)
            if kind == "redis":
                url = request.getfixturevalue("redis_url")
                return stack.enter_context(RedisStore(url, prefix=f"copy{number}"))
            if kind in CLOUDS:
                cloud: Cloud = request.getfixturevalue(kind)
                return resolve(f"{cloud.url}/{number}", storage_options=cloud.options)
            folder = tmp_path / str(number)
            folder.mkdir()
            made = FILES[kind](folder)
            if hasattr(made, "close"):
                stack.callback(made.close)
            return made

        yield one


@pytest.mark.parametrize(("old", "new"), [*itertools.pairwise(RING)])
def test_a_copy_has_the_same_values_after_errors_updates_and_a_replacement(
    old: str, new: str, make: Callable[[str], Store]
) -> None:
    source, target = make(old), make(new)
    seed = sum(map(ord, old + new))
    group = fill(source, seed)
    data = np.arange(60).reshape(6, 10)
    group.create_array("data", data=data, chunks=(2, 2))
    count = len(values(source))

    failing = Failing(target)
    failing.left = count // 2
    with pytest.raises(StoreError, match="no space left"):
        oz.copy(source, failing)
    with pytest.raises(oz.NodeNotFound):
        oz.open(target)
    failing.left = 10**9
    resumed = oz.copy(source, failing, resume=True, verify=True)
    assert values(target) == values(source)
    assert (resumed.copied, resumed.same) == (count, 0)
    np.testing.assert_array_equal(oz.open(target, path="data")[...], data)

    again = oz.copy(source, target, update=True, compare="checksum")
    assert (again.copied, again.same) == (0, count)
    before = values(source)
    change(source, 5, seed)
    after = values(source)
    updated = oz.copy(source, target, update=True, delete=True, verify=True)
    assert values(target) == after
    assert updated.erased == len(before.keys() - after.keys())
    assert updated.verified == updated.copied

    other = make(new)
    oz.create_array(other, path="old/data", data=data)
    replaced = oz.copy(source, other, overwrite=True)
    assert values(other) == after
    assert replaced.copied == len(after)
