"""Times agree with cftime in every calendar and round-trip as numbers."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import Any

import cftime
import hypothesis.strategies as st
import numpy as np
import pytest
import xarray as xr
from hypothesis import assume, given, reject

import omnizarr as oz
from omnizarr.conventions.cf.times import Times

NUMPY = ("standard", "gregorian", "proleptic_gregorian")
OTHER = ("noleap", "365_day", "all_leap", "366_day", "360_day", "julian")
UNITS = ("days", "hours", "minutes", "seconds", "milliseconds", "microseconds")
NONE = np.zeros(1, bool)


def as_numpy(date: Any) -> np.datetime64:
    return np.datetime64(date.isoformat(timespec="microseconds"), "us")


@given(
    st.sampled_from(UNITS),
    st.sampled_from(NUMPY),
    st.datetimes(),
    st.sampled_from(("", "Z", " +01:00", " -06:30", " UTC")),
    st.integers(0, 2**40),
)
def test_dates_are_those_of_cftime(
    unit: str, calendar: str, start: Any, zone: str, number: int
) -> None:
    start = start.replace(microsecond=0)  # cftime reads fractions as binary ones
    first = (1582, 10, 5) <= (start.year, start.month, start.day) < (1582, 10, 15)
    # Not of days that one of the two calendars does not have.
    assume(not first and (start.year % 100 or start.year >= 1600))
    number = number % {"days": 2_000_000, "hours": 50_000_000}.get(unit, 2**40)
    units = f"{unit} since {start.isoformat(' ')}{zone}"
    try:
        date = cftime.num2date(number, units, calendar, only_use_cftime_datetimes=True)
    except (ValueError, OverflowError):
        reject()  # out of cftime's range
    if calendar != "proleptic_gregorian" and (date.year, date.month, date.day) < (1582, 10, 15):
        with pytest.raises(oz.InvalidMetadata, match="times='cftime'"):
            Times(units, calendar).decode(np.array([number]), NONE)
        return
    times = Times(units, calendar)
    found = times.decode(np.array([number]), NONE)
    assert found[0] == as_numpy(date)
    assert times.encode(found)[0].tolist() == [number]


@pytest.mark.parametrize("calendar", OTHER)
def test_other_calendars_give_objects_of_cftime_and_take_them(calendar: str) -> None:
    numbers = np.array([59, 60, 365, -1])
    attributes = {"units": "days since 2001-01-01", "calendar": calendar, "_FillValue": -1}
    array = oz.create_array({}, data=numbers, attributes=attributes)
    variable = oz.cf.decode(array)
    found = variable[...]
    expected = cftime.num2date(numbers[:3], "days since 2001-01-01", calendar)
    assert variable.dtype == object
    assert found.tolist() == [*expected.tolist(), None]
    array[...] = 0
    variable[...] = found
    assert array[...].tolist() == numbers.tolist()


def test_missing_times_are_not_a_time() -> None:
    attributes = {"units": "days since 2000-01-01", "_FillValue": -1}
    array = oz.create_array({}, data=np.array([1, -1], "i4"), attributes=attributes)
    found = oz.cf.decode(array)[...]
    assert found.dtype == "M8[us]"
    assert np.isnat(found).tolist() == [False, True]
    oz.cf.decode(array)[...] = found[::-1]
    assert array[...].tolist() == [-1, 1]


def test_fractions_of_a_unit_are_exact_to_the_microsecond() -> None:
    numbers = np.array([0.5, 1 / 3, 36524.000011574074])
    found = Times("days since 1900-01-01").decode(numbers, np.zeros(3, bool))
    assert [str(t) for t in found] == [
        "1900-01-01T12:00:00.000000",
        "1900-01-01T08:00:00.000000",
        "2000-01-01T00:00:01.000000",
    ]


def test_nanoseconds_are_kept() -> None:
    found = Times("nanoseconds since 2000-01-01").decode(np.array([1]), NONE)
    assert str(found[0]) == "2000-01-01T00:00:00.000000001"


def test_a_fractional_time_is_not_stored_as_an_integer() -> None:
    array = oz.create_array({}, shape=1, dtype="i4", attributes={"units": "days since 2000-01-01"})
    with pytest.raises(oz.InvalidArgument, match="not whole"):
        oz.cf.decode(array)[...] = np.array(["2000-01-01T12"], "M8[h]")


@pytest.mark.parametrize("time", ["2000-01-01", 3, datetime(2000, 1, 1)])
def test_objects_that_are_not_of_cftime_are_refused(time: Any) -> None:
    times = Times("days since 2000-01-01")
    with pytest.raises(oz.InvalidArgument, match=r"expected objects of cftime, got .*datetime64"):
        times.encode(np.array([None, time], object))


@given(
    st.sampled_from(["days", "hours"]), st.integers(1678, 2261), st.integers(1, 12), st.booleans(),
    st.sampled_from((*NUMPY, "360_day")),
)  # fmt: skip
def test_the_first_day_of_a_year_or_month_need_not_be_written(
    unit: str, year: int, month: int, whole: bool, calendar: str
) -> None:
    short, start = (f"{year}", f"{year}-01-01") if whole else (f"{year}-{month}",) * 2
    start = start if whole else f"{year}-{month:02d}-01"
    found = Times(f"{unit} since {short}", calendar).decode(np.arange(2), np.zeros(2, bool))
    full = Times(f"{unit} since {start}", calendar).decode(np.arange(2), np.zeros(2, bool))
    assert found.tolist() == full.tolist()
    if calendar != "360_day":  # which xarray does not read
        attributes = {"units": f"{unit} since {short}", "calendar": calendar}
        theirs = xr.decode_cf(xr.Dataset({"v": ("x", np.arange(2), attributes)}))["v"].values
        np.testing.assert_array_equal(found.astype("M8[ns]"), theirs.astype("M8[ns]"))


@pytest.mark.parametrize(
    ("units", "calendar", "message"),
    [
        ("months since 2000-01-01", "standard", "no fixed length"),
        ("days since yesterday", "standard", "YYYY-MM-DD"),
        ("days since 2001-02-29", "standard", "no such day"),
        ("days since 1582-10-10", "gregorian", "no such day"),
        ("days since 0000-01-01", "standard", "no year 0"),
        ("days since 2000-01-01 25:00", "standard", "time of day"),
        ("days since 2000-01-01", "mayan", "calendar 'mayan'"),
    ],
)
def test_invalid_units_are_named_and_the_numbers_stay_readable(
    units: str, calendar: str, message: str
) -> None:
    attributes = {"units": units, "calendar": calendar}
    array = oz.create_array({}, data=np.arange(2), attributes=attributes)
    with pytest.raises(oz.InvalidMetadata, match=message):
        oz.cf.decode(array)
    assert oz.cf.decode(array, times=None)[...].tolist() == [0, 1]


def test_a_number_out_of_range_is_an_error_and_no_other_date() -> None:
    times = Times("days since 2000-01-01")
    for number in (np.array([2**62]), np.array([1e300]), np.array([np.inf])):
        with pytest.raises(oz.InvalidMetadata, match="out of the range"):
            times.decode(number, NONE)


@pytest.mark.parametrize("calendar", ["standard", "noleap"])
@pytest.mark.parametrize("zone", ["-6:00", "-6", "-06:00", "-0600"])
def test_every_notation_of_a_time_zone_is_read(calendar: str, zone: str) -> None:
    times = Times(f"seconds since 1992-10-8 15:15:42.5 {zone}", calendar)
    [found] = times.decode(np.array([0]), NONE)
    date = found if isinstance(found, np.datetime64) else as_numpy(found)
    assert date == np.datetime64("1992-10-08T21:15:42.5")


def test_without_cftime_the_error_names_it_and_the_numbers_stay_readable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "cftime", None)
    attributes = {"units": "days since 2001-01-01", "calendar": "noleap"}
    array = oz.create_array({}, data=np.arange(2), attributes=attributes)
    with pytest.raises(oz.MissingPackage, match=r"pip install 'omnizarr\[cf\]'"):
        oz.cf.decode(array)[...]
    assert oz.cf.decode(array, times=None)[...].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("units", "time"),
    [
        ("days since 2000-01-01", np.datetime64("999999-01-01", "D")),
        ("nanoseconds since 2000-01-01", np.datetime64("9999-01-01", "D")),
        ("nanoseconds since 1600-01-01", np.datetime64("2200-01-01", "D")),
    ],
)
def test_a_time_out_of_range_is_not_encoded_as_another_one(units: str, time: Any) -> None:
    with pytest.raises(oz.InvalidArgument, match=r"out of the range|too far from the date"):
        Times(units).encode(np.array([time]))


def test_an_hour_without_minutes_is_the_same_for_cftime() -> None:
    units, zero, absent = "hours since 1900-06-15 6", np.array([0]), np.array([False])
    found = Times(units, objects=True).decode(zero, absent)[0]
    assert found.hour == 6
    assert Times(units).decode(zero, absent)[0] == np.datetime64("1900-06-15T06")


def test_units_that_cftime_does_not_know_are_refused() -> None:
    times = Times("nanoseconds since 2000-01-01", "noleap")
    days = Times("days since 2000-01-01", "noleap").decode(np.array([1]), np.array([False]))
    with pytest.raises(oz.InvalidArgument, match="noleap"):
        times.encode(days)
