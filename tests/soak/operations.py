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
ROWS = np.arange(0, 128, 7)
CHANGED = DATA.copy()
CHANGED[BOX] = 7
OPTIONS: dict[str, Any] = {}  # of the arrays, for those who want other codecs

# Prepares, gives what is to be tried, gets what that gave, and checks it.
Operation: TypeAlias = Generator[Callable[[], Any], Any, None]


def _operation(
    prepare: Callable[[Path], Any],
    act: Callable[[Any], Any],
    expected: Any = DATA,
    see: Callable[[Any], Any] | None = None,
) -> Callable[[Path], Operation]:
    """Return an operation whose result, or what is seen afterwards, is as expected."""

    def operation(location: Path) -> Operation:
        location.mkdir()
        subject = prepare(location)
        found = yield lambda: act(subject)
        assert np.array_equal(found if see is None else see(subject), expected)

    return operation


def _array(location: Path, **options: Any) -> oz.Array:
    return oz.create_array(location / "x", data=DATA, **{"chunks": (32, 32), **OPTIONS, **options})


def _shards(location: Path) -> oz.Array:
    return _array(location, shards=(64, 64))


def _group(location: Path) -> oz.Group:
    group = oz.create_group(location / "x", attributes={"k": 1})
    for name in ("a", "inner/b", "inner/more/c"):
        group.create_array(name, data=DATA, chunks=(64, 64), **OPTIONS)
    return group


def _stored(location: Path) -> Path:
    _group(location)
    oz.consolidate_metadata(location / "x")
    return location


def _members(location: Path) -> list[str]:
    group = oz.open(location / "x", use_consolidated=True)
    return sorted(name for name, _ in group.members(max_depth=None))


def _writes(
    prepare: Callable[[Path], Any], act: Callable[[Any], Any], expected: Any
) -> Callable[[Path], Operation]:
    return _operation(prepare, act, expected, lambda array: array[...])


def _set(part: Any, value: Any, **settings: Any) -> Callable[[oz.Array], None]:
    def act(array: oz.Array) -> None:
        with oz.configure(**settings):
            array[part] = value

    return act


def _read_with_a_cache(array: oz.Array) -> Any:
    with oz.configure(chunk_cache="1MB"):
        return array[...]


def _stream(array: oz.Array) -> None:
    with array.writer() as writer:
        for row in range(3, 100):
            writer[row, 5:70] = 7


def _append(array: oz.Array) -> None:
    array.refresh()
    array.append(DATA)


def _verify(location: Path) -> tuple[int, ...]:
    report = oz.verify(location / "x")
    for finding in report.findings:  # a chunk that could not be read is reported, not raised
        raise oz.StoreError(f"{location}: {finding}")
    return report.arrays, report.groups, report.chunks, report.absent


def _write_dataset(location: Path) -> None:
    import xarray as xr

    dataset = xr.Dataset({"v": (("y", "x"), DATA), "w": ("x", DATA[0])})
    oz.xarray.write(dataset, location / "x", mode="w")


def _in_a_store(make: Callable[[Path], Any]) -> Callable[[Path], Operation]:
    def prepare(location: Path) -> Path:
        with make(location) as store:
            oz.create_array(store, data=DATA, chunks=(32, 32), **OPTIONS)
        return location

    def act(location: Path) -> Any:
        with make(location) as store:
            array = oz.open(store, mode="r+")
            array[BOX] = 7
            array.attrs["k"] = 1
            return array[...]

    return _operation(prepare, act, CHANGED)


NAMES = ["a", "inner", "inner/b", "inner/more", "inner/more/c"]
OPERATIONS: dict[str, Callable[[Path], Operation]] = {
    "read": _operation(_array, lambda a: a[...]),
    "read with a cache": _operation(_array, _read_with_a_cache),
    "read points": _operation(_array, lambda a: a.oindex[ROWS, ROWS], DATA[np.ix_(ROWS, ROWS)]),
    "read shards": _operation(_shards, lambda a: a[BOX], DATA[BOX]),
    "open array": _operation(lambda at: _array(at) and at, lambda at: oz.open(at / "x")),
    "walk": _operation(_group, lambda g: sorted(n for n, _ in g.members(max_depth=None)), NAMES),
    "look at a member": _operation(
        _group, lambda g: ("inner/b" in g, "none" in g, "a" in g), (True, False, True)
    ),
    "list chunks": _operation(_array, lambda a: a.chunks_present().all(), True),
    "open consolidated": _operation(_stored, _members, NAMES),
    "verify": _operation(_stored, _verify, (3, 3, 12, 0)),
    "validate": _operation(_stored, lambda at: oz.validate(at / "x"), []),
    "write": _writes(_array, _set(..., DATA[::-1]), DATA[::-1]),
    "write durably": _writes(_array, _set(..., DATA[::-1], durability="fsync"), DATA[::-1]),
    "change": _writes(_array, _set(BOX, 7), CHANGED),
    "write shards": _writes(_shards, _set(..., DATA[::-1]), DATA[::-1]),
    "change shards": _writes(_shards, _set(BOX, 7), CHANGED),
    "stream shards": _writes(_shards, _stream, CHANGED),
    "append": _writes(_array, _append, np.concatenate([DATA, DATA])),
    "resize": _writes(_array, lambda a: a.resize((50, 128), outside="erase"), DATA[:50]),
    "fill": _writes(_array, _set(..., 0), 0 * DATA),
    "set attributes": _operation(
        _array, lambda a: a.attrs.update({"k": 1}), {"k": 1}, lambda a: dict(a.attrs)
    ),
    "create group": _operation(
        lambda at: at,
        lambda at: oz.create_group(at / "x", overwrite=True),
        [],
        lambda at: [*oz.open(at / "x").members()],
    ),
    "create array": _operation(lambda at: at, lambda at: _array(at, overwrite=True)),
    "consolidate": _operation(
        lambda at: _group(at) and at,
        lambda at: oz.consolidate_metadata(at / "x"),
        NAMES,
        _members,
    ),
    "delete": _operation(
        _group,
        lambda g: g.store.erase_prefix("inner/more/"),
        NAMES[:3],
        lambda g: sorted(name for name, _ in g.members(max_depth=None)),
    ),
    "repair": _operation(_stored, lambda at: oz.repair(at / "x", dry_run=False), []),
    "copy": _operation(
        _stored,
        lambda at: oz.copy(at / "x", at / "y", overwrite=True),
        DATA,
        lambda at: oz.open(at / "y")["inner/more/c"][...],
    ),
    "convert": _operation(
        _stored,
        lambda at: oz.convert(at / "x", at / "y", zarr_format=2, overwrite=True),
        DATA,
        lambda at: oz.open(at / "y")["inner/more/c"][...],
    ),
    "write an image": _operation(
        lambda at: at,
        lambda at: ome.write(at / "x", DATA, axes="yx", levels=3, overwrite=True, **OPTIONS),
        DATA,
        lambda at: ome.open(at / "x").levels[0][...],
    ),
    "write a dataset": _operation(
        lambda at: at, _write_dataset, DATA, lambda at: oz.open(at / "x")["v"][...]
    ),
    "use an archive": _in_a_store(lambda at: oz.storage.ZipStore(at / "x.zip", mode="a")),
    "use sqlite": _in_a_store(lambda at: SQLiteStore(at / "x.sqlite")),
    "use lmdb": _in_a_store(lambda at: LMDBStore(at / "x.lmdb", map_size=2**24)),
}
ERASING = ("fill",)  # which needs no file


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
