"""Write a climate dataset with xarray, append to it, and read it by location and time.

Run it with ``python examples/climate.py FOLDER``. If matplotlib is installed, it also draws
``climate.png`` there. Running it again replaces its output.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import xarray as xr

import omnizarr.xarray as ozx


def year(number: int) -> xr.Dataset:
    """Return synthetic air temperatures of one year, every five days, on a grid of 5 degrees."""
    random = np.random.default_rng(number)
    time = np.arange(f"{number}-01-01", f"{number}-12-31", 5, dtype="M8[D]").astype("M8[ns]")
    lat, lon = np.arange(-87.5, 90, 5), np.arange(2.5, 360, 5)
    season = np.cos(2 * np.pi * (np.arange(time.size) - 3) / 73)[:, None, None]
    north = np.sin(np.radians(lat))[None, :, None]
    waves = np.sin(np.radians(3 * lon))[None, None, :] * np.cos(np.radians(lat))[None, :, None]
    mean = 28 * np.cos(np.radians(lat))[None, :, None] ** 2 - 12
    values = mean - 14 * season * north + 3 * waves + random.normal(0, 1, (time.size, 36, 72))
    values[random.random(values.shape) < 0.001] = np.nan  # a few stations failed
    air = xr.DataArray(
        np.round(values, 1),
        dims=("time", "lat", "lon"),
        coords={"time": time, "lat": lat, "lon": lon},
        attrs={"units": "degC", "standard_name": "air_temperature"},
    )
    return xr.Dataset({"air": air}, attrs={"Conventions": "CF-1.11"})


def main(folder: Path) -> None:
    path = folder / "climate.zarr"
    packed = {"dtype": "i2", "scale_factor": 0.1, "_FillValue": -32768}
    layout = {"chunks": (73, 12, 24), "shards": (73, 36, 72)}
    ozx.write(year(2001), path, mode="w", encoding={"air": {**packed, **layout}})
    for number in (2002, 2003):
        year(number).omnizarr.to(path, append_dim="time")

    with xr.open_dataset(path, engine="omnizarr", chunks={}) as stored:
        print(f"{stored.sizes['time']} times, {stored.air.data.npartitions} blocks")
        print(f"missing: {int(stored.air.isnull().sum())}")
        oslo = stored.air.sel(lat=60, lon=10.7, method="nearest").groupby("time.month").mean()
        print(f"near Oslo: {float(oslo.min()):.0f} to {float(oslo.max()):.0f} degC")
        if find_spec("matplotlib"):
            draw(stored, oslo, folder / "climate.png")

    better = year(2002).isel(time=slice(10, 20)).fillna(0.0)
    better.omnizarr.to(path, region={"time": "auto", "lat": "auto", "lon": "auto"})
    again = xr.open_dataset(path, engine="omnizarr")
    print(f"missing after the repair: {int(again.air.isnull().sum())}")


def draw(stored: xr.Dataset, oslo: xr.DataArray, target: Path) -> None:
    """Draw maps of the January and July means, and the annual cycle at one location."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - an optional package

    figure = Figure(figsize=(10, 2.8), dpi=64, layout="constrained")
    panels = figure.subplots(1, 3)
    for axes, month, name in zip(panels, (1, 7), ("January", "July"), strict=False):
        mean = stored.air.sel(time=stored.time.dt.month == month).mean("time")
        picture = axes.imshow(
            mean, origin="lower", extent=(0, 360, -90, 90), cmap="RdBu_r", vmin=-30, vmax=30
        )
        axes.set_title(f"{name}, °C")
    figure.colorbar(picture, ax=list(panels[:2]), shrink=0.8)
    panels[2].plot(oslo.month, oslo, "o-")
    panels[2].set_title("near Oslo by month, °C")
    figure.savefig(target)


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "climate-data")
    folder.mkdir(parents=True, exist_ok=True)
    main(folder)
