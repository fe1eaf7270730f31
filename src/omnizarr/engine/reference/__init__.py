"""The reference engine: plain Python and NumPy, can do everything."""

from omnizarr.engine.reference.reading import fetched, fill_row, read, read_chunk, read_row
from omnizarr.engine.reference.telling import telling
from omnizarr.engine.reference.writing import write, write_chunk, write_fields, write_rows

__all__ = [
    "fetched",
    "fill_row",
    "read",
    "read_chunk",
    "read_row",
    "telling",
    "write",
    "write_chunk",
    "write_fields",
    "write_rows",
]
