"""Chunk manifests, as the proposal describes them and VirtualiZarr 1 wrote them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.errors import ChunkError, InvalidMetadata, OmnizarrWarning, ReadOnly
from omnizarr.stores import MemoryStore

VALUES = np.arange(24, dtype="<i4").reshape(4, 6)
CHUNKS = {
    (i, j): VALUES[2 * i : 2 * i + 2, 3 * j : 3 * j + 3].tobytes()
    for i in range(2)
    for j in range(2)
}


def _array(manifest: Any = "./manifest.json", encoding: str = "default") -> dict[str, Any]:
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [4, 6],
        "data_type": "int32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 3]}},
        "chunk_key_encoding": {"name": encoding},
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "fill_value": -1,
        "storage_transformers": [
            {"name": "chunk-manifest-json", "configuration": {"manifest": manifest}}
        ],
    }


def _values(path: str, encoding: str = "default", style: str = "dots") -> dict[str, bytes]:
    """Return a store with the array `a`, and the file that its chunks are in."""
    listed, data = {}, b"head"
    for (i, j), chunk in CHUNKS.items():
        key = f"c/{i}/{j}" if encoding == "default" and style == "keys" else f"{i}.{j}"
        listed[key] = {"path": path, "offset": len(data), "length": len(chunk)}
        data += chunk
    return {
        "zarr.json": b'{"zarr_format": 3, "node_type": "group"}',
        "a/zarr.json": json.dumps(_array(encoding=encoding)).encode(),
        "a/manifest.json": json.dumps(listed).encode(),
        "data.bin": data,
    }


def _write(folder: Path, values: dict[str, bytes]) -> None:
    for key, value in values.items():
        (folder / key).parent.mkdir(parents=True, exist_ok=True)
        (folder / key).write_bytes(value)


@pytest.mark.parametrize("encoding", ["default", "v2"])
@pytest.mark.parametrize("style", ["dots", "keys"])
def test_chunks_are_read_from_the_places_in_the_manifest(encoding: str, style: str) -> None:
    store = MemoryStore(_values("data.bin", encoding, style))
    array = oz.open_array(store, path="a")
    for engine in ("auto", "reference"):
        with oz.configure(engine=engine):
            np.testing.assert_array_equal(array[...], VALUES)
            np.testing.assert_array_equal(array[1:3, ::2], VALUES[1:3, ::2])
    assert array.nchunks_initialized == 4


def test_other_places_are_read_with_consent(tmp_path: Path) -> None:
    folder = tmp_path / "x.zarr"
    values = _values("../data.bin")
    (tmp_path / "data.bin").write_bytes(values.pop("data.bin"))
    _write(folder, values)
    array = oz.open_array(folder, path="a")
    with pytest.raises(ChunkError, match=r"\.\./data.bin.*consent"):
        array[...]
    with oz.configure(allow_targets=[tmp_path]):
        np.testing.assert_array_equal(array[...], VALUES)
    with pytest.raises(ChunkError, match="consent"):
        array[...]
    (folder / "data.bin").symlink_to(tmp_path / "data.bin")
    _write(folder, {"a/manifest.json": _values("data.bin")["a/manifest.json"]})
    with pytest.raises(ChunkError, match="consent"):
        oz.open_array(folder, path="a")[...]
    _write(folder, {"a/manifest.json": _values(f"file://{tmp_path}/data.bin")["a/manifest.json"]})
    with oz.configure(allow_targets=True):
        np.testing.assert_array_equal(oz.open_array(folder, path="a")[...], VALUES)


def test_a_store_in_memory_reads_nothing_but_itself_without_consent() -> None:
    for path in ("/etc/passwd", "../data.bin", "file:///etc/passwd", "s3://bucket/x"):
        array = oz.open_array(MemoryStore(_values(path)), path="a")
        with pytest.raises(ChunkError):
            array[...]


def test_chunks_that_are_not_listed_or_have_no_path_are_missing() -> None:
    values = _values("data.bin")
    listed = json.loads(values["a/manifest.json"])
    del listed["0.0"]
    listed["1.1"]["path"] = ""
    values["a/manifest.json"] = json.dumps(listed).encode()
    array = oz.open_array(MemoryStore(values), path="a")
    expected = VALUES.copy()
    expected[:2, :3] = expected[2:, 3:] = -1
    np.testing.assert_array_equal(array[...], expected)
    assert array.nchunks_initialized == 2


def test_a_view_and_a_copy_have_ordinary_chunks(tmp_path: Path) -> None:
    store = MemoryStore(_values("data.bin"))
    view = oz.view_as(store, zarr_format=2)
    assert view.get("a/1/0") == CHUNKS[1, 0]
    assert view.generation("a/1/0") is not None
    np.testing.assert_array_equal(oz.open_array(view, path="a")[...], VALUES)
    with pytest.warns(OmnizarrWarning, match="data.bin"):
        oz.convert(store, tmp_path / "two.zarr", zarr_format=2)
    np.testing.assert_array_equal(oz.open_array(tmp_path / "two.zarr", path="a")[...], VALUES)


def test_a_replaced_manifest_is_read_again(tmp_path: Path) -> None:
    _write(tmp_path, _values("data.bin"))
    array, view = oz.open_array(tmp_path, path="a"), oz.view_as(tmp_path, zarr_format=2)
    np.testing.assert_array_equal(array[...], VALUES)
    assert view.get("a/1/0") == CHUNKS[1, 0]
    (tmp_path / "a" / "manifest.json").write_text("{}")
    assert (array[...] == -1).all()
    assert view.get("a/1/0") is None


def test_nothing_can_be_written(tmp_path: Path) -> None:
    _write(tmp_path, _values("data.bin"))
    array: Any = oz.open_array(tmp_path, "r+", path="a")
    changes: dict[str, Callable[[], Any]] = {
        "value": lambda: array.__setitem__((0, 0), 7),
        "fill value": lambda: array.__setitem__(..., -1),
        "view": lambda: array.view[1:].__setitem__(0, 7),
        "append": lambda: array.append(VALUES),
        "resize": lambda: array.resize(2, 2),
        "writer": array.writer,
        "encoded chunk": lambda: array.set_encoded_chunk((0, 0), CHUNKS[0, 0]),
    }
    for change in changes.values():
        with pytest.raises(ReadOnly, match=r"'a/manifest.json'.*omnizarr convert.*in other files"):
            change()
    array.attrs["kept"] = 1  # metadata are ordinary
    np.testing.assert_array_equal(oz.open_array(tmp_path, path="a")[...], VALUES)


@pytest.mark.parametrize("manifest", [3, "", "/x.json", "../../x.json", "s3://b/m.json", None])
def test_a_manifest_outside_of_the_store_is_refused(manifest: Any) -> None:
    values = _values("data.bin")
    values["a/zarr.json"] = json.dumps(_array(manifest)).encode()
    with pytest.raises(InvalidMetadata, match="manifest"):
        oz.open_array(MemoryStore(values), path="a")[...]


@pytest.mark.parametrize(
    "manifest",
    [
        None,
        "[]",
        "{",
        '{"0.0": 3}',
        '{"0.0": {"path": 3, "offset": 0, "length": 1}}',
        '{"0.0": {"path": "data.bin", "offset": -1, "length": 1}}',
        '{"0.0": {"path": "data.bin", "offset": 0}}',
        '{"0.0": {"path": "data.bin", "offset": 0, "length": 1e99}}',
        '{"0": {"path": "data.bin", "offset": 0, "length": 1}}',
        '{"x": {"path": "data.bin", "offset": 0, "length": 1}}',
        '{"0.0": {"path": "none.bin", "offset": 0, "length": 24}}',
        '{"0.0": {"path": "data.bin", "offset": 90, "length": 24}}',
    ],
)
def test_malformed_manifests_are_errors(manifest: str | None) -> None:
    values = _values("data.bin")
    del values["a/manifest.json"]
    if manifest is not None:
        values["a/manifest.json"] = manifest.encode()
    with pytest.raises(ChunkError, match=r"manifest|chunk|target"):
        oz.open_array(MemoryStore(values), path="a")[...]
