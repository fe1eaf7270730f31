"""Descriptions of nodes: members, facts, displays by convention, and what cannot be understood."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import omnizarr as oz
from omnizarr.stores import LocalStore
from omnizarr.viewer import describe
from tests.viewer.conftest import client_of

DATA = np.arange(600, dtype="u2").reshape(20, 30)


def _node(client: httpx.Client, path: str = "") -> Any:
    answer = client.get("api/node", params={"path": path})
    assert answer.status_code == 200, answer.text
    return answer.json()


def _members(client: httpx.Client, **params: Any) -> Any:
    return client.get("api/members", params=params).json()


@pytest.mark.parametrize("zarr_format", [2, "3-draft", 3])
def test_members_have_what_a_tree_shows(tmp_path: Path, zarr_format: Any) -> None:
    group = oz.create_group(tmp_path / "a.zarr", zarr_format=zarr_format)
    group.create_array("deep/t", data=DATA, chunks=(10, 15))
    with client_of(group) as client:
        assert _members(client) == {
            "path": "",
            "total": 1,
            "next": None,
            "members": [{"name": "deep", "path": "deep", "kind": "group", "members": True}],
        }
        [array] = _members(client, path="deep")["members"]
        assert array == {
            "name": "t",
            "path": "deep/t",
            "kind": "array",
            "shape": [20, 30],
            "dtype": "uint16",
            "chunks": [10, 15],
            "nbytes": 1200,
        }
        assert _members(client, path="deep/t")["members"] == []
        found = _node(client, "deep/t")
        assert str(found["zarr_format"]) == str(zarr_format)
        assert found["display"]["plane"] == [0, 1]


def test_members_come_in_pages(tmp_path: Path) -> None:
    group = oz.create_group(tmp_path / "a.zarr")
    for number in range(23):
        group.create_array(f"{number:03}", shape=3)
    found: list[str] = []
    offset: int | None = 0
    with client_of(group) as client:
        while offset is not None:
            page = _members(client, offset=offset, limit=10)
            found += [member["name"] for member in page["members"]]
            assert len(page["members"]) <= 10
            offset = page["next"]
        assert found == sorted(group)
        assert _members(client)["total"] == 23
        assert _members(client, offset=100)["members"] == []
        for bad in ("-1", "x", "1.5", "9" * 40):
            assert client.get("api/members", params={"offset": bad}).status_code == 400


def test_an_array_has_all_facts(tmp_path: Path) -> None:
    attributes = {"title": "Höhe", "wrong": [1, {"a": None}]}
    group = oz.create_group(tmp_path / "a.zarr")
    array = group.create_array(
        "t", shape=(20, 30), dtype="f4", chunks=(5, 5), shards=(10, 10), fill_value=np.nan,
        dimension_names=("y", None), attributes=attributes,
    )  # fmt: skip
    array[:5] = 1
    with client_of(tmp_path / "a.zarr") as client:
        found = _node(client, "t")
        assert found["shards"] == [10, 10]
        assert found["chunks"] == [5, 5]
        assert found["dimension_names"] == ["y", None]
        assert found["fill_value"] == "NaN"
        assert found["attributes"] == attributes
        assert found["stored_bytes"] == array.nbytes_stored()
        assert any("zstd" in codec or "blosc" in codec for codec in found["codecs"])
        labels = dict(found["info"])
        assert labels["path"] == "/t"
        assert labels["shape"] == "(20, 30)"
        assert str(tmp_path) not in json.dumps(found)
        assert found["display"]["axes"][1]["name"] == "axis 1"


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_an_image_has_levels_and_channels(tmp_path: Path, version: str) -> None:
    pixels = np.random.default_rng(0).integers(0, 99, (2, 3, 64, 96), "u2")
    where = tmp_path / "a.zarr" / "cell"
    oz.create_group(tmp_path / "a.zarr", zarr_format=2 if version == "0.4" else 3)
    channels = [
        {"label": "DNA", "color": "00FF00", "window": {"start": 3, "end": 90, "min": 0, "max": 99}},
        {"label": "Actin", "color": "FF0000"},
    ]
    oz.ome.write(
        where, pixels, axes="czyx", scale=(1, 2, 0.5, 0.25), unit="micrometer", version=version,
        levels=3, channels=[oz.ome.Channel(**c) for c in channels],
    )  # fmt: skip
    with client_of(tmp_path / "a.zarr") as client:
        [member] = _members(client)["members"]
        assert (member["kind"], member["members"]) == ("image", True)
        found = _node(client, "cell")
        shown = found["display"]
        assert (shown["kind"], shown["transfer"], shown["plane"]) == ("plane", "uint16", [2, 3])
        assert [level["path"] for level in shown["levels"]] == ["cell/0", "cell/1", "cell/2"]
        assert shown["levels"][0]["shape"] == [2, 3, 64, 96]
        assert shown["levels"][0]["scale"] == [1, 2, 0.5, 0.25]
        coarse = oz.ome.open(where).transform(1)
        assert shown["levels"][1]["scale"] == list(coarse.scale) != [1, 2, 0.5, 0.25]
        assert shown["levels"][1]["translation"] == list(coarse.offset)
        assert [a["kind"] for a in shown["axes"]] == ["channel", "space", "space", "space"]
        assert [a["unit"] for a in shown["axes"]][1:] == ["micrometer"] * 3
        assert shown["channels"]["labels"] == ["DNA", "Actin"]
        assert shown["channels"]["colors"] == ["00FF00", "FF0000"]
        assert shown["channels"]["windows"][0] == [3, 90]


def test_axes_get_units_and_coordinates_from_cf(tmp_path: Path) -> None:
    group = oz.create_group(tmp_path / "a.zarr", attributes={"Conventions": "CF-1.10"})
    names = ("time", "lat", "lon")
    group.create_array("t2m", shape=(4, 5, 6), dtype="f4", dimension_names=names)
    axes = {
        "time": (np.arange(4), {"units": "days since 2000-01-01"}),
        "lat": (np.linspace(50, 46, 5), {"units": "degrees_north", "axis": "Y"}),
        "lon": (np.linspace(0, 10, 6), {"units": "degrees_east", "axis": "X"}),
    }
    for name, (data, attributes) in axes.items():
        group.create_array(name, data=data, dimension_names=(name,), attributes=attributes)
    with client_of(group) as client:
        shown = _node(client, "t2m")["display"]
        assert [(a["name"], a["kind"], a["unit"], a["coordinate"]) for a in shown["axes"]] == [
            ("time", "time", "days since 2000-01-01", "time"),
            ("lat", "space", "degrees_north", "lat"),
            ("lon", "space", "degrees_east", "lon"),
        ]
        assert shown["plane"] == [1, 2]
        assert shown["levels"][0]["scale"] == [1, -1, 2]
        assert shown["levels"][0]["translation"] == [0, 50, 0]
        time = _node(client, "time")["display"]
        assert (time["kind"], time["axes"][0]["kind"]) == ("plot", "time")


def test_a_map_has_its_pyramid(tmp_path: Path) -> None:
    heights = np.zeros((180, 360), "f4")
    oz.geo.write(
        tmp_path / "m.zarr", heights, crs="EPSG:4326", bounds=(-180, -90, 180, 90), levels=3
    )
    with client_of(tmp_path / "m.zarr") as client:
        found = _node(client)
        shown = found["display"]
        assert (found["kind"], shown["kind"]) == ("group", "plane")
        assert [level["shape"] for level in shown["levels"]] == [[180, 360], [90, 180], [45, 90]]
        assert shown["levels"][0]["scale"] == [-1, 1]
        assert shown["levels"][0]["translation"] == [89.5, -179.5]
        assert shown["levels"][1]["scale"] == [-2, 2]
        assert [a["kind"] for a in shown["axes"]] == ["space", "space"]


BROKEN = {
    "text": b"{",
    "shape": b'{"zarr_format":3,"node_type":"array","shape":[-1]}',
    "codec": json.dumps({
        "zarr_format": 3, "node_type": "array", "shape": [4], "data_type": "int8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
        "chunk_key_encoding": {"name": "default"}, "fill_value": 0,
        "codecs": [{"name": "bytes"}, {"name": "nobody-knows"}],
    }).encode(),
    "type": b'{"zarr_format":3,"node_type":"thing"}',
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_node_is_described_by_its_error(tmp_path: Path, name: str) -> None:
    group = oz.create_group(tmp_path / "a.zarr")
    group.create_array("good", data=DATA)
    store = LocalStore(tmp_path / "a.zarr")
    store.set("bad/zarr.json", BROKEN[name])
    with client_of(store) as client:
        found = {member["name"]: member for member in _members(client)["members"]}
        assert found["good"]["kind"] == "array"
        assert "error" in found["bad"]
        described = _node(client, "bad")
        assert described["display"]["kind"] == "none"
        assert described["display"]["reason"]
        answer = client.get("api/values", params={"path": "bad", "select": "0"})
        assert answer.status_code == 422
        assert str(tmp_path) not in json.dumps([found, described, answer.json()])
        assert client.get("store/bad/zarr.json").content == BROKEN[name]


def _bits(found: Any) -> Any:
    bits = np.unpackbits(np.frombuffer(base64.b64decode(found["present"]), np.uint8))
    count = int(np.prod(found["grid"]))
    return bits[:count].astype(bool).reshape(found["grid"])


@pytest.mark.parametrize("shards", [None, (4, 6)])
@pytest.mark.parametrize("most", [2**20, 9])
def test_the_map_of_chunks_is_what_is_stored(
    tmp_path: Path, shards: Any, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(describe, "MAX_CELLS", most)
    array = oz.create_array(tmp_path / "a.zarr", shape=(19, 23), chunks=(2, 3), shards=shards)
    array[5, 7], array[0, 22], array[18, 0:9] = 1, 1, 1
    with client_of(array) as client:
        found = client.get("api/chunks").json()
    there = array.chunks_present()
    factors = found.get("aggregated", [1, 1])
    wanted = np.zeros(found["grid"], bool)
    for coords in np.argwhere(there):
        wanted[tuple(coords // factors)] = True
    np.testing.assert_array_equal(_bits(found), wanted)
    assert ("aggregated" in found) == (most < there.size)
    assert wanted.size <= most


def test_a_group_has_no_chunks_and_no_values(tmp_path: Path) -> None:
    with client_of(oz.create_group(tmp_path / "a.zarr")) as client:
        assert client.get("api/chunks").status_code == 400
        assert client.get("api/values").status_code == 400


@pytest.mark.parametrize(
    ("shape", "dtype", "names", "in_color"),
    [
        ((20, 30, 3), "u1", None, True),
        ((20, 30, 4), "u1", ("y", "x", "channel"), True),
        ((5, 20, 30, 3), "u1", ("t", "y", "x", "rgb"), True),
        ((20, 30, 3), "u2", None, False),
        ((20, 30, 2), "u1", None, False),
        ((20, 30, 3), "u1", ("y", "x", "z"), False),
        ((3, 3, 3), "u1", None, False),
        ((30, 3), "u1", None, False),
    ],
)
def test_photographs_are_shown_in_their_colours(
    shape: tuple[int, ...], dtype: str, names: Any, in_color: bool
) -> None:
    store = oz.storage.MemoryStore()
    array = oz.create_array(store, shape=shape, dtype=dtype, dimension_names=names)
    found = describe.display(array)
    assert (found["channels"] is not None) is in_color
    if in_color:
        assert found["plane"] == [len(shape) - 3, len(shape) - 2]
        assert found["channels"]["axis"] == len(shape) - 1
        assert found["channels"]["labels"] == ["red", "green", "blue"]
