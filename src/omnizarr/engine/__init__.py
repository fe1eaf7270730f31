"""The engine: binds names to code and runs plans. Threads live here and nowhere else."""

from omnizarr.engine.bound import BoundArray
from omnizarr.engine.reference import read, read_chunk, write, write_chunk

__all__ = ["BoundArray", "read", "read_chunk", "write", "write_chunk"]
