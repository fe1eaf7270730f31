"""Chunk grids: which chunk holds which elements."""

from omnizarr import registry
from omnizarr.chunk_grids import rectilinear, regular
from omnizarr.chunk_grids.grid import Axis, Grid, ListedAxis, RegularAxis
from omnizarr.model import Named

__all__ = ["Axis", "Grid", "ListedAxis", "RegularAxis", "bind", "covering"]

registry.register("chunk_grid", "regular", regular.bind)
registry.register("chunk_grid", "rectilinear", rectilinear.bind)


def bind(named: Named, shape: tuple[int, ...]) -> Grid:
    """The grid of an array of that shape."""
    grid: Grid = registry.lookup("chunk_grid", named.name, "chunk_grid")(named, shape)
    return grid


def covering(named: Named, shape: tuple[int, ...], unit: tuple[int, ...] | None = None) -> Named:
    """Return the grid with chunks for all of a shape; one that covers it stays as it is.

    A rectilinear grid gets one more chunk along an axis that is longer than its list, a multiple
    of `unit`, as the shape of chunks in a shard must be.
    """
    if named.name != "rectilinear":
        return named
    return rectilinear.covering(named, shape, unit or (1,) * len(shape))
