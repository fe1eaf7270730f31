"""Kerchunk references as a store: values that are parts of other files."""

from __future__ import annotations

import os
import re

from omnizarr.stores.local.store import LocalStore

PREFIX = "reference::"
REFERENCE_ENDINGS = (".json", ".parq", ".parquet")
_DOCUMENTS = ("zarr.json", "attributes.json")  # of hierarchies
SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):")  # one letter is a Windows drive
WEB = re.compile("https?://", re.IGNORECASE)
# Schemes whose URLs are paths of files. A database may have any name.
_CLOUD = ("s3", "s3a", "gs", "gcs", "az", "azure", "abfs", "abfss", "adl", "hdfs", "hf")
_FILES = {*_CLOUD, "http", "https", "ftp", "sftp", "ssh", "smb", "webdav", "git", "github"}


def is_references(text: str) -> bool:
    """Return True if a path or URL names kerchunk references: a JSON file or a Parquet folder.

    They are known by their ending, or by ``reference::`` in front; local ones have to exist.
    """
    if text.startswith(PREFIX):
        return True
    plain = (text.partition("?")[0] if WEB.match(text) else text).rstrip("/")
    lower = plain.lower()
    if not lower.endswith(REFERENCE_ENDINGS) or lower.rpartition("/")[2] in _DOCUMENTS:
        return False
    scheme = SCHEME.match(plain)
    if scheme is not None and scheme[1].lower() != "file":
        return "::" not in plain and scheme[1].lower() in _FILES
    path = plain if scheme is None else str(LocalStore.from_url(plain).root)
    inside = path if lower.endswith(".json") else os.path.join(path, ".zmetadata")
    return os.path.isfile(inside)
