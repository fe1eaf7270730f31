"""No public function removes data unless its name or an argument says so."""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import pytest

import omnizarr as oz
from tests.files import files
from tests.sampling import some_of_each

FORMATS = [1, 2, "3-draft", 3]
DATA = np.arange(1, 401, dtype="i4").reshape(20, 20)
OTHER = np.full((7, 7), 9, "i4")

# These assign values; other tests show that they change nothing else.
ASSIGN = {
    *("append", "writer", "set_basic_selection", "set_block_selection", "set_encoded_chunk"),
    *("set_coordinate_selection", "set_mask_selection", "set_orthogonal_selection"),
}
DELETE = {"delete"}
# These take no store, or are aliases of calls in the list.
HARMLESS = {
    *("configure", "register", "print_debug_info", "with_config", "astype", "chunk_key", "at"),
    *("get_basic_selection", "get_block_selection", "get_coordinate_selection"),
    *("get_mask_selection", "get_orthogonal_selection", "get_encoded_chunk", "to_dask"),
    *("get_array", "get_group", "batches", "stored_chunks", "serve", "serving"),
    *("preview", "show_versions", "view_as", "reference", "suggest_chunks", "trace"),
}


def populate(where: Path, zarr_format: Any) -> None:
    if zarr_format == 1:
        oz.create_array(where, data=DATA, chunks=(10, 10), zarr_format=1, attributes={"k": 1})
        return
    group = oz.create_group(where, zarr_format=zarr_format, attributes={"k": 1})
    group.create_array("a", data=DATA, chunks=(10, 10), attributes={"k": 1})
    group.create_array("g/b", data=DATA, chunks=(10, 10))
    group.create_group("empty")


def is_metadata(key: str) -> bool:
    return key.endswith((".json", ".zarray", ".zgroup", ".zattrs", ".zmetadata", "meta", "attrs"))


Call = Callable[[Path, Path], Any]


def _consume(result: Any) -> Any:
    return list(result) if inspect.isgenerator(result) else result


