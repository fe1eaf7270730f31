"""Which chunk an error of the reference engine is about."""

from __future__ import annotations

from omnizarr.engine.bound import BoundArray
from omnizarr.engine.missing import Coords
from omnizarr.errors import ChunkError, OmnizarrError
from omnizarr.model import paths


class telling:
    """Have errors inside the block say which chunk could not be read or written."""

    __slots__ = ("array", "coords", "verb")

    def __init__(self, verb: str, array: BoundArray, coords: Coords) -> None:
        self.verb, self.array, self.coords = verb, array, coords

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, e: BaseException | None, trace: object) -> None:
        if isinstance(e, MemoryError):
            e.args = (f"there is no memory for it: {e.args[0] if e.args else 'a chunk'}",)
        elif not isinstance(e, OmnizarrError) or (isinstance(e, ChunkError) and e.path):
            return
        path, key = paths.show(self.array.path), self.array.key(self.coords)
        raise ChunkError(
            f"cannot {self.verb} chunk {self.coords} of {path}"
            f" (key {key!r} in {self.array.store!r}): {e}",
            path=path,
            chunk=self.coords,
            key=key,
            codec=getattr(e, "codec", ""),
        ) from e
