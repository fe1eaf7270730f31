"""Common operations, to be run with few resources: each prepares, acts and checks."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

import omnizarr as oz
from omnizarr import ome
from omnizarr.stores.lmdb import LMDBStore
from omnizarr.stores.sqlite import SQLiteStore

DATA = np.arange(1, 1 + 128 * 128, dtype="i4").reshape(128, 128)
BOX = np.s_[3:100, 5:70]
CHANGED = DATA.copy()
CHANGED[BOX] = 7
OPTIONS: dict[str, Any] = {}  # of the arrays, for those who want other codecs

# Prepares, gives what is to be tried, gets what that gave, and checks it.
Operation: TypeAlias = Generator[Callable[[], Any], Any, None]


def _array(location: Path, **options: Any) -> oz.Array:
    return oz.create_array(location / "x", data=DATA, **{"chunks": (32, 32), **OPTIONS, **options})


def _shards(location: Path) -> oz.Array:
    return _array(location, shards=(64, 64))


def _group(location: Path) -> oz.Group:
    group = oz.create_group(location / "x", attributes={"k": 1})
    for name in ("a", "inner/b", "inner/more/c"):
        group.create_array(name, data=DATA, chunks=(64, 64), **OPTIONS)
    return group


def _equal(found: Any, expected: Any = DATA) -> None:
    assert np.array_equal(found, expected)


def read(location: Path) -> Operation:
    array = _array(location)
    _equal((yield lambda: array[...]))


def read_with_a_cache(location: Path) -> Operation:
    array = _array(location)

    def act() -> Any:
        with oz.configure(chunk_cache="1MB"):
            return array[...]

    _equal((yield act))


def read_points(location: Path) -> Operation:
    array = _array(location)
    rows = np.arange(0, 128, 7)
    _equal((yield lambda: array.oindex[rows, rows]), DATA[np.ix_(rows, rows)])


def read_shards(location: Path) -> Operation:
    array = _shards(location)
    _equal((yield lambda: array[BOX]), DATA[BOX])


def write(location: Path) -> Operation:
    array = _array(location)
    yield lambda: array.__setitem__(..., DATA[::-1])
    _equal(array[...], DATA[::-1])


def write_durably(location: Path) -> Operation:
    array = _array(location)

    def act() -> None:
        with oz.configure(durability="fsync"):
            array[...] = DATA[::-1]

    yield act
    _equal(array[...], DATA[::-1])


def change(location: Path) -> Operation:
    array = _array(location)
    yield lambda: array.__setitem__(BOX, 7)
    _equal(array[...], CHANGED)


def write_shards(location: Path) -> Operation:
    array = _shards(location)
    yield lambda: array.__setitem__(..., DATA[::-1])
    _equal(array[...], DATA[::-1])


def change_shards(location: Path) -> Operation:
    array = _shards(location)
    yield lambda: array.__setitem__(BOX, 7)
    _equal(array[...], CHANGED)


def stream_shards(location: Path) -> Operation:
    array = _shards(location)

    def act() -> None:
        with array.writer() as writer:
            for row in range(3, 100):
                writer[row, 5:70] = 7

    yield act
    _equal(array[...], CHANGED)


def append(location: Path) -> Operation:
    array = _array(location)

    def act() -> None:
        array.refresh()
        array.append(DATA)

    yield act
    _equal(array[...], np.concatenate([DATA, DATA]))


def resize(location: Path) -> Operation:
    array = _array(location)
    yield lambda: array.resize((50, 128), outside="erase")
    _equal(array[...], DATA[:50])


def fill(location: Path) -> Operation:
    array = _array(location)
    yield lambda: array.__setitem__(..., 0)
    _equal(array[...], 0 * DATA)


def set_attributes(location: Path) -> Operation:
    array = _array(location)
    yield lambda: array.attrs.update({"k": 1})
    assert dict(oz.open(location / "x").attrs) == {"k": 1}


def open_array(location: Path) -> Operation:
    _array(location)
    found = yield lambda: oz.open(location / "x")
    _equal(found[...])


def create_group(location: Path) -> Operation:
    location.mkdir()
    yield lambda: oz.create_group(location / "x", overwrite=True)
    assert [*oz.open(location / "x").members()] == []


def create_array(location: Path) -> Operation:
    location.mkdir()
    yield lambda: _array(location, overwrite=True)
    _equal(oz.open(location / "x")[...])


def walk(location: Path) -> Operation:
    group = _group(location)
    found = yield lambda: [name for name, _ in group.members(max_depth=None)]
    assert sorted(found) == ["a", "inner", "inner/b", "inner/more", "inner/more/c"]


def look_at_a_member(location: Path) -> Operation:
    group = _group(location)
    found = yield lambda: ("inner/b" in group, "none" in group, group.get("inner/b"))
    assert found[:2] == (True, False)
    _equal(found[2][...])


def list_chunks(location: Path) -> Operation:
    array = _array(location)
    found = yield array.chunks_present
    assert found.all()


def consolidate(location: Path) -> Operation:
    _group(location)
    yield lambda: oz.consolidate_metadata(location / "x")
    group = oz.open(location / "x", use_consolidated=True)
    assert len([*group.members(max_depth=None)]) == 5


def open_consolidated(location: Path) -> Operation:
    _group(location)
    oz.consolidate_metadata(location / "x")
    found = yield lambda: [
        n for n, _ in oz.open(location / "x", use_consolidated=True).members(max_depth=None)
    ]
    assert len(found) == 5


def delete(location: Path) -> Operation:
    group = _group(location)
    yield lambda: group.store.erase_prefix("inner/more/")
    assert sorted(name for name, _ in group.members(max_depth=None)) == ["a", "inner", "inner/b"]


def verify(location: Path) -> Operation:
    _group(location)

    def act() -> Any:
        report = oz.verify(location / "x")
        for finding in report.findings:  # a chunk that could not be read is reported, not raised
            raise oz.StoreError(f"{location}: {finding}")
        return report

    found = yield act
    assert (found.arrays, found.groups, found.chunks, found.absent) == (3, 3, 12, 0)


def repair(location: Path) -> Operation:
    _group(location)
    oz.consolidate_metadata(location / "x")
    found = yield lambda: oz.repair(location / "x", dry_run=False)
    assert found == []


def validate(location: Path) -> Operation:
    _group(location)
    found = yield lambda: oz.validate(location / "x")
    assert not found


def copy(location: Path) -> Operation:
    _group(location)
    yield lambda: oz.copy(location / "x", location / "y", overwrite=True)
    _equal(oz.open(location / "y")["inner/more/c"][...])


def convert(location: Path) -> Operation:
    _group(location)
    yield lambda: oz.convert(location / "x", location / "y", zarr_format=2, overwrite=True)
    _equal(oz.open(location / "y")["inner/more/c"][...])


def write_an_image(location: Path) -> Operation:
    location.mkdir()
    yield lambda: ome.write(location / "x", DATA, axes="yx", levels=3, overwrite=True, **OPTIONS)
    _equal(ome.open(location / "x").levels[0][...])


def write_a_dataset(location: Path) -> Operation:
    import xarray as xr

    location.mkdir()
    dataset = xr.Dataset({"v": (("y", "x"), DATA), "w": ("x", DATA[0])})
    yield lambda: oz.xarray.write(dataset, location / "x", mode="w")
    found = xr.open_dataset(location / "x", engine="omnizarr")
    _equal(found.v.values)
    _equal(found.w.values, DATA[0])
    found.close()


def _in_a_store(location: Path, make: Callable[[Path], Any]) -> Operation:
    location.mkdir()
    with make(location) as store:
        oz.create_array(store, data=DATA, chunks=(32, 32), **OPTIONS)

    def act() -> Any:
        with make(location) as store:
            array = oz.open(store, mode="r+")
            array[BOX] = 7
            array.attrs["k"] = 1
            return array[...]

    _equal((yield act), CHANGED)
    with make(location) as store:
        assert oz.open(store).attrs["k"] == 1


def use_an_archive(location: Path) -> Operation:
    yield from _in_a_store(
        location, lambda location: oz.storage.ZipStore(location / "x.zip", mode="a")
    )


def use_sqlite(location: Path) -> Operation:
    yield from _in_a_store(location, lambda location: SQLiteStore(location / "x.sqlite"))


def use_lmdb(location: Path) -> Operation:
    yield from _in_a_store(
        location, lambda location: LMDBStore(location / "x.lmdb", map_size=2**24)
    )


def elements(location: Path) -> dict[str, Any]:
    """Return the elements of all arrays below a folder, by path."""
    found = {}
    for root in location.iterdir() if location.exists() else ():
        if not (root / "zarr.json").exists():
            continue
        node = oz.open(root)
        members = [("", node)] if isinstance(node, oz.Array) else node.members(max_depth=None)
        arrays = [(name, member) for name, member in members if isinstance(member, oz.Array)]
        found |= {f"{root.name}/{name}": member[...] for name, member in arrays}
    return found


def torn(old: dict[str, Any], between: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return arrays with values that nobody wrote, or an unexpected shape."""
    bad = []
    for name, values in between.items():
        known = [all_[name] for all_ in (old, new) if name in all_]
        same = [values == v for v in known if v.shape == values.shape]
        fresh = [] if name in old else [values == 0]  # what was not yet written
        if not same or not np.logical_or.reduce([*same, *fresh]).all():
            bad.append(name)
    return bad


def finish(steps: Operation, found: Any) -> None:
    """Let an operation check its result."""
    try:
        steps.send(found)
    except StopIteration:
        return
    raise AssertionError("an operation gives one thing to be tried")


OPERATIONS: dict[str, Callable[[Path], Operation]] = {
    function.__name__.replace("_", " "): function
    for function in (
        read,
        read_with_a_cache,
        read_points,
        read_shards,
        open_array,
        walk,
        look_at_a_member,
        list_chunks,
        open_consolidated,
        verify,
        validate,
        write,
        write_durably,
        change,
        write_shards,
        change_shards,
        stream_shards,
        append,
        resize,
        fill,
        set_attributes,
        create_group,
        create_array,
        consolidate,
        delete,
        repair,
        copy,
        convert,
        write_an_image,
        write_a_dataset,
        use_an_archive,
        use_sqlite,
        use_lmdb,
    )
}
ERASING = ("fill",)  # which needs no file
