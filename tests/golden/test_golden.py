"""Data of old writers is read to the bit, and the metadata we write is the same."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.engine import kernel
from tests.golden import archives
from tests.golden.archives import CODECS, DRAFT, SNAPPY, V1, V2, ZARRS

OLD_ZSTD = {"blosc_zstd_0", "blosc_zstd_1", "blosc_zstd_2"}


COUNTS = {
    **{V1: 38, V2: 87, SNAPPY: 17, DRAFT: 41, ZARRS: 19},
    **dict(zip(CODECS, (58, 48), strict=True)),
}
FORMATS = {DRAFT: "3-draft"}
HIERARCHIES = (V2, SNAPPY, *CODECS, DRAFT)
NEEDED = {"zfpy": "zfpy", "pcodec": "pcodec", "images": "imagecodecs"}


def test_the_archives_match_their_readme() -> None:
    assert {archive: len(archives.names(archive)) for archive in COUNTS} == COUNTS


@pytest.mark.shows("D3-120")
@pytest.mark.filterwarnings("ignore:.*earlier state of the draft")
@pytest.mark.parametrize("engine", ["reference", "auto"])
@pytest.mark.parametrize(
    ("archive", "name"), [(a, name) for a in HIERARCHIES for name in archives.names(a)]
)
def test_arrays_read_as_their_writers_read_them(archive: str, name: str, engine: str) -> None:
    if archive in CODECS:
        pytest.importorskip(NEEDED[name.partition("/")[0]])
    array = oz.open(archives.store(archive, "store"))[name]
    assert isinstance(array, oz.Array)
    assert array.zarr_format == FORMATS.get(archive, array.zarr_format)
    with oz.configure(engine=engine):
        found, wanted = array[...], archives.expected(archive, name)
    if name in ("images/jpeg", "images/jpeg2k_lossy"):  # decoders may round differently
        assert np.abs(found.astype(int) - wanted.astype(int)).max() <= 2
    else:
        assert archives.equal(found, wanted)
    assert name.endswith(str(array.attrs.get("n", "")))


@pytest.mark.shows("V1-37")
@pytest.mark.parametrize("name", sorted(set(archives.names(V1)) - OLD_ZSTD))
def test_version_1_arrays_read_as_their_writer_read_them(name: str) -> None:
    with oz.configure(v1_order="writer"):
        array = oz.open(archives.store(V1, f"arrays/{name}"))
    assert isinstance(array, oz.Array)
    assert array.zarr_format == 1
    assert archives.equal(array[...], archives.expected(V1, name))


@pytest.mark.parametrize("name", sorted(OLD_ZSTD))
def test_zstd_frames_from_before_0_8_are_an_error_without_the_kernel(
    name: str,
) -> None:
    array = oz.open(archives.store(V1, f"arrays/{name}"))
    refused = pytest.raises(oz.ChunkError, match=r"before version 0\.8")
    with oz.configure(engine="reference"), refused as error:
        array[...]
    assert error.value.codec == "numcodecs.blosc"
    if kernel.available():
        assert archives.equal(array[...], archives.expected(V1, name))


@pytest.mark.shows("V1-37")
def test_order_f_of_version_1_follows_the_specification_by_default() -> None:
    store = archives.store(V1, "arrays/order_F")
    by_writer = archives.expected(V1, "order_F")
    by_text = oz.open(store)
    assert by_text.order == "F"
    assert not np.array_equal(by_text[...], by_writer)
    raw = by_text[0:2, 0:3, 0:4].ravel(order="F")
    assert np.array_equal(raw, by_writer[0:2, 0:3, 0:4].ravel(order="C"))


@pytest.mark.parametrize("engine", ["reference", "auto"])
@pytest.mark.parametrize("name", archives.names(ZARRS))
def test_extensions_of_zarrs_read_as_they_were_written(name: str, engine: str) -> None:
    array = oz.open(archives.store(ZARRS, f"store/{name}"))
    with oz.configure(engine=engine):
        found, wanted = array[...], archives.expected(ZARRS, name)
        if not name.startswith("optional/"):
            assert found.tolist() == wanted.tolist()
            return
        assert isinstance(found, np.ma.MaskedArray)
        if found.dtype.kind == "M":
            found = found.astype("i8")
        assert found.tolist() == wanted.tolist()
        assert array[1:, 1:3].tolist() == np.asarray(array[...].tolist(), object)[1:, 1:3].tolist()


@pytest.mark.parametrize("name", archives.names(ZARRS))
def test_extensions_of_zarrs_are_stored_as_zarrs_stores_them(name: str) -> None:
    golden = archives.store(ZARRS, f"store/{name}").values
    again = dict(golden)
    for key in golden:
        if key != "zarr.json":
            del again[key]
    array = oz.open(archives.store(ZARRS, f"store/{name}"))
    oz.open(again, mode="r+")[...] = array[...]
    # Compressors may be of another version.
    packed = any(c in str(array.codecs) for c in ("gzip", "zstd", "blosc"))
    assert again.keys() >= golden.keys()
    for key in () if packed else golden:
        if key != "zarr.json":
            assert again[key] == golden[key]


@pytest.mark.shows("D3-73", "D3-120")
def test_groups_and_attributes_of_the_early_draft_are_read() -> None:
    with pytest.warns(oz.OmnizarrWarning):
        group = oz.open(archives.store(DRAFT, "store"))
    assert group.attrs == {"title": "draft"}
    assert set(group) == {"codec", "dt", "ext", "fill", "grp", "layout", "shard"}
    assert group["grp/sub"].attrs == {"x": [1, 2, 3]}


def _write_again(source: oz.Array, zarr_format: int | str) -> oz.storage.MemoryStore:
    """Create the same array from its properties."""
    store = oz.storage.MemoryStore()
    codecs = [c for c in source.codecs if c.name != "transpose"]
    oz.create_array(
        store,
        shape=source.shape,
        dtype=source.metadata.data_type,
        chunks=source.chunks,
        codecs=codecs,
        order=source.order,
        fill_value=source.fill_value,
        attributes=source.attrs.asdict(),
        chunk_key_encoding=source.metadata.chunk_key_encoding.configuration["separator"],
        zarr_format=zarr_format,
    )
    return store


@pytest.mark.parametrize("name", archives.names(V1))
def test_version_1_metadata_is_written_as_by_zarr_1(name: str) -> None:
    golden = archives.store(V1, f"arrays/{name}")
    written = _write_again(oz.open(golden), 1)
    assert written.values["attrs"] == golden.values["attrs"]
    ours, theirs = (json.loads(s.values["meta"]) for s in (written, golden))
    if theirs["dtype"][1] in "fcSUmM":
        # Its 0 for every type is 0.0 for floats, and no valid fill value for the others.
        zero = {"c": [0.0, 0.0]}.get(theirs["dtype"][1], 0)
        theirs["fill_value"] = theirs["fill_value"] or zero
        assert ours == theirs
    else:
        assert written.values["meta"] == golden.values["meta"]


@pytest.mark.parametrize("name", archives.names(V2))
def test_version_2_metadata_is_written_as_by_zarr_2(name: str) -> None:
    golden = archives.store(V2, "store").values
    array = oz.open(archives.store(V2, "store"))[name]
    assert isinstance(array, oz.Array)
    written = _write_again(array, 2).values
    ours, theirs = json.loads(written[".zarray"]), json.loads(golden[f"{name}/.zarray"])
    if theirs.get("dimension_separator") == ".":
        del theirs["dimension_separator"]  # we leave out what is the default
    if theirs["dtype"] == "|O" and array.dtype.kind == "T":
        assert (ours.pop("fill_value"), theirs.pop("fill_value")) == ("", 0)
    assert ours == theirs


@pytest.mark.parametrize("name", archives.names(DRAFT))
def test_draft_metadata_expresses_that_of_the_early_writer_by_the_specification(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array = oz.open(archives.store(DRAFT, "store"))[name]
    assert isinstance(array, oz.Array)
    golden = json.loads(archives.contents(DRAFT)[f"store/meta/root/{name}.array.json"])
    ours = json.loads(_write_again(array, "3-draft").values["meta/array.json"])
    for field in ("shape", "chunk_grid", "chunk_memory_layout", "extensions", "attributes"):
        assert ours[field] == golden[field]
    plus = {"Infinity": "+Infinity"}
    fill = golden["fill_value"]
    assert ours["fill_value"] == (plus.get(fill, fill) if isinstance(fill, str) else fill)
    codecs = [c for c in ours.get("codecs", []) if not c["type"].endswith("endian/1.0")]
    compressor = golden.get("compressor")
    assert len(codecs) == (compressor is not None)
    if compressor is not None:
        assert codecs[0]["type"] == compressor["codec"].replace("/codec/", "/codecs/")
        wanted = {k: v for k, v in compressor["configuration"].items() if v is not None}
        assert {k: v for k, v in codecs[0]["configuration"].items() if v is not None} == wanted
    big = isinstance(golden["data_type"], str) and golden["data_type"][0] == ">"
    assert any(c["type"].endswith("endian/1.0") for c in ours.get("codecs", [])) == big