def functions() -> dict[str, list[Call]]:
    """Return calls of every public function on a store that has data; `new` is free."""
    new = {"shape": (7, 7), "dtype": "f8"}
    calls: dict[str, list[Call]] = {
        "undo_conversion": [
            lambda at, _: oz.undo_conversion(at),
            lambda at, _: oz.undo_conversion(at, zarr_format=2),
        ],
        "consolidate_metadata": [lambda at, _: oz.consolidate_metadata(at)],
        "convert": [
            lambda at, _: oz.convert(at, at),
            lambda at, _: oz.convert(at, at / "a"),
            lambda at, _: oz.convert(at / "a", at),
            lambda at, to: oz.convert(_filled(to), at, zarr_format=2),
            lambda at, to: oz.convert(at, to),
            lambda at, _: oz.convert(at, in_place=True),
            lambda at, _: oz.convert(at, in_place=True, zarr_format=2),
            lambda at, to: oz.convert(_filled(to), at, skip_damaged=True),
        ],
        "copy": [
            lambda at, _: oz.copy(at, at),
            lambda at, _: oz.copy(at, at / "a", overwrite=True),
            lambda at, to: oz.copy(_filled(to).store, at),
            lambda at, to: oz.copy(at, to),
        ],
        "rechunk": [
            lambda at, _: oz.rechunk(at, at, chunks=3),
            lambda at, to: oz.rechunk(_filled(to).store, at, chunks=3),
            lambda at, to: oz.rechunk(at, to, chunks=3),
        ],
        "run": [lambda at, to: oz.run(oz.jobs.Rechunk(_filled(to).store, at, chunks=3))],
        "stats": [lambda at, _: oz.stats(at)],
        "diff": [lambda at, to: oz.diff(at, _filled(to).store)],
        "disk_usage": [lambda at, _: oz.disk_usage(at)],
        "import_file": [lambda at, to: oz.import_file(_numpy_file(to), at)],
        "export_file": [lambda at, to: oz.export_file(at, to.with_suffix(".h5"))],
        "pyramid": [lambda at, to: oz.pyramid(_filled(to).store, at)],
        "create_array": [
            lambda at, _: oz.create_array(at, **new),
            lambda at, _: oz.create_array(at, data=OTHER),
            lambda at, _: oz.create_array(at, path="a", **new),
            lambda at, _: oz.create_array(at, path="g", **new),
            lambda at, _: oz.create_array(at, path="a/below", **new),
            lambda at, _: oz.create_array(at, path="a", zarr_format=2, **new),
        ],
        "create_group": [
            lambda at, _: oz.create_group(at),
            lambda at, _: oz.create_group(at, path="a"),
            lambda at, _: oz.create_group(at, path="g", zarr_format=2),
        ],
        "create_hierarchy": [
            lambda at, _: oz.create_hierarchy(
                store=at, nodes={"a": oz.open(at, path="g/b").metadata}
            )
        ],
        "from_dask": [lambda at, _: oz.from_dask(dask.array.from_array(OTHER), at, path="a")],
        "load": [lambda at, _: oz.load(at)],
        "repair": [lambda at, _: oz.repair(at), lambda at, _: oz.repair(at, dry_run=False)],
        "save": [
            lambda at, _: oz.save(at, OTHER),
            lambda at, _: oz.save(at, a=OTHER),
            lambda at, _: oz.save(at, OTHER, path="a"),
            lambda at, _: oz.save(at, g=OTHER, a=OTHER),
        ],
        "validate": [lambda at, _: oz.validate(at)],
        "verify": [lambda at, _: oz.verify(at)],
        "open": [
            lambda at, _: oz.open(at),
            lambda at, _: oz.open(at, use_consolidated=True),
            lambda at, _: oz.open(at, "a", shape=3, dtype="i1"),
            lambda at, _: oz.open(at, "a", path="a", **new, kind="array"),
            lambda at, _: oz.open(at, "w-", path="a", **new, kind="array"),
            lambda at, _: oz.open(at, path="g", **new, kind="array"),
            lambda at, _: oz.open(at, "a", path="a"),
            lambda at, _: oz.open(at, "w-", kind="group"),
        ],
    }
    return calls


def _filled(to: Path) -> oz.Group:
    group = oz.create_group(to)
    group.create_array("a", data=OTHER)
    return group


def _numpy_file(to: Path) -> Path:
    np.save(to.with_suffix(".npy"), OTHER)
    return to.with_suffix(".npy")


def methods() -> dict[str, list[Call]]:
    """Return the same for the methods of arrays and groups."""

    def array(at: Path) -> Any:
        try:
            return oz.open(at, "r+", path="a")
        except oz.NodeNotFound:
            return oz.open(at, "r+")

    def group(at: Path) -> Any:
        return oz.open(at, "r+", kind="group")

    calls: dict[str, list[Call]] = {
        "resize": [lambda at, _: array(at).resize((5, 5)), lambda at, _: array(at).resize((0, 9))],
        "refresh": [lambda at, _: array(at).refresh()],
        "read": [lambda at, _: array(at).read()],
        "chunks_present": [lambda at, _: array(at).chunks_present()],
        "nbytes_stored": [lambda at, _: array(at).nbytes_stored()],
        "move": [
            lambda at, _: group(at).move("a", "g"),
            lambda at, _: group(at).move("a", "g/b"),
            lambda at, _: group(at).move("g", "g/b"),
            lambda at, _: group(at).move("g", "g/inside"),
        ],
        "create_hierarchy": [
            lambda at, _: list(group(at).create_hierarchy({"a": group(at)["g/b"].metadata}))
        ],
        "get": [lambda at, _: group(at).get("a")],
        "tree": [lambda at, _: group(at).tree()],
        "require_array": [
            lambda at, _: group(at).require_array("a", shape=3, dtype="i1"),
            lambda at, _: group(at).require_array("g", shape=3, dtype="i1"),
        ],
        "require_group": [lambda at, _: group(at).require_group("a")],
        "create_group": [lambda at, _: group(at).create_group("g")],
        "create_array": [
            lambda at, _: group(at).create_array("g", shape=3, dtype="i1"),
            lambda at, _: group(at).create_array("a", data=OTHER),
        ],
    }
    for name in ("arrays", "groups", "items", "keys", "members", "values"):
        calls[name] = [lambda at, _, n=name: list(getattr(group(at), n)())]  # type: ignore[misc]  # bound now
    return calls


