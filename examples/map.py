"""Write a map with its pyramid, readable by GDAL too, and read it by region and resolution.

Run it with ``python examples/map.py FOLDER``. If matplotlib is installed, it also draws ``map.png``
there. Running it again replaces its output.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt

import omnizarr as oz

REGION = (-32.0, 26.0, -8.0, 42.0)  # west, south, east, north
# EPSG:4326 as WKT, so that pyproj is not needed.
WGS84 = (
    'GEOGCRS["WGS 84",DATUM["World Geodetic System 1984",'
    'ELLIPSOID["WGS 84",6378137,298.257223563,LENGTHUNIT["metre",1]]],'
    'PRIMEM["Greenwich",0,ANGLEUNIT["degree",0.0174532925199433]],CS[ellipsoidal,2],'
    'AXIS["geodetic latitude (Lat)",north,ORDER[1],ANGLEUNIT["degree",0.0174532925199433]],'
    'AXIS["geodetic longitude (Lon)",east,ORDER[2],ANGLEUNIT["degree",0.0174532925199433]],'
    'ID["EPSG",4326]]'
)


def heights() -> npt.NDArray[np.int16]:
    """Return the elevations of a synthetic world in metres, on a grid of 0.1 degrees."""
    random = np.random.default_rng(11)
    rows, columns = 1800, 3600
    waves = np.zeros((rows, columns))
    lat = np.linspace(90, -90, rows)[:, None]
    lon = np.linspace(-180, 180, columns)[None, :]
    for power in range(1, 7):
        for _ in range(6):
            a, b, c, d = random.uniform(0, 2 * np.pi, 4)
            k = 2**power / 30
            waves += np.cos(np.cos(a) * k * lat + b) * np.cos(np.sin(a) * k * lon + c + d) / power
    return np.clip(waves * 900 - 400, -8000, 8000).astype(np.int16)


def main(folder: Path) -> None:
    path = folder / "world.zarr"
    world = heights()
    oz.geo.write(
        path,
        world,
        crs=WGS84,
        bounds=(-180, -90, 180, 90),
        chunks=(256, 256),
        shards=(1024, 1024),
        attributes={"units": "m", "long_name": "elevation above sea level"},
        way="both",
        overwrite=True,
    )
    earth = oz.geo.open(path)
    print(earth)
    print(f"coordinate reference system {earth.crs}, bounds {earth.bounds}")
    part = earth.read(REGION)
    print(f"a region: {part.shape} pixels, from {part.min()} to {part.max()} m")
    overview = earth.read(resolution=1.0)
    print(f"the whole map with pixels of at most 1 degree: {overview.shape}")
    if find_spec("matplotlib"):
        draw(earth, folder / "map.png")


def draw(earth: oz.geo.Map, target: Path) -> None:
    """Draw the coarsest level, and a region of the finest level."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - an optional package

    coarse = earth.levels[-1]
    panels = [
        (np.asarray(coarse.array[...]), coarse.bounds, "level 4"),
        (earth.read(REGION), REGION, "a region of level 0"),
    ]
    figure = Figure(figsize=(9, 3.2), dpi=64, layout="constrained")
    for axes, (values, bounds, title) in zip(figure.subplots(1, 2), panels, strict=True):
        west, south, east, north = bounds or (0, 0, 1, 1)
        axes.imshow(
            values, extent=(west, east, south, north), cmap="terrain", vmin=-2500, vmax=2500
        )
        axes.set_title(title)
    figure.savefig(target)


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "map-data")
    folder.mkdir(parents=True, exist_ok=True)
    main(folder)
