"""Write one dataset in all four Zarr formats, read each back and compare.

Run it with ``make demo``, or ``python examples/demo.py FOLDER``. Running it again replaces its
output.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

import omnizarr as oz

DAYS, LAT, LON = 60, 180, 360
console = Console(highlight=False)


def ocean() -> dict[str, npt.NDArray[np.generic]]:
    """Return two months of synthetic sea surface data: temperature, land mask, time, stations."""
    random = np.random.default_rng(42)
    day = np.arange(DAYS)[:, None, None]
    lat = np.linspace(-89.5, 89.5, LAT)[None, :, None]
    lon = np.linspace(0.5, 359.5, LON)[None, None, :]
    season = 4 * np.sin(2 * np.pi * day / 365) * np.sign(lat)
    eddies = np.sin(np.radians(6 * lon + 2 * day)) * np.cos(np.radians(5 * lat))
    noise = random.normal(0, 0.05, (DAYS, LAT, LON))
    temperature = 28 * np.cos(np.radians(lat)) ** 2 + season + eddies + noise
    land = (np.sin(np.radians(3 * lon)) + np.cos(np.radians(4 * lat)) > 1.3)[0]
    temperature[:, land] = np.nan
    first = np.datetime64("2026-01-01", "D")
    return {
        "temperature": np.round(temperature, 2).astype("f4"),
        "land": land,
        "time": first + np.arange(DAYS),
        "station": np.array(["Alert", "Cape Town", "Honolulu", "Reykjavik"], "U12"),
    }


DIMENSIONS = {
    "temperature": ["time", "lat", "lon"],
    "land": ["lat", "lon"],
    "time": ["time"],
    "station": ["station"],
}


def write(folder: Path, zarr_format: int | str, data: dict[str, npt.NDArray[np.generic]]) -> None:
    """Store the dataset. Version 1 has no groups, so each array gets its own store."""
    attributes = {"units": "degC", "long_name": "sea surface temperature", "valid_min": -5.0}
    grouped = zarr_format != 1
    group = None
    if grouped:
        title = {"title": "synthetic ocean", "source": "examples/demo.py"}
        group = oz.create_group(
            folder, zarr_format=zarr_format, attributes=title, overwrite=folder.exists()
        )
    for name, values in data.items():
        options: dict[str, Any] = {
            "chunks": (20, 90, 180) if name == "temperature" else "auto",
            "fill_value": np.nan if name == "temperature" else "auto",
            "dimension_names": DIMENSIONS[name],
            "attributes": attributes if name == "temperature" else {},
        }
        if name == "station":
            options["fill_value"] = ""
        if group is not None:
            group.create_array(name, data=values, **options)
        else:
            oz.create_array(
                folder / name,
                data=values,
                zarr_format=1,
                overwrite=(folder / name).exists(),
                **options,
            )


def read(folder: Path, zarr_format: int | str) -> dict[str, npt.NDArray[np.generic]]:
    """Return all arrays in the folder; the format is detected when they are opened."""
    if zarr_format == 1:
        opened = {p.name: oz.open(p) for p in sorted(folder.iterdir())}
    else:
        opened = dict(oz.open(folder).arrays())
    return {name: array[...] for name, array in opened.items()}


def same(a: dict[str, npt.NDArray[np.generic]], b: dict[str, npt.NDArray[np.generic]]) -> bool:
    """Return True if two datasets are bitwise equal."""
    return a.keys() == b.keys() and all(
        a[n].dtype == b[n].dtype and a[n].shape == b[n].shape and a[n].tobytes() == b[n].tobytes()
        for n in a
    )


def main(top: Path) -> int:
    """Write, read and compare; return 0 if all four formats agree."""
    data = ocean()
    raw = sum(values.nbytes for values in data.values())
    table = Table(title=f"one dataset, {raw / 1e6:.1f} MB in memory, four formats")
    for column in ("format", "files", "stored", "ratio", "write", "read", "agrees"):
        table.add_column(column, justify="left" if column == "format" else "right")
    agree = True
    for zarr_format in (1, 2, "3-draft", 3):
        folder = top / f"ocean-v{zarr_format}.zarr"
        start = time.perf_counter()
        write(folder, zarr_format, data)
        middle = time.perf_counter()
        back = read(folder, zarr_format)
        end = time.perf_counter()
        files = [p for p in folder.rglob("*") if p.is_file()]
        size = sum(p.stat().st_size for p in files)
        good = same(data, back)
        agree = agree and good
        table.add_row(
            f"zarr {zarr_format}",
            str(len(files)),
            f"{size / 1e6:.2f} MB",
            f"{raw / size:.1f}",
            f"{1e3 * (middle - start):.0f} ms",
            f"{1e3 * (end - middle):.0f} ms",
            "yes" if good else "NO",
        )
    latest = top / "ocean-v3.zarr"
    console.print(str(oz.open(latest).tree()), markup=False)
    console.print(table)
    console.print(f"try: .venv/bin/omnizarr info {latest} --node temperature")
    console.print("all four formats agree" if agree else "[red]the formats DISAGREE[/]")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo-data")))
