"""The engine: binds names to code and runs plans. Threads live here and nowhere else."""

from omnizarr.engine.bound import BoundArray
from omnizarr.engine.reference import is_fill, read, read_chunk, write, write_chunk

__all__ = ["BoundArray", "is_fill", "read", "read_chunk", "write", "write_chunk"]
