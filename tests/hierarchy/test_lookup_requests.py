"""The number of requests that operations send to a server: one table of exact numbers.

Of a directory, the keys that are looked at, and the functions that are called.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import omnizarr as oz
from omnizarr.hierarchy import lookup
from omnizarr.stores import resolve
from tests.servers.processes import s3_options
from tests.servers.s3 import SimpleStorage
from tests.servers.web import Web, running


@pytest.fixture(autouse=True)
def forget() -> None:
    lookup._likely._values.clear()


def hierarchy(zarr_format: int) -> dict[str, bytes]:
    """Return a group with two coordinates, three variables, and consolidated metadata."""
    values: dict[str, bytes] = {}
    store = oz.storage.MemoryStore(values)
    group = oz.create_group(store, zarr_format=zarr_format)
    for name in ("x", "y"):
        array = group.create_array(name, data=np.arange(4.0), dimension_names=[name])
        if zarr_format == 2:
            array.attrs["_ARRAY_DIMENSIONS"] = [name]
    for name in ("a", "b", "c"):
        array = group.create_array(name, data=np.ones((4, 4)), dimension_names=["x", "y"])
        if zarr_format == 2:
            array.attrs["_ARRAY_DIMENSIONS"] = ["x", "y"]
    oz.consolidate_metadata(store)
    return values


READS: list[tuple[str, int, int, Callable[[str], object]]] = [
    # operation, requests in version 2, requests in version 3
    ("open an array", 4, 1, lambda url: oz.open(f"{url}/a")),
    ("open two arrays", 8, 2, lambda url: [oz.open(f"{url}/{name}") for name in "ab"]),
    ("open an array by its path", 5, 2, lambda url: oz.open(url, path="a")),
    ("open and read one chunk", 5, 2, lambda url: oz.open(f"{url}/a")[...]),
    ("open a group", 4, 1, lambda url: oz.open(url, kind="group")),
    ("members of a group", 5, 1, lambda url: [*oz.open(url).members()]),
    ("open with consolidated metadata", 2, 2, lambda url: oz.open(url, use_consolidated=True)),
    ("open and list", 2, 2, lambda url: [*oz.open(url, use_consolidated=True).arrays()]),
    ("xarray.open_dataset", 4, 4, lambda url: xr.open_dataset(url, engine="omnizarr")),
]


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("row", READS, ids=lambda row: row[0])
def test_reading_takes_as_many_requests_as_listed(
    web: Web, row: tuple[str, int, int, Callable[[str], object]], zarr_format: int
) -> None:
    _, *counts, call = row
    web.values |= hierarchy(zarr_format)
    call(web.url)
    assert len(web.log) == counts[zarr_format - 2], [path for _, path, _ in web.log]


@pytest.fixture
def bucket() -> Iterator[tuple[SimpleStorage, Callable[[str], Any]]]:
    server = SimpleStorage()
    server.buckets = {"bucket": {}}
    with running(server):
        options = s3_options(server.url)
        yield server, lambda path: resolve(f"s3://bucket/{path}", storage_options=options)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_creating_takes_as_many_requests_as_listed(
    bucket: tuple[SimpleStorage, Callable[[str], Any]], zarr_format: int
) -> None:
    server, store = bucket

    def requests(create: Callable[[], object]) -> int:
        server.log.clear()
        create()
        return len(server.log)

    def array(path: str, **options: Any) -> Callable[[], object]:
        return lambda: oz.create_array(
            store(path), shape=4, dtype="i4", zarr_format=zarr_format, **options
        )

    assert requests(array("one")) == 2
    assert requests(lambda: oz.create_group(store("two"), zarr_format=zarr_format)) == 2
    group = oz.open(store("two"), "r+")
    inside = requests(lambda: group.create_array("a", shape=4, dtype="i4"))
    assert inside == {2: 7, 3: 3}[zarr_format]
    with pytest.raises(oz.NodeExists):
        array("one")()


def test_a_node_of_another_format_prevents_a_new_one_in_a_bucket(
    bucket: tuple[SimpleStorage, Callable[[str], Any]],
) -> None:
    _, store = bucket
    oz.create_array(store("old"), shape=4, dtype="i4", zarr_format=2)
    with pytest.raises(oz.NodeExists, match="zarr 2 array"):
        oz.create_array(store("old"), shape=4, dtype="i4", zarr_format=3)


@pytest.mark.filterwarnings("ignore:.*there are metadata of zarr 3 and zarr 2")
def test_the_formats_of_neighbours_do_not_change_what_is_found(web: Web) -> None:
    """Version 3 takes precedence, whatever was opened before."""
    for path, version in ("both", 2), ("both", 3), ("old", 2), ("new", 3):
        some: dict[str, bytes] = {}
        oz.create_array(some, shape=version, dtype="i4", zarr_format=version)
        web.values |= {f"{path}/{key}": value for key, value in some.items()}
    for before in (None, "old", "new"):
        lookup._likely._values.clear()
        if before is not None:
            oz.open(f"{web.url}/{before}")
        for path, shape in ("both", (3,)), ("old", (2,)), ("new", (3,)):
            assert oz.open(f"{web.url}/{path}").shape == shape
        with pytest.raises(oz.NodeNotFound):
            oz.open(f"{web.url}/none", kind="array")


# Directories: no requests, but system calls


class Asked(oz.storage.LocalStore):
    """A directory that notes the keys that are asked for."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.keys: list[str] = []

    def get(self, key: str, range: Any = None) -> bytes | None:
        self.keys.append(key)
        return super().get(key, range)

    def get_many(self, requests: Iterable[tuple[str, Any]]) -> list[bytes | None]:
        wanted = [*requests]
        self.keys += [key for key, _ in wanted]
        return super().get_many(wanted)


