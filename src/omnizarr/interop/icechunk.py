"""Repositories of icechunk by URL, read-only; needs the package `icechunk`.

``icechunk:///path/to/repository`` is in a directory, ``icechunk::s3://bucket/prefix`` in a bucket
(also ``gs://`` and ``az://``). To write, give the store of a writable session to
`omnizarr.create_array` and the like, and commit the session.
"""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import unquote, urlsplit

from omnizarr.errors import MissingModule, StoreError
from omnizarr.extension import (
    StorageIdentity,
    absolute_path,
    directory,
    inside,
    redact_urls,
    split_path,
)

try:
    import icechunk
except ImportError as e:
    raise MissingModule(
        "repositories of icechunk need a package: pip install 'omnizarr[icechunk]'"
    ) from e

from omnizarr.interop.zarr.zarr_python import SessionStore  # needs zarr, as icechunk does

# Storage options, and the parameters of `Repository.readonly_session` that they are.
_REFERENCES = {"branch": "branch", "tag": "tag", "snapshot": "snapshot_id"}


class RepositoryStore(SessionStore):
    """A snapshot of a repository: the last one of a branch, when it was opened, or another."""

    _to_write = "give the store of an icechunk session, repository.writable_session('main').store"

    def __init__(self, session: icechunk.Session, url: str) -> None:
        super().__init__(session.store, read_only=True)
        self.url = url
        self.snapshot = session.snapshot_id

    @classmethod
    def from_url(cls, url: str, *, read_only: bool = True, **options: Any) -> RepositoryStore:
        """Return the store of a branch (main if none is named), a tag or a snapshot.

        Options other than `branch`, `tag` and `snapshot` are those of icechunk's storage.
        """
        named = {name: options.pop(name) for name in _REFERENCES if name in options}
        if len(named) > 1:
            raise StoreError(
                f"storage_options for {redact_urls(url)!r}: only one of branch, tag and snapshot"
                f" can be given, got {named}"
            )
        name, value = next(iter(named.items()), ("branch", "main"))
        storage = _storage(url, options)
        try:
            repository = icechunk.Repository.open(storage)
        except (icechunk.IcechunkError, ValueError) as e:
            raise StoreError(
                f"cannot open the icechunk repository {redact_urls(url)!r}: {_reason(e)}"
            ) from e
        reference: dict[str, Any] = {_REFERENCES[name]: value}
        try:
            session = repository.readonly_session(**reference)
        except (icechunk.IcechunkError, ValueError) as e:
            branches, tags = sorted(repository.list_branches()), sorted(repository.list_tags())
            raise StoreError(
                f"cannot open {name} {value!r} of {redact_urls(url)!r}: {_reason(e)};"
                f" branches: {', '.join(branches)}; tags: {', '.join(tags) or 'none'}"
            ) from e
        return cls(session, url)

    def identity(self, prefix: str = "") -> StorageIdentity:
        path = _path(self.url)
        if path is None:
            return inside(("icechunk", self.url, self.snapshot), prefix)
        return inside(("icechunk", self.snapshot), prefix, directory(path))

    def __repr__(self) -> str:
        return f"{redact_urls(self.url)} at snapshot {self.snapshot}"


def _path(url: str) -> str | None:
    """Return the directory that a URL names, or None for a bucket."""
    _, chained, inner = url.partition("::")
    if chained and urlsplit(inner).scheme != "file":
        return None
    return absolute_path("".join(split_path(inner if chained else url)))


def _storage(url: str, options: dict[str, Any]) -> icechunk.Storage:
    """Return icechunk's storage for a URL."""
    path = _path(url)
    if path is not None:
        if options:
            raise StoreError(
                f"unknown storage_options {sorted(options)} for {url!r}; known: branch, tag,"
                " snapshot"
            )
        if not os.path.isdir(path):  # which icechunk would create
            raise StoreError(f"cannot open the icechunk repository {url!r}: no directory {path!r}")
        return icechunk.local_filesystem_storage(path)
    parts = urlsplit(url.partition("::")[2])
    prefix = unquote(parts.path).strip("/")
    match parts.scheme:
        case "s3":
            return icechunk.s3_storage(bucket=parts.netloc, prefix=prefix, **options)
        case "gs" | "gcs":
            return icechunk.gcs_storage(bucket=parts.netloc, prefix=prefix, **options)
        case "az":
            return icechunk.azure_storage(container=parts.netloc, prefix=prefix, **options)
    raise StoreError(
        f"{redact_urls(url)!r} is not icechunk:///path, nor icechunk:: in front of s3://bucket/…,"
        " gs://bucket/… or az://container/…; for other storage give the store of a session"
    )


def _reason(error: Exception) -> str:
    """Return the first line of a message; the others are a trace of the package."""
    return str(getattr(error, "message", error)).strip().partition("\n")[0]
