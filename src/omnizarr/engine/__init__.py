"""The engine: binds the names of a model to code, and reads and writes by plans."""

from omnizarr.engine import rows
from omnizarr.engine.binding import BoundArray, chunk_context, was_bound
from omnizarr.engine.chunk_cache import costly, kept
from omnizarr.engine.dispatch import exclusive, read, read_small_traced, write, write_fields
from omnizarr.engine.inner_chunks import InnerPlan
from omnizarr.engine.kernel import empty, read_small
from omnizarr.engine.missing_chunks import Missing, check_missing
from omnizarr.engine.reference import UNKNOWN, fetch, read_chunk, write_chunk
from omnizarr.engine.stream import Stream
