"""Operations that a writer may die in: each prepares a place, and acts on it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

import omnizarr as oz
from tests.crash.places import Place

OLD = np.arange(1, 25, dtype="i4").reshape(6, 4)
NEW = OLD + 100
CHUNKS = (3, 2)
Format: TypeAlias = int | str
# What may be there afterwards: all old or all new; also nothing at the targets; also both nodes of
# a move; each node by itself; each chunk by itself.
Rule: TypeAlias = Literal["whole", "absent", "both", "nodes", "chunks"]
FORMATS: tuple[Format, ...] = (2, 3)


@dataclass(frozen=True)
class Operation:
    """`act` is killed or stopped; `force` ends with the new state whatever a dead writer left."""

    promise: str  # the row of the table of promises
    act: Callable[[Place], object]
    rule: Rule = "whole"
    target: str = ""  # what an in-place job replaces, or another job makes below the root
    prepare: Callable[[Place, Format], object] | None = None
    force: Callable[[Place], object] | None = None
    resume: Callable[[Place], object] | None = None
    formats: tuple[Format, ...] = FORMATS
    beside: tuple[str, ...] = ("same", "write")  # the second writers while this one is stopped


def prepare(place: Place, zarr_format: Format) -> None:
    """Store arrays and groups, and others with similar names that must not change."""
    root = oz.create_group(place.root(), zarr_format=zarr_format, attributes={"k": 1})
    for number, name in enumerate(("x", "x1", "g/a", "g/b/c", "g1/a")):
        chunks = {"x": CHUNKS, "g/a": (3, 4)}.get(name, OLD.shape)
        root.create_array(name, data=OLD + 50 * number, chunks=chunks, attributes={"k": number})


def prepare_shards(place: Place, zarr_format: Format) -> None:
    prepare(place, zarr_format)
    shards: dict[str, Any] = {"shards": (3, 4)} if zarr_format == 3 else {}
    _group(place).create_array("s", data=OLD, chunks=CHUNKS, **shards)


def prepare_file(place: Place, zarr_format: Format) -> None:
    prepare(place, zarr_format)
    np.save(place.folder / "in.npy", NEW)


def prepare_copy(place: Place, zarr_format: Format) -> None:
    """Store also a hierarchy that a copy replaces."""
    prepare(place, zarr_format)
    other = oz.create_group(place.root("out"), zarr_format=zarr_format, attributes={"k": 2})
    other.create_array("x", data=NEW, chunks=CHUNKS, attributes={"k": 3})
    other.create_array("h/y", data=NEW)


def prepare_consolidated(place: Place, zarr_format: Format) -> None:
    prepare(place, zarr_format)
    oz.consolidate_metadata(place.root())


def prepare_end(place: Place, zarr_format: Format) -> None:
    """Store an array of which the last chunks reach beyond the shape."""
    prepare(place, zarr_format)
    _group(place).create_array("e", data=OLD[:5], chunks=CHUNKS)


def _group(place: Place) -> oz.Group:
    return oz.open(place.root(), mode="r+")


def _array(place: Place, name: str = "x") -> oz.Array:
    found: oz.Array = _group(place)[name]
    return found


def _create(name: str, **options: Any) -> Callable[[Place], object]:
    return lambda place: _group(place).create_array(name, **{"chunks": CHUNKS, **options})


def _new(act: Callable[..., object], **options: Any) -> dict[str, Callable[[Place], object]]:
    """Return what creates a node, and what does so with overwrite=True."""
    return {
        "act": lambda place: act(place, **options),
        "force": lambda place: act(place, **options, overwrite=True),
    }


def _job(act: Callable[..., object]) -> dict[str, Any]:
    resume = {"resume": lambda place: act(place, resume=True)}
    return {**_new(act), **resume, "rule": "whole", "beside": ("same", "write", "resume")}


def _options(place: Place, **more: Any) -> dict[str, Any]:
    """Return the options of what a new array in the format of a place is made with."""
    return {"chunks": CHUNKS, "zarr_format": place.zarr_format, **more}


def _create_data(place: Place, **more: Any) -> object:
    return _group(place).create_array("new", data=NEW, chunks=CHUNKS, **more)


def _create_shards(place: Place, **more: Any) -> object:
    return _create_data(place, shards=(3, 4), **more)


def _create_root(place: Place, **more: Any) -> object:
    return oz.create_array(place.root("out"), data=NEW, **_options(place, **more))


def _save(place: Place, **more: Any) -> object:
    return oz.save(place.root("out"), NEW, **_options(place, **more))


def _save_group(place: Place, **more: Any) -> object:
    return oz.save(place.root("out"), a=NEW, b=OLD, **_options(place, **more))


def _from_array(place: Place, **more: Any) -> object:
    return oz.create_array(place.root("out"), data=_array(place), **more)


def _assign(name: str) -> Callable[[Place], object]:
    return lambda place: _group(place).__setitem__(name, NEW)


def _overwrite_root(place: Place) -> object:
    return oz.create_array(place.root(), data=NEW, **_options(place, overwrite=True))


def _delete(name: str) -> Callable[[Place], object]:
    return lambda place: _group(place).delete(name)


def _move(name: str, new: str) -> Callable[[Place], object]:
    return lambda place: _group(place).move(name, new)


def _resize(shape: tuple[int, ...], outside: Any, name: str = "x") -> Callable[[Place], object]:
    return lambda place: _array(place, name).resize(shape, outside=outside)


def _set(name: str, where: Any, value: Any) -> Callable[[Place], object]:
    return lambda place: _array(place, name).__setitem__(where, value)


def _stream(place: Place) -> None:
    with _array(place, "s").writer() as writer:
        for row in range(len(OLD)):
            writer[row] = NEW[row]


def _append(place: Place) -> object:
    return _array(place).append(NEW[:3])


def _copy_hierarchy(place: Place, **more: Any) -> object:
    return oz.copy(place.root(), place.root("out"), **more)


def _copy_over(place: Place, **more: Any) -> object:
    return _copy_hierarchy(place, **{"overwrite": True, **more})


def _convert(place: Place, **more: Any) -> object:
    other = 3 if place.zarr_format == 2 else 2
    return oz.convert(place.root(), place.root("out"), zarr_format=other, **more)


def _convert_in_place(place: Place) -> object:
    return oz.convert(place.root(), zarr_format=3, in_place=True)


def _rechunk(place: Place, **more: Any) -> object:
    return oz.rechunk(place.root(), place.root("out"), chunks=(2, 4), **more)


def _rechunk_in_place(passes: int) -> Callable[..., object]:
    options: Any = {"node": "x", "chunks": (2, 4), "in_place": True, "passes": passes}
    return lambda place, **more: oz.rechunk(place.root(), **options, **more)


def _pyramid(place: Place, **more: Any) -> object:
    return oz.pyramid(_array(place), place.root("out"), axes="yx", levels=2, **more)


def _import(place: Place, **more: Any) -> object:
    source = str(place.folder / "in.npy")
    return oz.import_file(source, place.root("out"), **_options(place, **more))


def _ome(place: Place, **more: Any) -> object:
    version = {2: "0.4", 3: "0.5"}[int(place.zarr_format)]
    options: Any = {"axes": "yx", "levels": 2, "version": version, "chunks": CHUNKS, **more}
    return oz.ome.write(place.root("out"), NEW, **options)


def _cf(place: Place, **more: Any) -> object:
    dataset = oz.cf.create(place.root("out"), zarr_format=place.zarr_format, **more)
    return dataset.create_variable("v", NEW, dimensions=["y", "x"], chunks=CHUNKS)


def _geo(place: Place, **more: Any) -> object:
    options = _options(place, crs="EPSG:4326", bounds=(0, 0, 4, 6), levels=2, **more)
    return oz.geo.write(place.root("out"), NEW, **options)


def _dataset(first: int = 0) -> Any:
    import xarray

    time = ("time", np.arange(first, first + 6))
    return xarray.Dataset({"v": (("time", "x"), NEW)}, coords={"time": time})


def _xarray(place: Place, overwrite: bool = False) -> object:
    options: Any = {"mode": "w" if overwrite else "w-", "zarr_format": place.zarr_format}
    encoding = {"v": {"chunks": CHUNKS}}
    return oz.xarray.write(_dataset(), place.root("out"), encoding=encoding, **options)


def _prepare_dataset(place: Place, zarr_format: Format) -> None:
    prepare(place, zarr_format)
    _xarray(place)


def _append_dataset(place: Place) -> object:
    return oz.xarray.write(_dataset(6), place.root("out"), append_dim="time")


def _dask(place: Place, **more: Any) -> object:
    import dask.array

    source = dask.array.from_array(NEW, chunks=CHUNKS)
    return oz.from_dask(source, place.root("out"), zarr_format=place.zarr_format, **more)


def write_beside(place: Place) -> object:
    """Change an element of the array that other operations change: a second writer."""
    return _set("x", (5, 3), 7)(place)


def hold_x(place: Place) -> None:
    """Do so through a handle that is older than what happens while this process is stopped."""
    array = _array(place)
    os.kill(os.getpid(), signal.SIGSTOP)
    array[5, 3] = 7
    place.close()


def _append_to_chunk(place: Place) -> object:
    return _array(place, "e").append(NEW[:2])


def _append_below(place: Place) -> object:
    return _array(place, "g/a").append(NEW)


def _overwrite_group(place: Place) -> object:
    return _group(place).create_group("g", overwrite=True, attributes={"k": 9})


ABOVE: dict[str, Callable[[Place], object]] = {
    "delete group": _delete("g"),
    "move group": _move("g", "m"),
    "overwrite group": _overwrite_group,
}
AT_TARGET: dict[str, Callable[[Place], object]] = {
    "create group": lambda place: _group(place).create_group("m"),
    "create with data": _create("m", data=NEW),
    "create a member": _create("m/y", data=NEW),
    "move another": _move("x1", "m"),
}
AT_END: dict[str, Callable[[Place], object]] = {
    "append to a chunk": _append_to_chunk,
    "shrink a chunk": _resize((4, 4), "erase", "e"),
    "write the end": _set("e", np.s_[3:], 7),
}
OPERATIONS: dict[str, Operation] = {
    "create": Operation("create", _create("new", shape=(6, 4), dtype="i4")),
    "create group": Operation("create", lambda p: _group(p).create_group("new/a"), "nodes"),
    "create with data": Operation("create with data", **_new(_create_data)),
    "create shards with data": Operation("create with data", **_new(_create_shards), formats=(3,)),
    "create root with data": Operation("create with data", **_new(_create_root)),
    "save": Operation("create with data", **_new(_save)),
    "save group": Operation("create with data", **_new(_save_group), rule="nodes"),
    "assign new": Operation("create with data", _assign("new")),
    "from array": Operation("create with data", **_new(_from_array)),
    "overwrite": Operation("overwrite", _create("x", data=NEW, overwrite=True)),
    "overwrite consolidated": Operation(
        "overwrite",
        _create("x", data=NEW, overwrite=True, chunks=(3, 4)),
        prepare=prepare_consolidated,
    ),
    "overwrite without data": Operation(
        "overwrite", _create("x", shape=(6, 4), dtype="i4", overwrite=True)
    ),
    "overwrite shards": Operation(
        "overwrite", _create("s", data=NEW, overwrite=True), prepare=prepare_shards
    ),
    "overwrite group by array": Operation("overwrite", _create("g", data=NEW, overwrite=True)),
    "overwrite group": Operation(
        "overwrite", lambda p: _group(p).create_group("g", overwrite=True)
    ),
    "overwrite root": Operation("overwrite root", _overwrite_root, "absent"),
    "assign": Operation("overwrite", _assign("x")),
    "delete array": Operation("delete", _delete("x"), prepare=prepare_consolidated),
    "delete group": Operation("delete", _delete("g")),
    "move array": Operation("move", _move("x", "m/y"), "both"),
    "move group": Operation("move", _move("g", "m"), "both", prepare=prepare_consolidated),
    "move to a path in use": Operation(
        "move", _move("g", "m"), "both", beside=("create group", "create with data", "move another")
    ),
    "shrink, keep": Operation("resize", _resize((2, 3), "keep")),
    "shrink, erase": Operation("resize", _resize((2, 3), "erase")),
    "shrink shards, erase": Operation(
        "resize", _resize((2, 3), "erase", "s"), prepare=prepare_shards
    ),
    "grow": Operation("resize", _resize((9, 7), "erase")),
    "append": Operation("append", _append),
    "append to a chunk": Operation(
        "append", _append_to_chunk, prepare=prepare_end, beside=("same", "write the end")
    ),
    "shrink a chunk, erase": Operation(
        "resize", AT_END["shrink a chunk"], prepare=prepare_end, beside=("same", "write the end")
    ),
    "write the end": Operation(
        "write", AT_END["write the end"], "chunks", prepare=prepare_end, beside=(*AT_END,)
    ),
    "write element": Operation("write", _set("x", (0, 0), 7), "chunks"),
    "write region": Operation("write", _set("x", np.s_[1:5, 1:3], 7), "chunks"),
    "write all": Operation("write", _set("x", ..., NEW), "chunks"),
    "write fill": Operation("write", _set("x", ..., 0), "chunks"),
    "write shards": Operation(
        "write", _set("s", np.s_[1:5, 1:3], 7), "chunks", prepare=prepare_shards
    ),
    "writer": Operation("write", _stream, "chunks", prepare=prepare_shards),
    "attributes": Operation("attributes", lambda p: _array(p).attrs.update({"k": 2, "l": [3]})),
    "group attributes": Operation(
        "attributes", lambda p: _group(p).attrs.update({"k": 2}), prepare=prepare_consolidated
    ),
    "consolidate": Operation("consolidate", lambda p: oz.consolidate_metadata(p.root())),
    "create at a target": Operation(
        "create", _create("m", shape=(6, 4), dtype="i4"), beside=("move group", "create a member")
    ),
    "create below": Operation(
        "create", _create("g/new", shape=(6, 4), dtype="i4"), beside=(*ABOVE,)
    ),
    "create with data below": Operation(
        "create with data", _create("g/new", data=NEW), beside=(*ABOVE,)
    ),
    "overwrite below": Operation(
        "overwrite", _create("g/a", data=NEW, overwrite=True), beside=(*ABOVE,)
    ),
    "delete below": Operation("delete", _delete("g/a"), beside=(*ABOVE,)),
    "grow below": Operation("resize", _resize((9, 7), "erase", "g/a"), beside=(*ABOVE,)),
    "append below": Operation("append", _append_below, beside=(*ABOVE,)),
    "write below": Operation("write", _set("g/a", ..., NEW), "chunks", beside=(*ABOVE,)),
    "attributes below": Operation(
        "attributes", lambda p: _array(p, "g/a").attrs.update({"k": 8}), beside=(*ABOVE,)
    ),
    "copy hierarchy": Operation("job", **_job(_copy_hierarchy)),
    "copy over a hierarchy": Operation(
        "overwrite root", **{**_job(_copy_over), "rule": "absent"}, prepare=prepare_copy
    ),
    "convert": Operation("job", **_job(_convert)),
    "convert in place": Operation("convert in place", _convert_in_place, "nodes", formats=(2,)),
    "rechunk": Operation("job", **_job(_rechunk)),
    "rechunk in place": Operation(
        "in-place job", **{**_job(_rechunk_in_place(1)), "force": None}, target="data:x"
    ),
    "rechunk in place, two passes": Operation(
        "in-place job", **{**_job(_rechunk_in_place(2)), "force": None}, target="data:x"
    ),
    "pyramid": Operation("job", **_job(_pyramid), formats=(3,)),
    "import": Operation("job", **_job(_import), prepare=prepare_file),
    "OME write": Operation("job", **_new(_ome)),
    "CF write": Operation("create with data", **_new(_cf), rule="nodes"),
    "geo write": Operation("job", **_new(_geo)),
    "xarray write": Operation("job", **_new(_xarray)),
    "xarray append": Operation("job", _append_dataset, prepare=_prepare_dataset, rule="nodes"),
    "Dask write": Operation("job", **_new(_dask)),
}
