"""Logical paths of nodes: ``""`` is the root, others have no outer slash; and patterns of them.

A pattern without a slash matches the name of a node, anywhere in the hierarchy, or of a file that
is no chunk. A pattern with a slash matches the path of a node, or a whole key. ``*`` and ``?`` do
not match a slash, ``**`` does. A node that matches comes with everything below it. A name with
brackets or the like also matches itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from omnizarr.errors import InvalidArgument, InvalidName

OURS = ".__omnizarr_"  # in the name of what is no value: locks, journals, unfinished nodes
_OURS = re.compile(r"\.__omnizarr_[a-z]+__")


def normalize(path: str | bytes | None) -> str:
    r"""Return the stored form of a path, without outer and repeated slashes.

    A segment `.` or `..` raises, also where `\` is taken for `/`: no path leaves its hierarchy.
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
    """Return True if a key or file name is internal to this package, not a value."""
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
    """Return the prefix of a key up to its last slash, which its siblings share."""
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


def place(path: str, store: object) -> str:
    """Return the place of a node for messages; the store alone for its root."""
    return f"/{path} in {store!r}" if path else repr(store)


_PIECE = re.compile(r"\*\*/?|\*|\?|\[[^]]+\]|[^*?[]+|\[")


def pattern_regex(pattern: str) -> re.Pattern[str]:
    """Return the regular expression of a pattern, for a whole name, path or key."""
    text = ""
    for piece in _PIECE.findall(pattern):
        if piece == "**/":
            text += "(?:.*/)?"
        elif piece == "**":
            text += ".*"
        elif piece in ("*", "?"):
            text += "[^/]*" if piece == "*" else "[^/]"
        elif piece.startswith("[") and len(piece) > 1:
            inside = piece[1:-1].replace("\\", "\\\\")
            text += f"[{'^' + inside[1:] if inside[0] == '!' else inside}]"
        else:
            text += re.escape(piece)
    if "[" in pattern:
        text = f"{re.escape(pattern)}|{text}"
    try:
        return re.compile(text, re.DOTALL)
    except re.error as e:
        raise InvalidArgument(f"the pattern {pattern!r} is not valid: {e}") from e


@dataclass(frozen=True)
class Patterns:
    """Patterns for names, and patterns for whole paths and keys."""

    names: tuple[re.Pattern[str], ...]
    whole: tuple[re.Pattern[str], ...]

    @classmethod
    def of(cls, patterns: Iterable[str] | str) -> Patterns:
        """Return the patterns of one or several texts; ``/`` is the root."""
        names, whole = list[re.Pattern[str]](), list[re.Pattern[str]]()
        for given in [patterns] if isinstance(patterns, str) else patterns:
            text = given.strip("/")
            if not text and given != "/":
                raise InvalidArgument("a pattern must not be empty; '**' matches everything")
            slashed = "/" in text or "**" in text or given.startswith("/")
            (whole if slashed else names).append(pattern_regex(text))
        return cls(tuple(names), tuple(whole))

    def match_node(self, path: str) -> bool:
        """Return True if a node, or a node above it other than the root, matches."""
        return any(
            any(regex.fullmatch(name(each)) for regex in self.names)
            or any(regex.fullmatch(each) for regex in self.whole)
            for each in (*ancestors(path), path)
            if each or not path
        )

    def match_key(self, key: str, is_chunk: bool) -> bool:
        """Return True if the key itself matches."""
        if any(regex.fullmatch(key) for regex in self.whole):
            return True
        return not is_chunk and any(regex.fullmatch(name(key)) for regex in self.names)
