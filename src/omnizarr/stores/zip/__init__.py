"""ZIP archives as stores: the store, its file, the records of the format."""

from omnizarr.stores.zip.store import ZipStore

__all__ = ["ZipStore"]
