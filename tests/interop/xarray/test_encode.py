"""Values encoded in parts are stored as xarray stores them encoded at once."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any

import dask
import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import omnizarr as oz
import omnizarr.xarray as ozx
from omnizarr.interop.xarray import encode, write

Raw = dict[str, tuple[str, str, Any]]

numbers = st.sampled_from(["f4", "f8", "f2", "i1", "i2", "i4", "i8", "u1", "u2", "?"])
others = st.sampled_from(["M8[s]", "M8[ns]", "m8[s]", "U3", "S2", "O"])
ELEMENTS: dict[str, st.SearchStrategy[Any]] = {
    "f": st.one_of(st.integers(-100, 100).map(float), st.just(float("nan"))),
    "i": st.integers(-50, 50),
    "u": st.integers(0, 100),
    "b": st.booleans(),
    "M": st.integers(0, 10**5).map(lambda n: np.datetime64(n, "s")),
    "m": st.integers(0, 10**5).map(lambda n: np.timedelta64(n, "s")),
    "U": st.text("abc", max_size=3),
    "S": st.text("abc", max_size=2).map(str.encode),
    "O": st.text("abcä", max_size=5),
}
encodings = st.fixed_dictionaries(
    {},
    optional={
        "dtype": st.sampled_from(["i1", "i2", "i4", "u1", "u2", "f4", "f8"]),
        "scale_factor": st.sampled_from([0.5, 2.0, np.float32(0.25), 10]),
        "add_offset": st.sampled_from([-1.0, 5.0, np.float32(3), 7]),
        "_FillValue": st.sampled_from([0, 7, 99, 99.0, float("nan"), None]),
        "missing_value": st.sampled_from([99, 99.0]),
        "_Unsigned": st.sampled_from(["true", "false"]),
    },
)


@pytest.fixture(autouse=True)
def _in_small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode, "LARGE", 1)
    monkeypatch.setattr(write, "PART", 4)


def raw(store: Any) -> Raw:
    """Return types, attributes as text, so that NaN equals NaN, and values as they are stored."""
    group = oz.open(store, "r")
    return {
        name: (str(a.dtype), json.dumps(a.attrs.asdict(), sort_keys=True), a[...])
        for name, a in group.arrays()
    }


def outcome(write: Callable[[], Any]) -> Raw | type[Exception]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return raw(write())
        except Exception as e:  # compared with the other's
            return type(e)


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), dtype=st.one_of(numbers, numbers, others), encoding=encodings)
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_every_encoding_stores_the_same_as_xarray(
    zarr_format: int, data: st.DataObject, dtype: str, encoding: dict[str, Any]
) -> None:
    kind = np.dtype(dtype).kind
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=3, max_side=5))
    values = data.draw(hnp.arrays(dtype, shape, elements=ELEMENTS[kind]))
    chunks = tuple(data.draw(st.integers(1, n)) for n in shape)
    dims = [f"d{i}" for i in range(len(shape))]
    dataset = xr.Dataset({"v": (dims, values)})
    coding = {} if kind in "OUS" else encoding  # for text they refuse different ones
    dataset["v"].encoding = {**coding, "chunks": chunks}

    def theirs() -> Any:
        store = zarr.storage.MemoryStore()
        given = dataset.chunk(dict(zip(dims, chunks, strict=True))) if chunked else dataset
        given.to_zarr(store, zarr_format=zarr_format, consolidated=False)  # type: ignore[call-overload]
        return {k: v.to_bytes() for k, v in store._store_dict.items()}

    # Dask computes some types otherwise than NumPy, so both engines get its arrays, or none.
    blocks = {d: data.draw(st.integers(1, n)) for d, n in zip(dims, shape, strict=True)}
    chunked = kind in "biuf" and data.draw(st.booleans())

    def ours() -> Any:
        store: dict[str, bytes] = {}
        given = dataset.chunk(blocks) if chunked else dataset
        ozx.write(given, store, zarr_format=zarr_format)
        return store

    before = values.copy()
    with dask.config.set(scheduler="sync"):
        found, expected = outcome(ours), outcome(theirs)
    if found is oz.InvalidArgument and not isinstance(expected, type):
        # Numbers that do not fit are refused here; xarray lets them wrap, so that they change. So
        # are those that mark missing values.
        marks = any(coding.get(key) is not None for key in ("_FillValue", "missing_value"))
        assert marks or np.dtype(coding["dtype"]).kind in "iuf"
        return
    if isinstance(expected, type) or isinstance(found, type):
        assert isinstance(expected, type), found
        assert isinstance(found, type), expected
        assert issubclass(found, (expected, oz.InvalidArgument))
        return
    assert found["v"][:2] == expected["v"][:2]
    np.testing.assert_array_equal(found["v"][2], expected["v"][2])
    np.testing.assert_array_equal(values, before)


def packed(values: np.ndarray[Any, Any]) -> xr.Dataset:
    dataset = xr.Dataset({"v": (("y", "x"), values)})
    options = {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -9, "chunks": (3, 4)}
    dataset["v"].encoding = options
    return dataset


def test_parts_are_appended_and_written_to_regions_with_their_axes_in_order() -> None:
    values = np.arange(70.0).reshape(10, 7)
    values[4, 3] = np.nan
    whole = packed(values)
    store: dict[str, bytes] = {}
    ozx.write(whole.isel(y=slice(5)), store)
    ozx.write(whole.isel(y=slice(5, None)).transpose("x", "y"), store, append_dim="y")
    xr.testing.assert_equal(xr.open_dataset(store, engine="omnizarr").load(), whole)
    part = whole.isel(y=slice(2, 9), x=slice(1, 6)) + 1
    ozx.write(part, store, region={"y": slice(2, 9), "x": slice(1, 6)})
    values[2:9, 1:6] += 1
    xr.testing.assert_equal(xr.open_dataset(store, engine="omnizarr").load(), packed(values))


def test_an_invalid_encoding_is_refused_before_anything_is_replaced() -> None:
    store: dict[str, bytes] = {}
    ozx.write(packed(np.ones((4, 4))), store)
    before = dict(store)
    whole = packed(np.ones((4, 4), int))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Cannot cast ufunc 'divide'"):
        ozx.write(whole, store, mode="w")
    assert store == before


@pytest.mark.filterwarnings("ignore:saving variable v")
@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize(
    ("values", "encoding"),
    [
        ([70000, 1], {"dtype": "i2"}),
        ([500.0, 1], {"dtype": "i2", "scale_factor": 0.01}),
        ([300, 1], {"dtype": "u1", "_FillValue": 255}),
        ([np.nan, 1], {"dtype": "i2"}),
        ([1e300, 1], {"dtype": "f4"}),
    ],
)
def test_numbers_that_do_not_fit_their_encoding_are_refused(
    values: Any, encoding: dict[str, Any], chunked: bool
) -> None:
    dataset = xr.Dataset({"v": (["x"], values)})
    given = dataset.chunk(x=1) if chunked else dataset
    with pytest.raises(oz.InvalidArgument, match="'v' cannot be stored"):
        ozx.write(given, {}, encoding={"v": encoding})


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize(
    ("value", "encoding"),
    [
        (99, {"_FillValue": 99}),
        (99.0, {"missing_value": 99.0, "_FillValue": 99.0}),
        (0.249, {"dtype": "i2", "scale_factor": 0.5, "_FillValue": 0}),
        (-1.0, {"dtype": "i1", "scale_factor": 2.0, "add_offset": -7.0, "_FillValue": 3}),
    ],
)
def test_values_that_would_be_read_as_missing_are_refused(
    value: Any, encoding: dict[str, Any], chunked: bool
) -> None:
    dataset = xr.Dataset({"v": (["x"], [5, value])})
    given = dataset.chunk(x=1) if chunked else dataset
    with pytest.raises(oz.InvalidArgument, match="'v' would be read as missing"):
        ozx.write(given, {}, encoding={"v": encoding})


def test_helping_threads_handle_invalid_numbers_as_the_caller_asks() -> None:
    dataset = packed(np.full((200, 400), np.inf))
    dataset["v"].encoding["chunks"] = (20, 50)
    with warnings.catch_warnings(), oz.configure(threads=4):
        warnings.simplefilter("error")
        with np.errstate(all="ignore"):
            ozx.write(dataset, {})
        with pytest.raises(RuntimeWarning, match="invalid value"), np.errstate(all="warn"):
            ozx.write(dataset, {})


@pytest.mark.parametrize(("name", "zarr_format"), [("a/b", 2), ("a/b", 3), ("/a", 3), ("a\\b", 2)])
def test_a_name_that_would_not_be_read_back_is_refused(name: str, zarr_format: Any) -> None:
    store = oz.storage.MemoryStore()
    with pytest.raises(oz.InvalidName, match="slash"):
        xr.Dataset({name: ("d", [1, 2])}).omnizarr.to(store, zarr_format=zarr_format)
    assert not [key for key in store.list() if key.endswith(("/0", "/.zarray"))]
