"""Packed numbers decoded in parts agree with xarray; codecs are kept by both engines."""

from __future__ import annotations

import asyncio
import pickle
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import omnizarr as oz
import omnizarr.xarray as ozx
from omnizarr.interop.xarray import engine as read
from tests.servers.web import Answer, Web, running


@pytest.fixture(autouse=True)
def _in_small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "PART", 4)


def stored(attributes: dict[str, Any], **options: Any) -> dict[str, bytes]:
    store: dict[str, bytes] = {}
    rank = options["data"].ndim
    names = [f"d{i}" for i in range(rank)]
    oz.create_group(store).create_array(
        "v", attributes=attributes, dimension_names=names, **options
    )
    return store


indices = st.one_of(
    st.integers(-1, 0),
    st.builds(slice, st.integers(-3, 2), st.integers(0, 5), st.sampled_from([None, 1, 2])),
    st.just(slice(None, None, -1)),
    st.lists(st.integers(0, 0), max_size=3),
)


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(
    data=st.data(),
    dtype=st.sampled_from(["i1", "u1", "i2", "u2", "i4", "f4", "f8"]),
    attributes=st.fixed_dictionaries(
        {},
        optional={
            "scale_factor": st.sampled_from([0.5, 0.1, 3.0]),
            "add_offset": st.sampled_from([-1.0, 5.0, 7]),
            "_FillValue": st.sampled_from([0, 7, 99]),
            "missing_value": st.sampled_from([7, 98]),
            "_Unsigned": st.sampled_from(["true", "false"]),
            "valid_min": st.just(3),
            "units": st.sampled_from(["K", "days", "days since 2000-01-01"]),
        },
    ),
)
def test_any_selection_of_packed_numbers_agrees_with_xarray(
    data: st.DataObject, dtype: str, attributes: dict[str, Any]
) -> None:
    values = data.draw(
        hnp.arrays(dtype, hnp.array_shapes(max_dims=3, max_side=5), elements=st.integers(0, 9))
    )
    chunks = tuple(data.draw(st.integers(1, n)) for n in values.shape)
    store = stored(attributes, data=values, chunks=chunks)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dims = [f"d{i}" for i in range(values.ndim)]
        expected = xr.decode_cf(xr.Dataset({"v": (dims, values, attributes)}))
        found = xr.open_dataset(store, engine="omnizarr")
    key = data.draw(st.dictionaries(st.sampled_from(list(found.v.dims)), indices))
    xr.testing.assert_identical(found.v.isel(key).load(), expected.v.isel(key).load())
    xr.testing.assert_identical(found.load(), expected.load())


def packed(tmp_path: Path) -> tuple[xr.Dataset, Any]:
    values = np.arange(600, dtype="i2").reshape(20, 30)
    group = oz.create_group(tmp_path / "a")
    names = ["y", "x"]
    options: dict[str, Any] = {"chunks": (7, 8), "dimension_names": names}
    group.create_array("v", data=values, attributes={"scale_factor": 0.5}, **options)
    return xr.open_dataset(tmp_path / "a", engine="omnizarr"), values / 2


def test_decoding_by_parts_can_be_awaited_sent_and_selected_by_points(tmp_path: Path) -> None:
    dataset, values = packed(tmp_path)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(dataset)).v, values)
    places = xr.DataArray([3, 19], dims="p")
    np.testing.assert_array_equal(dataset.v.isel(y=places, x=places), values[[3, 19], [3, 19]])
    np.testing.assert_array_equal(asyncio.run(dataset.load_async()).v, values)


def test_a_damaged_chunk_is_an_error_in_every_part(tmp_path: Path) -> None:
    dataset, values = packed(tmp_path)
    (tmp_path / "a" / "v" / "c" / "1" / "2").write_bytes(b"damaged")
    np.testing.assert_array_equal(dataset.v[:7], values[:7])
    with pytest.raises(oz.ChunkError, match="v"):
        dataset.v.load()


