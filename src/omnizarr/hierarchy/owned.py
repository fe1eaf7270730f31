"""Whether all keys below a node are Zarr's own, so that erasing or moving it takes nothing else."""

from __future__ import annotations

from omnizarr import chunk_key_encodings
from omnizarr.errors import StoreError
from omnizarr.formats import Format
from omnizarr.hierarchy.fetch import fetch
from omnizarr.model import ArrayModel, Node, paths
from omnizarr.stores import Store, can_list, list_prefix
from omnizarr.stores.replace_file import OURS


def check_owned(store: Store, path: str, format: Format) -> None:
    """Raise where a node cannot be erased: something below is not Zarr, or not known."""
    where = f"{paths.show(path)} in {store!r}"
    if not can_list(store):
        raise StoreError(f"{store!r} cannot list its keys, so {where} cannot be erased")
    arrays: dict[str, Node | None] = {}
    for prefix in format.owned(path)[1]:
        for key in list_prefix(store, prefix):
            if OURS in key:
                continue
            if not format.looks_owned(key) and not _is_chunk(store, format, key, arrays):
                raise StoreError(
                    f"{where} holds something that is not Zarr: {key!r}; nothing was erased."
                    " Move it away first, or erase it too: group.delete(name, foreign=True)"
                )


def _is_chunk(store: Store, format: Format, key: str, arrays: dict[str, Node | None]) -> bool:
    """Whether a key is a chunk's in the encoding of the array that it lies in."""
    for path in paths.ancestors(key):
        if path not in arrays:
            arrays[path] = format.read(path, fetch(store, format.keys(path)), [])
        array = arrays[path]
        if isinstance(array, ArrayModel):
            encoding = chunk_key_encodings.bind(array.chunk_key_encoding)
            inside = key.removeprefix(format.chunk_prefix(path))
            return encoding.coords(inside, len(array.shape)) is not None
    return False
