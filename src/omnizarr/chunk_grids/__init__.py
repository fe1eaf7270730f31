"""Chunk grids: which chunk holds which elements."""

from omnizarr import registry
from omnizarr.chunk_grids import rectilinear, regular
from omnizarr.chunk_grids.grid import Axis, Grid, ListedAxis, RegularAxis
from omnizarr.model import Named

__all__ = ["Axis", "Grid", "ListedAxis", "RegularAxis", "bind"]

registry.register("chunk_grid", "regular", regular.bind)
registry.register("chunk_grid", "rectilinear", rectilinear.bind)


def bind(named: Named, shape: tuple[int, ...]) -> Grid:
    """The grid of an array of that shape."""
    grid: Grid = registry.lookup("chunk_grid", named.name, "chunk_grid")(named, shape)
    return grid