class Together(Web):
    """A server that answers requests for coordinates only when two of them have come."""

    def __init__(self) -> None:
        super().__init__()
        self.both = threading.Barrier(2, timeout=60)

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        if path.split("/")[1] in ("time", "lat"):
            self.both.wait()
        return super().answer(method, path, headers, body)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_coordinates_are_requested_from_a_server_at_the_same_time(zarr_format: int) -> None:
    dataset = xr.Dataset(
        {"v": (("time", "lat"), np.ones((3, 4), "f4"))},
        {"time": np.arange("2000-01-01", "2000-01-04", dtype="M8[D]"), "lat": np.arange(4) / 2},
    )
    dataset["lat"].encoding = {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -1}
    server = Together()
    ozx.write(dataset, oz.storage.MemoryStore(server.values), zarr_format=zarr_format)
    local = xr.open_dataset(oz.storage.MemoryStore(server.values), engine="omnizarr")
    with running(server):
        found = xr.open_dataset(server.url, engine="omnizarr")
        xr.testing.assert_identical(found, local)
        for name in ("time", "lat"):
            assert found[name].dtype == local[name].dtype
            assert len([path for _, path, _ in server.log if path.startswith(f"/{name}/")]) == 1


def test_a_coordinate_that_cannot_be_read_is_an_error_only_when_it_is_used(web: Web) -> None:
    dataset = xr.Dataset(coords={"x": np.arange(4.0), "y": np.arange(3.0)})
    ozx.write(dataset, oz.storage.MemoryStore(web.values))
    web.values["x/c/0"] = b"broken"
    found = xr.open_dataset(web.url, engine="omnizarr", create_default_indexes=False)
    assert (found["y"] == [0, 1, 2]).all()
    with pytest.raises(oz.ChunkError):
        found["x"].load()


@pytest.mark.parametrize("writer", ["xarray", "omnizarr"])
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.filterwarnings("ignore:.*(which JSON lacks|is not JSON|onsolidated metadata)")
def test_missing_values_that_json_lacks_are_missing(
    tmp_path: Path, number: float, zarr_format: int, writer: str
) -> None:
    dataset = xr.Dataset({"a": ("x", [1.0, np.nan, 2.0], {"valid_max": np.inf})})
    dataset.a.encoding["missing_value"] = number
    if writer == "xarray":
        dataset.to_zarr(tmp_path / "a", zarr_format=zarr_format)
    else:
        ozx.write(dataset, tmp_path / "a", zarr_format=zarr_format)
    found = xr.open_dataset(tmp_path / "a", engine="omnizarr").a
    assert np.isnan(found.values).tolist() == [False, True, False]
    assert np.isnan(oz.cf.open(tmp_path / "a")["a"][...]).tolist() == [False, True, False]


@pytest.mark.filterwarnings("ignore:attributes")
@pytest.mark.filterwarnings("ignore:.*bare NaN")
@pytest.mark.parametrize("zarr_format", [2, 3, "3-draft"])
def test_attributes_that_json_lacks_are_read_as_they_were_written(
    tmp_path: Path, zarr_format: Any
) -> None:
    numbers = {"a": np.inf, "b": [1.0, -np.inf], "missing_value": np.inf, "c": {"d": np.inf}}
    dataset = xr.Dataset({"v": ("x", [1.0, 2], numbers)}, attrs={"a": -np.inf, "b": [np.inf]})
    stores = [tmp_path / "ours"]
    dataset.omnizarr.to(stores[0], zarr_format=zarr_format)
    if zarr_format != "3-draft":
        stores.append(tmp_path / "theirs")
        dataset.to_zarr(stores[1], zarr_format=zarr_format, consolidated=False)
        stores.append(tmp_path / "copy")
        oz.convert(stores[1], stores[2], zarr_format=zarr_format)
    for store in stores:
        found = xr.open_dataset(store, engine="omnizarr")
        assert {
            **found["v"].attrs,
            "missing_value": found["v"].encoding["missing_value"],
        } == numbers
        assert found.attrs == oz.cf.open(store).attributes == dataset.attrs


def test_text_that_would_be_read_as_a_number_is_refused() -> None:
    for value in ("NaN", ["a", "Infinity"], np.array(["-Infinity"])):
        dataset = xr.Dataset({"v": ("x", [1.0], {"a": value})})
        with pytest.raises(oz.InvalidArgument, match="'a' of the variable 'v' has the text"):
            dataset.omnizarr.to({})


pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning:zarr")

DELTA = {"id": "delta", "dtype": "<i4", "astype": "<i4"}
ZLIB = {"id": "zlib", "level": 1}
CHOICES: list[tuple[Any, dict[str, Any]]] = [
    *((f, {}) for f in (2, 3, "3-draft")),
    *((f, {"compressors": {"id": "gzip", "level": 3}}) for f in (2, 3, "3-draft")),
    *((f, {"compressors": None}) for f in (2, 3, "3-draft")),
    *((f, {"chunks": (2, 3), "shards": (4, 6)}) for f in (3, "3-draft")),
    (2, {"filters": [DELTA], "compressors": ZLIB}),
    (2, {"filters": [{"id": "shuffle", "elementsize": 4}], "compressors": ZLIB}),
    (2, {"order": "F"}),
    (3, {"filters": [{"name": "transpose", "configuration": {"order": [1, 0]}}]}),
    (3, {"serializer": {"name": "bytes", "configuration": {"endian": "big"}}}),
]


