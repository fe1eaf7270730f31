"""OME-Zarr RFC-2: its rules and printed examples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.bulk.pyramid import level_shapes
from omnizarr.stores import resolve
from tests.conformance.shards import CountingStore, sharding
from tests.conformance.v3_metadata import array_doc, group_doc, regular
from tests.servers.fixtures import Cloud
from tests.servers.web import Web

Documents = dict[str, bytes]


def write(version: str = "0.5", store: Documents | None = None, **options: Any) -> Documents:
    store = {} if store is None else store
    values = np.arange(8 * 16 * 16, dtype="u2").reshape(8, 16, 16)
    oz.ome.write(store, values, unit="um", levels=3, version=version, **options)
    return store


def names(store: Documents) -> set[str]:
    return {key.rpartition("/")[2] for key in store if "json" in key or "/." in f"/{key}"}


def change(store: Documents, key: str, edit: Any) -> None:
    document = json.loads(store[key])
    edit(document)
    store[key] = json.dumps(document).encode()


def errors(store: Any) -> list[str]:
    return [str(p) for p in oz.ome.validate(store) if p.level == "error"]


def opened(store: Any) -> oz.ome.Image:
    image = oz.ome.open(store)
    assert isinstance(image, oz.ome.Image)
    return image


@pytest.mark.shows("OME-01")
def test_new_metadata_in_zarr_2_is_invalid() -> None:
    store = write("0.4")
    attributes = json.loads(store[".zattrs"])
    store[".zattrs"] = json.dumps({"ome": {"version": "0.5", **attributes}}).encode()
    assert any("requires zarr 3, but this is zarr 2" in e for e in errors(store))
    with pytest.raises(oz.InvalidMetadata, match="requires zarr 3, but this is zarr 2"):
        oz.ome.open(store)


@pytest.mark.shows("OME-02", "OME-33", "OME-10")
def test_old_metadata_in_zarr_3_is_reported_and_read_with_a_warning() -> None:
    store = write("0.5")

    def flatten(document: Any) -> None:
        ome = document["attributes"].pop("ome")
        document["attributes"]["multiscales"] = [{**ome["multiscales"][0], "version": "0.4"}]

    change(store, "zarr.json", flatten)
    assert any("requires zarr 2, but this is zarr 3" in e for e in errors(store))
    with pytest.warns(oz.OmnizarrWarning, match="reading it anyway"):
        image = opened(store)
    assert len(image.levels) == 3


@pytest.mark.shows("OME-03", "OME-06")
def test_one_call_opens_both_versions() -> None:
    for version in ("0.4", "0.5"):
        image = opened(write(version))
        assert image.version == version
        assert [a.name for a in image.axes] == ["z", "y", "x"]
        assert [a.unit for a in image.axes] == ["micrometer"] * 3
        assert [image.transform(i).scale for i in range(3)] == [(1,) * 3, (2,) * 3, (4,) * 3]
        assert [a.shape for a in image.levels] == [(8, 16, 16), (4, 8, 8), (2, 4, 4)]


@pytest.mark.shows("OME-04")
def test_a_level_of_another_zarr_version_is_reported_with_both_paths() -> None:
    store = write("0.5")
    other = write("0.4")
    for key in [k for k in store if k.startswith("1/")]:
        del store[key]
    store.update({k: v for k, v in other.items() if k.startswith("1/")})
    assert any("/1 is zarr 2, but / is zarr 3" in e for e in errors(store))
    with pytest.raises(oz.InvalidMetadata, match="/1 is zarr 2, but its parent / is zarr 3"):
        _ = opened(store).levels


@pytest.mark.shows("OME-05")
def test_the_version_is_detected_once_at_the_given_address() -> None:
    store = CountingStore(write("0.5"))
    image = opened(store)
    assert image.version == "0.5"
    assert not any("/" in key for _, key, _ in store.taken())
    assert len(image.levels) == 3
    assert {key for _, key, _ in store.taken()} == {f"{i}/zarr.json" for i in range(3)}


@pytest.mark.shows("OME-07")
def test_supported_versions_are_stated_in_code_docs_and_errors() -> None:
    known = {v.name: v.writes for v in oz.ome.VERSIONS}
    written = {"0.4", "0.5"}
    assert known == {f"0.{n}": f"0.{n}" in written for n in range(1, 7)}
    text = (Path(__file__).parents[2] / "docs" / "ome.md").read_text()
    for name, writes in known.items():
        assert f"| {name} | {'read and written' if writes else 'read'} |" in text
    store = write()
    change(store, "zarr.json", lambda d: d["attributes"]["ome"].update(version="0.9"))
    with pytest.raises(oz.InvalidMetadata, match=r"'0\.9'; known: 0\.1 \(read\)"):
        oz.ome.open(store)


@pytest.mark.shows("OME-08", "OME-31")
def test_one_version_is_not_added_beside_the_other() -> None:
    for version, other in (("0.4", "0.5"), ("0.5", "0.4")):
        store = write(version)
        before = dict(store)
        with pytest.raises(oz.NodeExists):
            write(other, store)
        assert store == before
        assert names(write(other, store, overwrite=True)) == names(write(other))


@pytest.mark.shows("OME-09", "OME-31")
def test_the_newer_of_two_versions_is_used_with_a_warning() -> None:
    store = write("0.4")
    oz.convert(store, in_place=True)
    with pytest.warns(oz.OmnizarrWarning, match="zarr 3 and zarr 2; zarr 3 is used"):
        assert opened(store).version == "0.5"
    assert any(
        p.level == "warning" and "zarr 3 is used" in p.message for p in oz.ome.validate(store)
    )


@pytest.mark.shows("OME-10", "OME-11", "OME-14", "OME-34")
def test_metadata_is_under_ome_with_one_version() -> None:
    store = write()
    oz.ome.write_labels(store, "cells", np.zeros((8, 16, 16), int))
    plate: Documents = {}
    oz.ome.write_plate(plate, {"A/1": [np.zeros((4, 4))]})
    groups = [
        json.loads(v) for s in (store, plate) for k, v in s.items() if k.endswith("zarr.json")
    ]
    attributes = [g["attributes"] for g in groups if g["node_type"] == "group"]
    described = [a["ome"] for a in attributes if a]
    assert [set(a) for a in attributes if a] == [{"ome"}] * len(described)
    assert len(described) == 6
    for ome in described:
        assert ome["version"] == "0.5"
        for name in ("plate", "well", "image-label"):
            assert "version" not in ome.get(name, {})
        assert all("version" not in m for m in ome.get("multiscales", []))


@pytest.mark.shows("OME-12")
@pytest.mark.parametrize("wrong", [["y", "z", "x"], ["z", "y", None], None])
def test_dimension_names_equal_the_axes(wrong: Any) -> None:
    store = write()
    for level in range(3):
        assert json.loads(store[f"{level}/zarr.json"])["dimension_names"] == ["z", "y", "x"]
    assert errors(store) == []

    def rename(document: Any) -> None:
        del document["dimension_names"]
        if wrong is not None:
            document["dimension_names"] = wrong

    change(store, "1/zarr.json", rename)
    (error,) = errors(store)
    assert error.startswith("1/zarr.json: dimension_names: expected the axes' names")


@pytest.mark.shows("OME-13")
def test_other_attributes_are_kept() -> None:
    store = write()
    oz.open(store, "r+").attrs["mine"] = 1
    oz.ome.write_labels(store, "cells", np.zeros((8, 16, 16), int))
    oz.open(store, "r+", path="labels").attrs["theirs"] = 2
    oz.ome.write_labels(store, "more", np.zeros((8, 16, 16), int))
    there: Documents = {}
    oz.convert(store, there, zarr_format=2)
    for each in (store, there):
        assert oz.open(each).attrs["mine"] == 1
        assert oz.open(each, path="labels").attrs["theirs"] == 2
        assert list(opened(each).labels) == ["cells", "more"]


CODECS: dict[str, dict[str, Any]] = {
    "blosc": {"compressors": {"name": "blosc", "configuration": {
        "cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 2, "blocksize": 0}}},
    "gzip": {"compressors": {"name": "gzip", "configuration": {"level": 5}}},
    "zstd": {"compressors": {"name": "zstd", "configuration": {"level": 3, "checksum": False}}},
    "crc32c": {"codecs": ["bytes", "crc32c"]},
    "transpose": {"codecs": [
        {"name": "transpose", "configuration": {"order": [2, 0, 1]}}, "bytes"]},
    "big-endian": {"codecs": [{"name": "bytes", "configuration": {"endian": "big"}}]},
    "sharding_indexed": {"chunks": (4, 4, 4), "shards": (8, 8, 8)},
    "plain": {"compressors": None},
}  # fmt: skip
STATED = {"big-endian": "{'endian': 'big'}", "plain": "'bytes'"}  # what the metadata has of them


@pytest.mark.shows("OME-16", "OME-18")
@pytest.mark.parametrize("name", CODECS)
def test_every_codec_works(name: str) -> None:
    store = write(**CODECS[name])
    stored = str(json.loads(store["0/zarr.json"])["codecs"])
    assert STATED.get(name, name) in stored
    image = opened(store)
    np.testing.assert_array_equal(image.read().ravel(), np.arange(8 * 16 * 16))
    assert errors(store) == []


@pytest.mark.shows("OME-17")
@pytest.mark.parametrize(
    ("name", "separator", "key"),
    [
        ("default", "/", "0/c/0/1"),
        ("default", ".", "0/c.0.1"),
        ("v2", "/", "0/0/1"),
        ("v2", ".", "0/0.1"),
    ],
)
def test_every_chunk_key_encoding_works(name: str, separator: str, key: str) -> None:
    store: Documents = {}
    encoding = {"name": name, "configuration": {"separator": separator}}
    oz.ome.write(store, np.eye(8), chunks=(8, 4), chunk_key_encoding=encoding, levels=2)
    assert key in store
    np.testing.assert_array_equal(opened(store).read(), np.eye(8))
    assert errors(store) == []


@pytest.mark.shows("OME-19")
def test_one_inner_chunk_is_read_alone_and_each_shard_is_written_once() -> None:
    store = CountingStore()
    values = np.random.default_rng(0).integers(0, 60000, (64, 64)).astype("u2")
    oz.ome.write(store, values, chunks=(8, 8), shards=(32, 32), levels=2)
    shards = [key for verb, key, _ in store.taken() if verb == "set" and "/c/" in key]
    assert sorted(shards) == ["0/c/0/0", "0/c/0/1", "0/c/1/0", "0/c/1/1", "1/c/0/0"]
    image = opened(store)
    _ = image.levels
    store.taken()
    np.testing.assert_array_equal(image.read({"y": (8, 16), "x": (40, 48)}), values[8:16, 40:48])
    parts = [(verb, size) for verb, key, size in store.taken() if key == "0/c/0/1"]
    assert parts
    assert all(verb == "part" and size < 600 for verb, size in parts)


@pytest.mark.shows("OME-20")
@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_the_same_image_opens_from_every_store(
    version: str, tmp_path: Path, web: Web, s3: Cloud, gs: Cloud
) -> None:
    store = write(version)
    oz.ome.write_labels(store, "cells", np.ones((8, 16, 16), int))
    for key, value in store.items():
        (tmp_path / "d" / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "d" / key).write_bytes(value)
    web.values.update(store)
    places = [store, str(tmp_path / "d"), (tmp_path / "d").as_uri(), web.url]
    for name in ("image.ome.zarr.zip", "image.ozx"):
        with ZipFile(tmp_path / name, "w") as archive:
            for key, value in store.items():
                archive.writestr(key, value)
        places.append(str(tmp_path / name))
    for cloud in (s3, gs):
        bucket = resolve(f"{cloud.url}/image", storage_options=cloud.options)
        for key, value in store.items():
            bucket.set(key, value)
        places.append(bucket)
    for place in places:
        image = opened(place)
        assert image.version == version
        np.testing.assert_array_equal(image.read().ravel(), np.arange(8 * 16 * 16))
        assert image.labels["cells"].read().all()


@pytest.mark.shows("OME-24")
def test_validation_distinguishes_valid_and_invalid_metadata_and_locates_faults() -> None:
    for version, key, place in (
        ("0.4", ".zattrs", "multiscales"),
        ("0.5", "zarr.json", "attributes.ome.multiscales"),
    ):
        store = write(version)
        assert errors(store) == []

        def cut(document: Any) -> None:
            inner = document.get("attributes", document)
            inner.get("ome", inner)["multiscales"][0]["datasets"][1]["path"] = "none"

        change(store, key, cut)
        (error,) = errors(store)
        assert error == f"{key}: {place}[0].datasets[1].path: there is no array /none"


SCALES = {
    "1": [1.0, 11.24, 11.24, 28.0],
    "2-2-1": [1.0, 22.48, 22.48, 28.0],
    "4-4-1": [1.0, 44.96, 44.96, 28.0],
    "8-8-2": [1.0, 89.92, 89.92, 56.0],
    "16-16-4": [1.0, 179.84, 179.84, 112.0],
}
AXES = [
    {"name": "c", "type": "channel"},
    *({"name": n, "type": "space", "unit": "nanometer"} for n in "xyz"),
]
DATASETS = [
    {"path": p, "coordinateTransformations": [{"type": "scale", "scale": s}]}
    for p, s in SCALES.items()
]
MULTISCALE = {"axes": AXES, "datasets": DATASETS}
GROUP = group_doc(attributes={"ome": {"version": "0.5", "multiscales": [MULTISCALE]}})
ZSTD = {"cname": "zstd", "clevel": 5, "shuffle": "noshuffle", "typesize": 1, "blocksize": 0}
INNER = [
    {"name": "transpose", "configuration": {"order": [3, 2, 1, 0]}},
    {"name": "bytes"},
    {"name": "blosc", "configuration": ZSTD},
]
INDEX = {"index_codecs": [{"name": "bytes"}, {"name": "crc32c"}], "index_location": "end"}
ARRAY = array_doc(
    shape=[1, 4096, 4096, 1536],
    chunk_grid=regular(1, 1024, 1024, 1024),
    codecs=[sharding(1, 32, 32, 32, codecs=INNER, **INDEX)],
    dimension_names=["c", "x", "y", "z"],
)
SHAPES = {
    "1": (1, 4096, 4096, 1536),
    "2-2-1": (1, 2048, 2048, 1536),
    "4-4-1": (1, 1024, 1024, 1536),
    "8-8-2": (1, 512, 512, 768),
    "16-16-4": (1, 256, 256, 384),
}


def printed() -> Documents:
    store = {"456.zarr/zarr.json": json.dumps(GROUP).encode()}
    for path, shape in SHAPES.items():
        document = {**ARRAY, "shape": list(shape)}
        store[f"456.zarr/{path}/zarr.json"] = json.dumps(document).encode()
    return store


@pytest.mark.shows("OME-25", "OME-30", "OME-32")
def test_the_printed_group_works() -> None:
    image = oz.ome.open(printed(), path="456.zarr")
    assert isinstance(image, oz.ome.Image)
    assert image.version == "0.5"
    assert [a.name for a in image.axes] == ["c", "x", "y", "z"]
    assert [d.path for d in image.multiscale.datasets] == list(SCALES)
    assert image.scale == (1, 11.24, 11.24, 28)


@pytest.mark.shows("OME-26", "OME-29")
def test_the_printed_array_works() -> None:
    image = oz.ome.open(printed(), path="456.zarr")
    assert isinstance(image, oz.ome.Image)
    with pytest.warns(oz.OmnizarrWarning, match="endian"):
        array = image.levels[0]
    assert array.cdata_shape == (1, 128, 128, 48)
    assert array.shards is not None
    shards = [-(-n // size) for n, size in zip(array.shape, array.shards, strict=True)]
    assert shards == [1, 4, 4, 2]
    assert array.chunks == (1, 32, 32, 32)
    inner = [a // b for a, b in zip(array.shards, array.chunks, strict=True)]
    assert np.prod(inner) == 32768
    assert 32768 * 16 + 4 == 524_292
    assert array[0, 100, 100, 100] == 0


@pytest.mark.shows("OME-27")
def test_keys_follow_the_printed_tree() -> None:
    store: Documents = {}
    oz.ome.write(
        store, np.ones((1, 8, 8, 8), "u1"), path="456.zarr", axes="cxyz", names=["1"], levels=1
    )
    assert set(store) == {
        "zarr.json",
        "456.zarr/zarr.json",
        "456.zarr/1/zarr.json",
        "456.zarr/1/c/0/0/0/0",
    }


@pytest.mark.shows("OME-28", "OME-29", "OME-30", "OME-32")
def test_level_shapes_follow_from_the_factors() -> None:
    store: Documents = {}
    small = tuple(max(1, n // 16) for n in SHAPES["1"])
    image = oz.ome.write(
        store,
        np.zeros(small, "u1"),
        axes="cxyz",
        scale=(1, 11.24, 11.24, 28),
        unit="nanometer",
        factors=[(1, 2, 2, 1), (1, 2, 2, 1), (1, 2, 2, 2), (1, 2, 2, 2)],
        names=list(SCALES),
        chunks=(1, 32, 32, 32),
        shards=(1, 64, 64, 64),
    )
    for array, shape in zip(image.levels, SHAPES.values(), strict=True):
        assert array.shape == tuple(max(1, n // 16) for n in shape)
    factors = image.multiscale.metadata["factors"]
    assert level_shapes(SHAPES["1"], factors) == list(SHAPES.values())
    written = [list(image.transform(i).scale) for i in range(5)]
    assert written == list(SCALES.values())
    sharding = json.loads(store["1/zarr.json"])["codecs"][0]["configuration"]
    assert sharding["index_codecs"][0]["configuration"] == {"endian": "little"}


@pytest.mark.shows("OME-34")
def test_an_inner_version_is_accepted_and_reported_if_it_differs() -> None:
    store: Documents = {}
    oz.ome.write_plate(store, {"A/1": [np.zeros((4, 4))]})
    change(store, "zarr.json", lambda d: d["attributes"]["ome"]["plate"].update(version="0.5"))
    assert errors(store) == []
    change(store, "zarr.json", lambda d: d["attributes"]["ome"]["plate"].update(version="0.4"))
    (error,) = errors(store)
    assert error == "zarr.json: attributes.ome.plate.version: is '0.4', but the version is '0.5'"


@pytest.mark.shows("OME-15")
def test_labels_are_listed_under_ome() -> None:
    store = write()
    oz.ome.write_labels(store, "cells", np.ones((8, 16, 16), "i4"), colors={1: (9, 9, 9, 255)})
    listed = json.loads(store["labels/zarr.json"])["attributes"]
    assert listed == {"ome": {"version": "0.5", "labels": ["cells"]}}
    label = json.loads(store["labels/cells/zarr.json"])["attributes"]["ome"]["image-label"]
    assert label["colors"] == [{"label-value": 1, "rgba": [9, 9, 9, 255]}]
    assert errors(store) == []