def test_every_public_function_is_listed() -> None:
    public = {n for n in oz.__all__ if inspect.isfunction(getattr(oz, n))}
    assert public - HARMLESS == functions().keys()
    of_nodes = {
        n
        for node in (oz.Array, oz.Group)
        for n in dir(node)
        if not n.startswith("_") and callable(getattr(node, n))
    }
    assert of_nodes - HARMLESS - ASSIGN - DELETE == methods().keys()


CALLS = {
    f"{kind}-{name}-{number}": call
    for kind, table in (("oz", functions()), ("node", methods()))
    for name, calls in table.items()
    for number, call in enumerate(calls)
}


@pytest.mark.parametrize(("name", "zarr_format"), some_of_each(CALLS, FORMATS, 2))
def test_no_call_removes_or_changes_stored_data(
    name: str, zarr_format: Any, tmp_path: Path
) -> None:
    where = tmp_path / "x.zarr"
    populate(where, zarr_format)
    before = files(where)
    assert sum(not is_metadata(key) for key in before) >= 4
    with warnings.catch_warnings(), contextlib.suppress(oz.OmnizarrError):
        warnings.simplefilter("ignore")
        _consume(CALLS[name](where, tmp_path / "new.zarr"))
    after = files(where)
    assert {k: v for k, v in before.items() if not is_metadata(k)}.items() <= after.items()
    assert before.keys() <= after.keys()
    node = oz.open(where, zarr_format=zarr_format)
    assert node.attrs["k"] == 1
    arrays = [node] if isinstance(node, oz.Array) else [node["a"], node["g/b"]]
    for array in arrays:
        again = oz.open(where, "r+", path=array.path, zarr_format=zarr_format)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about chunks that reappear
            again.resize((20, 20))
        assert np.array_equal(again[...], DATA)


@pytest.mark.parametrize("zarr_format", FORMATS)
@pytest.mark.parametrize(
    "call",
    [
        lambda at: oz.create_array(at, shape=3, dtype="i1", overwrite=True),
        lambda at: oz.create_group(at, overwrite=True),
        lambda at: oz.open(at, "w"),
        lambda at: oz.open(at, "w", shape=3, dtype="i1"),
        lambda at: oz.save(at, OTHER, overwrite=True),
    ],
)
@pytest.mark.parametrize("name", ["notes.txt", "a/notes.txt", "g/photo.jpg", "empty/x/y"])
def test_overwriting_keeps_files_that_are_not_zarr(
    call: Callable[[Path], Any], zarr_format: Any, name: str, tmp_path: Path
) -> None:
    where = tmp_path / "x"
    populate(where, zarr_format)
    if zarr_format == "3-draft":
        name = f"data/root/{name}"
    (where / name).parent.mkdir(parents=True, exist_ok=True)
    (where / name).write_text("not Zarr")
    before = files(where)
    with contextlib.suppress(oz.OmnizarrError):
        call(where)
    assert before.items() <= files(where).items()


def test_deleting_a_link_keeps_its_target(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    oz.create_array(outside, data=DATA, chunks=(10, 10))
    group = oz.create_group(tmp_path / "x")
    group.create_array("a", data=DATA)
    (tmp_path / "x/link").symlink_to(outside)
    before = files(outside)
    with pytest.raises(oz.StoreError, match="symbolic link"):
        del group["link"]
    assert files(outside) == before
    oz.create_group(tmp_path / "x", overwrite=True)
    assert files(outside) == before
