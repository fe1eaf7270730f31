"""Datasets are read as they were written, appended and changed in part, or the write is refused.

The same random datasets are written by xarray's own `to_zarr`, and read by both engines. What ours
refuses, xarray must refuse too, or store as other values. `--hypothesis-profile=thorough` tries
more datasets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import cftime
import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import omnizarr as oz
import omnizarr.xarray as ozx

Store = dict[str, bytes]

STEPS = {"D": "days", "h": "hours", "s": "seconds", "ms": "milliseconds", "ns": "nanoseconds"}
CALENDARS = st.sampled_from(["proleptic_gregorian", "standard", "noleap", "360_day"])
DATES = st.sampled_from(["1850-01-01", "1970-01-01 00:00:00", "2000-03-01 6:00", "2001-01-01"])
UNITS = st.builds(
    lambda unit, date: f"{unit} since {date}", st.sampled_from([*STEPS.values()]), DATES
)
SIX_HOURS = np.timedelta64(6, "h")
TYPES = st.sampled_from(["i1", "i2", "i4", "i8", "f4", "f8"])


@st.composite
def times(draw: st.DrawFn, count: int, calendar: str, later: int) -> Any:
    """Return increasing times; those of one dataset may need finer units than those of another."""
    step = draw(st.sampled_from(["D", "D", "h", "s", "ms", "ns"]))
    start = np.datetime64("2001-01-01", "D") + np.timedelta64(later, "D")
    apart = sorted(draw(st.lists(st.integers(0, 60), min_size=count, max_size=count, unique=True)))
    found = start.astype("M8[ns]") + np.array(apart, f"m8[{step}]")
    if calendar in ("proleptic_gregorian", "standard"):
        return found
    ends = ((t - start.astype("M8[us]")).item() for t in found.astype("M8[us]"))
    first = cftime.datetime(2001, 1, 1, calendar=calendar)
    later_by = np.timedelta64(later, "D").item()
    return np.array([first + later_by + end for end in ends], object)


def _some(**options: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=options)


@st.composite
def datasets(draw: st.DrawFn) -> tuple[xr.Dataset, xr.Dataset]:
    """Return a dataset, and one to append, with the encodings of the first."""
    calendar, sizes = draw(CALENDARS), (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    given = draw(_some(units=UNITS, dtype=TYPES))
    if "units" in given and draw(st.booleans()):
        given["calendar"] = calendar
    with_bounds, own_units = draw(st.booleans()), draw(st.booleans())
    packing = draw(
        _some(
            dtype=st.sampled_from(["i1", "i2", "i4", "f4"]),
            scale_factor=st.sampled_from([0.5, 0.01, 2.0]),
            add_offset=st.sampled_from([-1.0, 100.0]),
            _FillValue=st.sampled_from([-99, 99]),
            missing_value=st.sampled_from([-99, 98]),
        )
    )
    if "_FillValue" in packing and "missing_value" in packing:
        packing["missing_value"] = packing["_FillValue"]  # xarray refuses two
    lead = draw(_some(units=st.sampled_from([*STEPS.values()]), dtype=TYPES))
    limit = draw(st.sampled_from([1, 50, 50, 1000]))
    elements = st.one_of(
        st.integers(-limit, limit).map(float),
        *([st.just(np.nan)] if "_FillValue" in packing or "dtype" not in packing else []),
        *([st.floats(-limit, limit, width=32)] if "i" not in packing.get("dtype", "f") else []),
    )
    integers = st.integers(-limit, limit)
    words = st.text("aäb", max_size=3)
    text_type = draw(st.sampled_from(["U3", "O", "T"]))
    parts = []
    for later, size in ((0, sizes[0]), (100, sizes[1])):

        def several(one: st.SearchStrategy[Any], size: int = size) -> list[Any]:
            return draw(st.lists(one, min_size=size, max_size=size))

        when = draw(times(size, calendar, later))
        unit = draw(st.sampled_from([*STEPS]))
        part = xr.Dataset(
            {
                "v": ("time", np.array(several(elements)), {"long_name": "v"}),
                "n": ("time", np.array(several(integers), draw(st.sampled_from(["i2", "i8"])))),
                "name": ("time", np.array(several(words), text_type)),
                "lead": ("time", np.array(several(integers), f"m8[{unit}]").astype("m8[ns]")),
            },
            coords={"time": ("time", when), "height": ("time", several(integers))},
        )
        if with_bounds:
            end = when + (SIX_HOURS if when.dtype.kind == "M" else SIX_HOURS.item())
            part["time_bnds"] = (("time", "bnds"), np.stack([when, end], 1))
            part["time"].attrs["bounds"] = "time_bnds"
            if own_units and "units" in given:
                part["time_bnds"].encoding = {"units": given["units"], "dtype": "f8"}
        part["time"].encoding = dict(given)
        part["v"].encoding = dict(packing)
        part["lead"].encoding = dict(lead)
        parts.append(part)
    parts[1]["n"] = parts[1]["n"].astype(parts[0]["n"].dtype)
    if text_type == "U3":
        parts = [part.assign(name=part["name"].astype("U3")) for part in parts]
    return parts[0], parts[1]


def attempt(write: Callable[[], Any]) -> Exception | None:
    try:
        write()
    except Exception as e:  # judged by the caller
        return e
    return None


def by_xarray(store: Store, dataset: xr.Dataset, **options: Any) -> None:
    """Write with `to_zarr`; what is stored changes only if that succeeds."""
    memory = zarr.storage.MemoryStore(
        {key: zarr.core.buffer.cpu.Buffer.from_bytes(value) for key, value in store.items()}
    )
    dataset.to_zarr(memory, consolidated=False, **options)
    store |= {key: value.to_bytes() for key, value in memory._store_dict.items()}


def without_units(store: Store) -> None:
    """Remove the units of bounds that have those of their times, as in most NetCDF files."""
    group = oz.open(store, "r+", use_consolidated=False)
    if "time_bnds" in group:
        own, inherited = group["time_bnds"].attrs, group["time"].attrs.asdict()
        if own["units"] == inherited["units"]:
            own.put({k: v for k, v in own.items() if inherited.get(k) != v})


def read(store: Store, engine: str) -> xr.Dataset:
    source: Any = store
    if engine == "zarr":
        source = zarr.storage.MemoryStore(
            {key: zarr.core.buffer.cpu.Buffer.from_bytes(value) for key, value in store.items()}
        )
    options: Any = {"consolidated": False, "decode_timedelta": True}
    return xr.open_dataset(source, engine=engine, **options).load()


def problems(
    found: xr.Dataset, expected: xr.Dataset, packing: Mapping[str, Any], exact: bool = False
) -> list[str]:
    """Return the variables that differ by more than their encoding rounds.

    `exact`: xarray decodes durations of 32-bit floats in that type; that counts as a difference.
    """
    wrong = []
    for name, var in expected.variables.items():
        one, other = found.variables[name].values, var.values
        stored = np.dtype(found.variables[name].encoding["dtype"])
        if one.shape != other.shape or not _same(
            one, other, stored, packing if name == "v" else {}, exact
        ):
            wrong.append(f"{name}: {one} instead of {other} as {stored}")
    return wrong


def _same(
    one: Any, other: Any, stored: np.dtype[Any], packing: Mapping[str, Any], exact: bool
) -> bool:
    if other.dtype.kind in "mM" or isinstance(other.flat[0], cftime.datetime):
        if one.dtype.kind != other.dtype.kind:
            return False
        rounded = {np.dtype("f4"): 1, np.dtype("f8"): 10}  # microseconds
        largest = np.timedelta64(rounded.get(stored.newbyteorder("="), 0), "us")
        apart = np.array(one - other, "m8[us]") if other.dtype.kind == "O" else one - other
        if stored == np.float32 and other.dtype.kind == "m" and not exact:
            largest = largest + np.abs(other) // 2**22
        return bool((np.abs(apart) <= largest).all())
    if other.dtype.kind not in "iuf":
        return bool((one.astype(object) == other.astype(object)).all())
    step = packing.get("scale_factor", 0)
    rounding = 1e-6 * np.abs(np.nan_to_num(other)) if stored.kind == "f" else 0
    close = np.abs(one - other) <= step / 2 * 1.001 + rounding
    return bool((close | (np.isnan(one) & np.isnan(other))).all())


def judge(
    step: str, ours: Exception | None, theirs: Exception | None, is_right: Callable[[Store], bool],
    their_store: Store,
) -> bool:  # fmt: skip
    """Return True if ours stored something; it may refuse only what xarray does not keep."""
    if ours is None:
        return True
    if theirs is None:
        assert isinstance(ours, oz.InvalidArgument), (step, repr(ours))
        assert not is_right(their_store), (step, repr(ours))
    return False


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=settings().max_examples * 5 // 8)
@given(datasets(), st.sampled_from([2, 3]), st.integers(0, 3), st.booleans())
def test_values_are_kept_or_refused(
    parts: tuple[xr.Dataset, xr.Dataset], zarr_format: Any, at: int, bare_bounds: bool
) -> None:
    first, second = parts
    packing = first["v"].encoding

    def check(step: str, store: Store, expected: xr.Dataset) -> None:
        for engine in ("omnizarr", "zarr"):
            assert problems(read(store, engine), expected, packing) == [], (step, engine)

    def keeps(expected: xr.Dataset) -> Callable[[Store], bool]:
        def is_right(store: Store) -> bool:
            try:
                return problems(read(store, "zarr"), expected, packing, exact=True) == []
            except ValueError:  # xarray cannot read what it wrote
                return False

        return is_right

    ours: Store = {}
    theirs: Store = {}
    failed = attempt(lambda: by_xarray(theirs, first, zarr_format=zarr_format))
    refused = attempt(lambda: ozx.write(first, ours, zarr_format=zarr_format, consolidated=False))
    if not judge("new", refused, failed, keeps(first), theirs):
        assert ours == {}
        return
    check("new", ours, first)

    both = xr.concat([first, second], "time")
    sources = [ours] if failed or not keeps(first)(theirs) else [ours, dict(theirs)]
    for store in (theirs, *sources) if bare_bounds and not failed else ():
        without_units(store)
    failed = failed or attempt(lambda: by_xarray(theirs, second, append_dim="time"))
    for store in sources:
        before = dict(store)
        refused = attempt(partial(ozx.write, second, store, append_dim="time", consolidated=False))
        if not judge("append", refused, failed, keeps(both), theirs):
            assert store == before
            continue
        check("append", store, both)
        where = slice(min(at, both.sizes["time"] - 1), both.sizes["time"])
        changed = both.isel(time=slice(None, None, -1)).assign_coords(time=both["time"])
        part = changed.isel(time=where).drop_vars("time")
        ozx.write(part, store, region={"time": where})
        expected = xr.concat([both.isel(time=slice(where.start)), changed.isel(time=where)], "time")
        check("region", store, expected)
        other: Store = {}
        oz.convert(store, other, zarr_format=zarr_format)
        check("convert", other, expected)


def stored(values: Any, **attributes: Any) -> Store:
    """Return a dataset with one array along "time"."""
    store: Store = {}
    group = oz.create_group(store)
    group.create_array("time", data=values, dimension_names=["time"], attributes=attributes)
    return store


@pytest.mark.parametrize("option", ["append_dim", "region"])
@pytest.mark.parametrize("key", ["bounds", "climatology"])
def test_bounds_without_units_are_stored_in_those_of_their_times(option: str, key: str) -> None:
    store = stored(np.array([10.5]), units="days since 1850-01-01", **{key: "edges"})
    oz.open(store, "r+").create_array(
        "edges", data=np.array([[10.0, 11]]), dimension_names=["time", "side"]
    )
    days = np.array([["1850-02-01", "1850-02-02"]], "M8[ns]")
    dataset = xr.Dataset({"edges": (("time", "side"), days)})
    if option == "append_dim":
        dataset = dataset.assign_coords(time=days[:, 0])
        ozx.write(dataset, store, append_dim="time")
    else:
        ozx.write(dataset, store, region={"time": slice(0, 1)})
    np.testing.assert_array_equal(oz.open(store)["edges"][-1], [31, 32])


def test_new_bounds_have_the_units_of_their_times_where_these_are_exact() -> None:
    days = np.array(["2001-01-02", "2001-01-03"], "M8[ns]")
    fine = days + np.timedelta64(1, "ns")
    dataset = xr.Dataset(
        {"edges": (("time", "side"), np.stack([days, days + SIX_HOURS], 1))},
        coords={"time": ("time", days, {"bounds": "edges"})},
    )
    group = ozx.write(dataset, {}, encoding={"time": {"units": "days since 2000-01-01"}})
    assert group["edges"].attrs["units"] == group["time"].attrs["units"]
    np.testing.assert_array_equal(group["edges"][:], [[367, 367.25], [368, 368.25]])
    dataset["edges"] = (("time", "side"), np.stack([fine, fine], 1))
    store: Store = {}
    ozx.write(dataset, store, encoding={"time": {"units": "days since 2000-01-01"}})
    np.testing.assert_array_equal(read(store, "omnizarr")["edges"], dataset["edges"])


@pytest.mark.filterwarnings("ignore:Times can't be serialized")
@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize(
    ("dtype", "units"),
    [
        ("i8", "days since 2001-01-01"),
        ("i1", "hours since 1970-01-01"),
        ("f4", "seconds since 1970-01-01"),
    ],
)
def test_times_that_do_not_fit_are_refused_with_what_would_hold_them(
    dtype: str, units: str, chunked: bool
) -> None:
    dataset = xr.Dataset({"time": ("time", np.array(["2001-01-03T06", "2001-01-03T07"], "M8[ns]"))})
    store = stored(np.array([0], dtype), units=units, calendar="proleptic_gregorian")
    before = dict(store)
    with pytest.raises(
        oz.InvalidArgument, match=f"cannot be stored as .* in '{units}'; dtype 'int64' with"
    ):
        ozx.write(dataset, store, append_dim="time")
    assert store == before
    if dtype != "i8":  # xarray chooses finer units for a new array
        times = dataset.rename(time="t").swap_dims(t="x").reset_coords()
        given = times.chunk(x=1) if chunked else times
        with pytest.raises(oz.InvalidArgument, match="dtype 'int64' with finer units"):
            ozx.write(given, {}, encoding={"t": {"dtype": dtype, "units": units}})


def test_numbers_in_other_units_or_not_whole_are_not_appended() -> None:
    store = stored(np.array([0]), units="days since 2001-01-01")
    for values, attributes in (
        ([1], {"units": "days since 2000-01-01"}),
        ([1], {"units": "days since 2001-01-01", "calendar": "noleap"}),
        ([1.5], {}),
    ):
        dataset = xr.Dataset({"time": ("time", values, attributes)})
        with pytest.raises(oz.InvalidArgument, match="'time'"):
            ozx.write(dataset, store, append_dim="time")
    same = xr.Dataset({"time": ("time", [1], {"units": "days since 2001-1-1 00:00"})})
    ozx.write(same, store, append_dim="time")
    days = xr.Dataset({"time": ("time", np.array(["2001-01-03"], "M8[ns]"))})
    with pytest.raises(oz.InvalidArgument, match="numbers in units None are stored"):
        ozx.write(days, stored(np.array([0])), append_dim="time")


@pytest.mark.parametrize("zarr_format", [2, 3])
@given(
    kind=st.sampled_from(["U3", "O", "T"]),
    mark=st.text("xä", max_size=2),
    key=st.sampled_from(["_FillValue", "missing_value"]),
    words=st.lists(st.text("xäb", max_size=2), min_size=1, max_size=4),
)
@settings(max_examples=30, deadline=None)
def test_text_with_marks_of_missing_values_is_opened_by_both_engines(
    zarr_format: int, kind: str, mark: str, key: str, words: list[str]
) -> None:
    dataset = xr.Dataset({"name": ("time", np.array(words, kind))})
    dataset["name"].encoding = {key: mark}
    absent = {mark, ""} if kind == "T" else {mark}  # xarray takes such text for missing
    expected = ["missing" if word in absent else word for word in words]
    store: Store = {}
    ozx.write(dataset, store, zarr_format=zarr_format)
    ozx.write(dataset, store, append_dim="time")
    for engine in ("zarr", "omnizarr"):
        found = read(store, engine)["name"].astype(object)
        assert found.fillna("missing").values.tolist() == expected * 2