def dataset() -> xr.Dataset:
    return xr.Dataset(
        {
            "v": (("y", "x"), np.arange(72, dtype="i4").reshape(8, 9)),
            "name": ("y", np.array(["a", "bb", "", "d", "e", "f", "g", "h"], object)),
        }
    )


@pytest.mark.parametrize(("zarr_format", "options"), CHOICES)
def test_codecs_are_kept_by_either_engine(
    tmp_path: Path, zarr_format: Any, options: dict[str, Any]
) -> None:
    data = dataset() if zarr_format != "3-draft" else dataset()[["v"]]
    ozx.write(data, tmp_path / "a", zarr_format=zarr_format, encoding={"v": options})
    found = xr.open_dataset(tmp_path / "a", engine="omnizarr")
    ozx.write(found, tmp_path / "b", zarr_format=zarr_format)
    theirs = 3 if zarr_format == "3-draft" else zarr_format
    found.to_zarr(tmp_path / "c", zarr_format=theirs)  # type: ignore[arg-type]
    ozx.write(found, tmp_path / "d", zarr_format=theirs)
    for name in "abcd":
        with xr.open_dataset(tmp_path / name, engine="omnizarr") as again:
            xr.testing.assert_identical(again.load(), data)
    arrays = {name: oz.open(tmp_path / name, path="v") for name in "abcd"}
    assert arrays["b"].codecs == arrays["a"].codecs
    if "order" not in options:  # xarray's engine does not know it
        assert arrays["d"].codecs == arrays["c"].codecs
    assert [a.chunks for a in arrays.values()] == [arrays["a"].chunks] * 4
    assert [a.shards for a in arrays.values()] == [arrays["a"].shards] * 4


@pytest.mark.parametrize("order", ["little", "big"])
def test_the_byte_order_is_part_of_the_encoding(tmp_path: Path, order: str) -> None:
    """D9b: the draft has it in the data type, and zarr-python 3.4 refuses a codec without it."""
    kind = np.dtype("i4").newbyteorder("<" if order == "little" else ">")
    data = xr.Dataset({"v": ("x", np.arange(9, dtype=kind)), "w": ("x", np.arange(9, dtype="u1"))})
    ozx.write(data, tmp_path / "a", zarr_format="3-draft")
    found = xr.open_dataset(tmp_path / "a", engine="omnizarr")
    assert found.v.encoding["serializer"]["configuration"] == {"endian": order}
    assert found.w.encoding["serializer"]["configuration"] == {}
    found.to_zarr(tmp_path / "b", zarr_format=3)
    xr.testing.assert_identical(xr.open_zarr(tmp_path / "b").load(), data)


def test_an_unknown_codec_does_not_prevent_reading_other_variables(
    tmp_path: Path,
) -> None:
    ozx.write(dataset(), tmp_path / "a", zarr_format=2)
    document = tmp_path / "a" / "v" / ".zarray"
    document.write_text(document.read_text().replace('"blosc"', '"from-elsewhere"'))
    found = xr.open_dataset(tmp_path / "a", engine="omnizarr", consolidated=False)
    np.testing.assert_array_equal(found.name, dataset().name)
    with pytest.raises(oz.OmnizarrError, match="from-elsewhere"):
        found.v.load()


def test_an_unsupported_codec_is_named() -> None:
    bad = dataset().assign(v=dataset().v.assign_attrs(bad=object()))
    with pytest.raises(TypeError, match="cannot be stored as JSON") as caught:
        ozx.write(bad, {})
    assert any("the variable 'v'" in note for note in caught.value.__notes__)
    sharded = dataset()
    sharded["v"].encoding = {"chunks": (2, 3), "shards": (4, 6)}
    with pytest.raises(oz.OmnizarrError, match="cannot express shards") as caught:
        ozx.write(sharded, {}, zarr_format=2)
    assert any(".drop_encoding()" in note for note in caught.value.__notes__)
    ozx.write(sharded.drop_encoding(), {}, zarr_format=2)
