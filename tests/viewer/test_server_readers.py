"""Other programs read every stored format through the server, as it is and in both views."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorstore as ts
import xarray as xr
import zarr

import omnizarr as oz
from omnizarr.stores import LocalStore

DATA = np.random.default_rng(5).normal(size=(13, 17)).astype("f4")
STORED = ["1", "2", "3-draft", "3", "sharded", "zip", "memory"]
TITLE = {"title": "sea"}


def _make(kind: str, where: Path) -> tuple[Any, str]:
    """Return a store of some format, and the path of an array in it."""
    if kind == "1":
        oz.create_array(where, data=DATA, chunks=(5, 6), zarr_format=1, attributes=TITLE)
        return where, ""
    options: dict[str, Any] = {"chunks": (2, 3), "shards": (6, 6)} if kind == "sharded" else {}
    store: Any = {} if kind == "memory" else where
    group = oz.create_group(store, zarr_format=kind if kind in STORED[1:4] else 3)
    options = {"chunks": (5, 6), "attributes": TITLE, **options}
    group.create_array("deep/t", data=DATA, dimension_names=("y", "x"), **options)
    group["deep"].create_array("y", data=np.arange(1.0, 14.0), dimension_names=("y",))
    if kind == "zip":
        oz.copy(where, where.with_suffix(".zip"))
        return where.with_suffix(".zip"), "deep/t"
    return store, "deep/t"


@pytest.fixture(scope="module", params=STORED)
def served(request: Any, tmp_path_factory: Any) -> Iterator[tuple[str, str, str]]:
    """Yield the kind of store, the address of its server and the path of the array."""
    where, path = _make(request.param, tmp_path_factory.mktemp("readers") / "a.zarr")
    with oz.serving(where) as url:
        yield request.param, url, path


VIEWS = pytest.mark.parametrize("view", ["store", "v2", "v3"])


@VIEWS
def test_omnizarr_reads_it(served: tuple[str, str, str], view: str) -> None:
    kind, url, path = served
    if view == "store" and kind == "3-draft":
        array = oz.open(f"{url}store", path=path)  # whose metadata are at the root
    else:
        array = oz.open(f"{url}{view}/{path}")
    np.testing.assert_array_equal(array[...], DATA)
    np.testing.assert_array_equal(array[3:9:2, ::5], DATA[3:9:2, ::5])
    assert array.attrs["title"] == "sea"


@VIEWS
def test_zarr_python_reads_it(served: tuple[str, str, str], view: str) -> None:
    kind, url, path = served
    if view == "store" and kind in ("1", "3-draft"):
        pytest.skip("zarr-python knows no such format")
    store = zarr.storage.FsspecStore.from_url(f"{url}{view}", read_only=True)
    array = zarr.open_array(store, path=path, mode="r")
    np.testing.assert_array_equal(np.asarray(array[...]), DATA)
    assert array.attrs["title"] == "sea"
    if path:
        root = zarr.open_group(store, mode="r")
        names = {name for name, _ in root["deep"].members()} if view != "store" else {"t"}
        assert "t" in names  # from the consolidated metadata, which every view has


@VIEWS
def test_tensorstore_reads_it(served: tuple[str, str, str], view: str) -> None:
    kind, url, path = served
    if view == "store" and kind in ("1", "3-draft"):
        pytest.skip("tensorstore knows no such format")
    driver = "zarr" if view == "v2" or (view == "store" and kind == "2") else "zarr3"
    kvstore = {"driver": "http", "base_url": f"{url}{view}/{path}".rstrip("/") + "/"}
    array = ts.open({"driver": driver, "kvstore": kvstore}, read=True, open=True).result()
    np.testing.assert_array_equal(array.read().result(), DATA)
    np.testing.assert_array_equal(array[2:7, 3:11].read().result(), DATA[2:7, 3:11])


@pytest.mark.parametrize("view", ["v2", "v3"])
def test_xarray_opens_it_with_consolidated_metadata(
    served: tuple[str, str, str], view: str
) -> None:
    _, url, path = served
    if not path:
        pytest.skip("an array is not a dataset")
    with xr.open_zarr(f"{url}{view}/deep", consolidated=True, chunks=None) as dataset:
        np.testing.assert_array_equal(dataset["t"].values, DATA)
        assert dataset["t"].dims == ("y", "x")
        assert dataset["y"].values.tolist() == list(range(1, 14))


def test_a_change_is_seen_by_the_next_reader(tmp_path: Path) -> None:
    array = oz.create_array(tmp_path / "a.zarr", data=DATA, chunks=(5, 6), zarr_format=2)
    with oz.serving(LocalStore(tmp_path / "a.zarr")) as url:
        assert oz.open(f"{url}v3")[0, 0] == DATA[0, 0]
        array[0, 0] = 99
        assert oz.open(f"{url}v3")[0, 0] == 99
        array.resize(20, 17)
        assert oz.open(f"{url}v3").shape == oz.open(f"{url}store").shape == (20, 17)
