"""Logical paths of nodes: ``""`` is the root, others have no outer slash."""

from __future__ import annotations

from omnizarr.errors import InvalidName


def normalize(path: str | bytes | None) -> str:
    r"""The stored form of a path: outer and repeated slashes go.

    A segment `.` or `..` raises: no path leads out of its hierarchy, also where `\` is taken for
    `/`, as `forward` does.
    """
    if not path and (path is None or isinstance(path, (str, bytes))):
        return ""
    if isinstance(path, bytes):
        path = path.decode("ascii")
    if not isinstance(path, str):
        raise InvalidName(f"a path is a string, got {type(path).__name__}")
    parts = [p for p in path.split("/") if p]
    segments = path.replace("\\", "/").split("/") if "\\" in path else parts
    if "." in segments or ".." in segments:
        raise InvalidName(f"path {path!r} has a segment '.' or '..', which is not allowed")
    if "\0" in path:
        raise InvalidName(f"path {path!r} contains a NUL character")
    return "/".join(parts)


def forward(path: str) -> str:
    r"""The path in formats that take `\` for `/`: all but version 3, whose names may have it."""
    return normalize(path.replace("\\", "/")) if "\\" in path else path


def join(parent: str, child: str) -> str:
    """The path of `child` (itself a path) below `parent`."""
    return f"{parent}/{child}" if parent and child else parent or child


def prefix(path: str) -> str:
    """What keys below `path` start with: nothing for the root, else the path and one slash."""
    return f"{path}/" if path else ""


def name(path: str) -> str:
    """The last segment."""
    return path.rpartition("/")[2]


def ancestors(path: str) -> list[str]:
    """All paths above `path`, the root first."""
    if "/" not in path:
        return [""] if path else []
    parts = path.split("/")
    return ["/".join(parts[:i]) for i in range(len(parts))]


def show(path: str) -> str:
    """The path as people write it, with a leading slash."""
    return f"/{path}"
