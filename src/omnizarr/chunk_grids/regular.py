"""regular: all chunks have one shape.

Specification: chunk grid ``regular`` of version 3; the only grid of the other formats.
Configuration: ``{"chunk_shape": [100, 100]}``.
"""

from __future__ import annotations

from omnizarr.chunk_grids.grid import Grid, RegularAxis
from omnizarr.errors import Problem
from omnizarr.model import Named
from omnizarr.model.configuration import check_members, invalid
from omnizarr.model.fields import Fields


def bind(named: Named, shape: tuple[int, ...]) -> Grid:
    """The grid over an array of that shape."""
    check_members(named, "chunk grid", required=("chunk_shape",))
    problems: list[Problem] = []
    fields = Fields("", named.configuration, problems)
    chunks = fields.integers("chunk_shape")
    if problems:
        raise invalid("chunk grid", named.name, problems[0].field, problems[0].message)
    if len(chunks) != len(shape):
        message = f"has {len(chunks)} entries, but shape has {len(shape)}"
        raise invalid("chunk grid", named.name, "chunk_shape", message)
    for i, (chunk, length) in enumerate(zip(chunks, shape, strict=True)):
        if chunk == 0 and length:
            message = "a chunk cannot have length 0 where the array does not"
            raise invalid("chunk grid", named.name, f"chunk_shape[{i}]", message)
    return Grid(tuple(RegularAxis(n, max(1, c)) for n, c in zip(shape, chunks, strict=True)))
