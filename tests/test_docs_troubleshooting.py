"""docs/troubleshooting.md: each class of error has a section, with messages as they are raised."""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr import errors
from omnizarr.concurrency.file_locks import lock_descriptor

PAGE = Path(__file__).parents[1] / "docs" / "troubleshooting.md"
SECTION = re.compile(r"^## (\w+)$(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
MESSAGE = re.compile(r"^```text\n(\w+: .*)\n```$", re.MULTILINE)
MESSAGES = [
    (section[1], message)
    for section in SECTION.finditer(PAGE.read_text())
    for message in MESSAGE.findall(section[2])
]
# These are only bases of others, and a problem is no error.
BASES = {"OmnizarrError", "MissingPackage", "Problem"}


@pytest.fixture
def hierarchies(in_tmp: Path) -> Path:
    """Create what the page assumes: an array, a group, and a folder that is neither."""
    values = np.arange(24).reshape(4, 6)
    oz.create_array("ocean.zarr", data=values, chunks=(2, 3))
    group = oz.create_group("run.zarr")
    group.create_array("temp", shape=(4, 6), dtype="f4", chunks=(2, 3))[:2] = 1
    (in_tmp / "plain").mkdir()
    (in_tmp / "plain" / "notes.txt").write_text("nothing")
    return in_tmp


def new(**options: Any) -> Callable[[], object]:
    return lambda: oz.create_array("n.zarr", **options)


def damaged() -> object:
    file = Path("ocean.zarr/c/0/1")
    value = bytearray(file.read_bytes())
    value[20] ^= 1
    file.write_bytes(value)
    return oz.open("ocean.zarr")[...]


def changed(**fields: Any) -> oz.Array:
    """Open an array after some fields of its metadata were changed."""
    oz.create_array("broken.zarr", shape=4, dtype="i4")
    file = Path("broken.zarr/zarr.json")
    document = json.loads(file.read_text())
    more = fields.pop("more_codecs", [])
    document["codecs"] += more
    file.write_text(json.dumps(document | fields))
    found: oz.Array = oz.open("broken.zarr")
    return found


def cut() -> object:
    oz.create_array("broken.zarr", shape=4, dtype="i4")
    file = Path("broken.zarr/zarr.json")
    text = json.dumps(json.loads(file.read_text()))
    file.write_text(text[: text.index(', "codecs"')])
    return oz.open("broken.zarr")


def no_archive() -> object:
    Path("broken.zip").write_bytes(b"PK nothing")
    return oz.open("broken.zip")


def closed() -> object:
    store = oz.storage.ZipStore("y.zarr.zip", mode="w")
    oz.create_array(store, data=[1, 2, 3])
    store.close()
    return oz.open(store)


def two_writers() -> object:
    with oz.storage.ZipStore("x.zip", mode="w") as store:
        oz.create_group(store)
    with Path("x.zip").open("r+b") as file:
        lock_descriptor(file.fileno())  # as another process does
        return oz.create_group(oz.storage.ZipStore("x.zip", mode="a"), path="b")


def outside() -> object:
    Path("refs").mkdir()
    Path("refs/refs.json").write_text(json.dumps({"version": 1, "refs": {"0": ["../data.bin"]}}))
    return oz.storage.ReferenceStore("refs/refs.json").get("0")


def dataset() -> Any:
    import xarray

    import omnizarr.xarray

    assert omnizarr.xarray.write
    return xarray.Dataset({"t": ("time", np.arange(3.0))}, coords={"time": [0, 1, 2]})


def without(package: str, act: Callable[[], object]) -> object:
    """Call a function as if a package were not installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, package, None)
        patch.delitem(sys.modules, "omnizarr.stores.lmdb", raising=False)
        patch.delitem(vars(oz.storage), "LMDBStore", raising=False)
        return act()


def noleap() -> object:
    group = oz.create_group("cf.zarr")
    units = {"units": "days since 2000-01-01", "calendar": "noleap"}
    group.create_array("time", data=np.arange(3.0), dimension_names=["time"], attributes=units)
    return oz.cf.open("cf.zarr")["time"][:]


def odd_group() -> object:
    oz.create_group("w.zarr", zarr_format=2)
    Path("w.zarr/.zgroup").write_text('{"zarr_format": 2, "x": 1}')
    return oz.open("w.zarr")


def shrink() -> object:
    return oz.create_array({}, data=range(8), chunks=2).resize(2)


def replaced() -> object:
    array = oz.open("ocean.zarr")
    oz.create_array("ocean.zarr", data=np.ones((4, 6)), chunks=(2, 3), overwrite=True)
    return array[...]


unanswered = {"storage_options": {"attempts": 2, "first_wait": 0.01}}
CASES: list[Callable[[], object]] = [
    lambda: oz.open("oceann.zarr"),
    lambda: oz.open("plain"),
    lambda: oz.open("run.zarr")["tmep"],
    replaced,
    lambda: oz.create_array("ocean.zarr", shape=3),
    lambda: oz.open("ocean.zarr", kind="group"),
    lambda: oz.open("ocean.zarr").__setitem__(0, 1),
    damaged,
    lambda: oz.open("run.zarr/temp").read(missing="raise"),
    lambda: oz.open("ocean.zarr")[10],
    lambda: oz.open("ocean.zarr")[0, 0, 0],
    lambda: oz.open("ocean.zarr", "r+").__setitem__(0, np.zeros(5)),
    lambda: changed(shape=[-4]),
    cut,
    new(shape=3, dtype="u1", fill_value=-1),
    lambda: changed(more_codecs=[{"name": "lz5"}])[...],
    new(shape=3, compressors="zsdt"),
    new(shape=30, chunks=10, shards=20, zarr_format=2),
    new(shape=3, chunk=2),
    new(shape=(3.5, 2)),
    new(shape=3, dtype="flaot32"),
    new(shape=30, chunks=10, shards=15),
    lambda: oz.open("ocean.zarr", "rw"),
    new(data=np.array([{}, None], object)),
    lambda: oz.create_group("n.zarr", path="a/../b"),
    lambda: dataset().omnizarr.to("run.zarr", region={"tiem": slice(0, 3)}),
    lambda: dataset().omnizarr.to("d.zarr", encoding={"temp": {}}),
    no_archive,
    lambda: oz.open("http://127.0.0.1:9/x.zarr", **unanswered),
    lambda: oz.open("s4://x/y"),
    closed,
    two_writers,
    outside,
    lambda: without("cftime", noleap),
    lambda: without("lmdb", lambda: oz.storage.LMDBStore),
    shrink,
    lambda: oz.open("run.zarr/temp", missing="warn")[...],
    odd_group,
]


def test_every_class_of_error_has_a_section_with_a_message() -> None:
    shown = {section for section, message in MESSAGES if message.startswith(f"{section}: ")}
    assert shown == set(errors.__all__) - BASES
    assert len(CASES) == len(MESSAGES), "one case for each message, in the order of the page"


@pytest.mark.parametrize("number", range(len(CASES)))
def test_a_message_is_the_documented_one(number: int, hierarchies: Path) -> None:
    _, documented = MESSAGES[number]
    with warnings.catch_warnings():
        warnings.simplefilter("error", oz.OmnizarrWarning)
        with pytest.raises((oz.OmnizarrError, oz.OmnizarrWarning)) as caught:
            CASES[number]()
    pattern = ".*".join(map(re.escape, documented.split("…")))
    message = f"{caught.type.__name__}: {caught.value}"
    assert re.fullmatch(pattern, message, re.DOTALL), message
