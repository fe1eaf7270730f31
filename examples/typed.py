"""A program with types that mypy --strict and pyright check: daily means of hourly measurements.

Run it with ``python examples/typed.py FOLDER``. `assert_type` does nothing when it runs; for a
type checker it states the type that an expression has.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, assert_type

import numpy as np
import numpy.typing as npt

import omnizarr as oz
from omnizarr import Array, Group

HOURS = 24
Celsius = np.float32


def create_station(folder: Path, days: int) -> Group:
    """Create the group of a station with an array of hourly temperatures."""
    station = oz.open(folder, "w", attributes={"station": "Alert"})
    assert_type(station, Group)
    hourly = station.create_array("hourly", shape=days * HOURS, dtype=np.float32, chunks=10 * HOURS)
    assert_type(hourly, Array[np.float32])
    assert_type(hourly.dtype, np.dtype[np.float32])
    hours = np.arange(days * HOURS)
    hourly[...] = -10 + 5 * np.sin(2 * np.pi * hours / HOURS)
    return station


def daily_means(hourly: Array[Celsius]) -> npt.NDArray[Celsius]:
    """Return the mean of every day."""
    values = hourly[:]
    assert_type(values, npt.NDArray[np.float32])
    assert_type(np.asarray(hourly), npt.NDArray[np.float32])
    means: npt.NDArray[Celsius] = values.reshape(-1, HOURS).mean(axis=1, dtype=np.float32)
    return means


def store_means(station: Group, means: npt.NDArray[Celsius]) -> Array[Celsius]:
    """Store daily values beside the hourly ones; their type is that of the values."""
    daily = station.create_array("daily", data=means, overwrite=True)
    assert_type(daily, Array[np.float32])
    return daily


def main(folder: Path) -> None:
    """Create a station, store the daily means, and print some of them."""
    station = create_station(folder, days=30)
    # The type of a member is known when the program runs, so that it is stated here.
    hourly: Array[Celsius] = station["hourly"]
    daily = store_means(station, daily_means(hourly))
    print(daily.shape, f"{float(daily[0]):.1f}")
    found: Any = oz.open(folder)
    if isinstance(found, Group):
        print(*found)
    again = oz.open(folder, path="daily", kind="array")
    assert_type(again, Array[Any])
    counts = oz.create_array(shape=30, dtype=np.int64)
    assert_type(counts, Array[np.int64])
    assert_type(oz.create_array(shape=30, dtype="i8"), Array[Any])
    assert_type(oz.create_array(data=hourly[:30]), Array[np.float32])
    assert_type(oz.create_array(data=hourly[:30], dtype="f8"), Array[Any])
    new = oz.open({}, "w", shape=(3, 4), dtype=np.uint8)
    assert_type(new, Array[np.uint8])


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("station.zarr"))
