"""ZIP archives as stores: the store, the file that it appends to, the records of the format."""

from omnizarr.stores.zip.store import ZipStore

__all__ = ["ZipStore"]
