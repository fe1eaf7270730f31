"""Logical paths of nodes: ``""`` is the root, others have no outer slash."""

from __future__ import annotations

import re

from omnizarr.errors import InvalidName

OURS = ".__omnizarr_"  # in the name of what is no value: locks, journals, unfinished nodes
_OURS = re.compile(r"\.__omnizarr_[a-z]+__")


def normalize(path: str | bytes | None) -> str:
    r"""Return the stored form of a path, without outer and repeated slashes.

    A segment `.` or `..` raises: no path points outside its hierarchy, also where `\` is taken for
    `/`, as `forward` does.
    """
    if not path and (path is None or isinstance(path, (str, bytes))):
        return ""
    if isinstance(path, bytes):
        path = path.decode("ascii")
    if not isinstance(path, str):
        raise InvalidName(f"a path is a string, got {type(path).__name__}")
    if path.isalnum():
        return path  # one name, as most
    parts = [p for p in path.split("/") if p]
    segments = path.replace("\\", "/").split("/") if "\\" in path else parts
    if "." in segments or ".." in segments:
        raise InvalidName(f"path {path!r} has a segment '.' or '..', which is not allowed")
    if "\0" in path:
        raise InvalidName(f"path {path!r} contains a NUL character")
    return "/".join(parts)


def is_ours(key: str) -> bool:
    """Return True if a key, or the name of a file, is no value but belongs to this package."""
    return OURS in key and _OURS.search(key) is not None


def check_new(path: str) -> None:
    """Raise if no new node can have a path, in any format and store."""
    if not path.isascii() and any("\ud800" <= c <= "\udfff" for c in path):
        raise InvalidName(f"the path {path!r} is not Unicode text: it has half of a surrogate pair")
    if OURS in path:
        raise InvalidName(
            f"the path {path!r} contains {OURS!r}, which marks unfinished work and locks of"
            " omnizarr; choose another name"
        )


def forward(path: str) -> str:
    r"""Return the path with `\` as `/`; only version 3 keeps a backslash in names."""
    return normalize(path.replace("\\", "/")) if "\\" in path else path


def join(parent: str, child: str) -> str:
    """Return the path of `child` (itself a path) below `parent`."""
    return f"{parent}/{child}" if parent and child else parent or child


def folder(key: str) -> str:
    """Return the prefix of all keys beside a key: that up to its last slash."""
    return key[: key.rfind("/") + 1]


def prefix(path: str) -> str:
    """Return the prefix of keys below `path`: empty for the root, else the path and one slash."""
    return f"{path}/" if path else ""


def name(path: str) -> str:
    """Return the last segment."""
    return path.rpartition("/")[2]


def ancestors(path: str) -> list[str]:
    """Return all paths above `path`, the root first."""
    if "/" not in path:
        return [""] if path else []
    parts = path.split("/")
    return ["/".join(parts[:i]) for i in range(len(parts))]


def show(path: str) -> str:
    """Return the path with a leading slash, for messages."""
    return f"/{path}"
