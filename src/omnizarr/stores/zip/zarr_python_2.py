"""The ZIP store with the parameters of zarr-python 2; what is created in it is version 2."""

from __future__ import annotations

import os

from omnizarr.stores.zip.records import STORED
from omnizarr.stores.zip.store import Mode
from omnizarr.stores.zip.store import ZipStore as _ZipStore


class ZipStore(_ZipStore):
    """A ZIP file, which is created where it does not exist."""

    default_format = "2"
    identity_details = _ZipStore.identity_details

    def __init__(
        self,
        path: str | os.PathLike[str],
        compression: int = STORED,
        allowZip64: bool = True,
        mode: Mode = "a",
        *,
        read_only: bool | None = None,
    ) -> None:
        super().__init__(
            path, mode=mode, read_only=read_only, compression=compression, allowZip64=allowZip64
        )