@pytest.mark.parametrize(
    ("zarr_format", "path", "keys"),
    [
        (3, "", ["zarr.json"]),
        (3, "b/a", ["b/a/zarr.json"]),
        (2, "", ["zarr.json", ".zarray", ".zattrs"]),
        (2, "b/a", ["b/a/zarr.json", "zarr.json", "b/a/.zarray", "b/a/.zattrs"]),
    ],
)
def test_an_array_in_a_directory_is_opened_by_its_own_documents(
    tmp_path: Path, zarr_format: int, path: str, keys: list[str]
) -> None:
    oz.create_array(tmp_path, path=path, shape=4, dtype="i4", zarr_format=zarr_format)
    store = Asked(tmp_path)
    assert oz.open(store, path=path).shape == (4,)
    assert store.keys == keys


def test_metadata_of_two_formats_are_found_where_one_takes_precedence(tmp_path: Path) -> None:
    """Of an array only by checks, which look at all keys."""
    for zarr_format in (3, 2):
        oz.create_array(
            tmp_path / str(zarr_format), shape=zarr_format, dtype="i4", zarr_format=zarr_format
        )
    (tmp_path / "2" / ".zarray").rename(tmp_path / "3" / ".zarray")
    assert oz.open(tmp_path / "3").shape == (3,)
    found = oz.validate(tmp_path / "3")
    assert any("zarr 3 and zarr 2; zarr 3 is used" in problem.message for problem in found)


def test_a_group_whose_document_mentions_arrays_first_is_opened_as_a_group(tmp_path: Path) -> None:
    """zarr-python writes the entries of the members before the type of the node."""
    group = oz.create_group(tmp_path)
    group.create_array("a", data=np.arange(3))
    oz.consolidate_metadata(tmp_path)
    document = json.loads((tmp_path / "zarr.json").read_bytes())
    document["node_type"] = document.pop("node_type")
    (tmp_path / "zarr.json").write_text(json.dumps(document))
    (tmp_path / "a" / "zarr.json").unlink()  # only its entry is left
    assert list(oz.open(tmp_path, use_consolidated=True)) == ["a"]


@pytest.mark.parametrize(
    ("zarr_format", "keys"),
    [(3, ["zarr.json"]), (2, [".zarray", ".zgroup", ".zattrs", ".zmetadata"])],
)
def test_a_new_array_in_a_directory_needs_a_look_at_its_group_only(
    tmp_path: Path, zarr_format: int, keys: list[str]
) -> None:
    oz.create_group(tmp_path, zarr_format=zarr_format)
    store = Asked(tmp_path)
    group = oz.open(store, "r+")
    store.keys.clear()
    group.create_array("a", shape=4, dtype="i4")
    assert store.keys == keys
    with pytest.raises(oz.NodeExists, match=f"zarr {zarr_format} array"):
        group.create_array("a", shape=4, dtype="i4")
