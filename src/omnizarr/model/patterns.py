"""Patterns of names, paths and keys.

A pattern without a slash matches the name of a node, anywhere in the hierarchy, or of a file that
is no chunk. A pattern with a slash matches the path of a node, or a whole key. ``*`` and ``?`` do
not match a slash, ``**`` does. A node that matches comes with everything below it. A name with
brackets or the like also matches itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from omnizarr.errors import InvalidArgument
from omnizarr.model import paths

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
    """Several patterns: those of names, and those of paths and keys."""

    names: tuple[re.Pattern[str], ...]
    paths: tuple[re.Pattern[str], ...]

    @classmethod
    def of(cls, patterns: Iterable[str] | str) -> Patterns:
        """Return the patterns in a text or several; ``/`` is the root."""
        names, whole = list[re.Pattern[str]](), list[re.Pattern[str]]()
        for given in [patterns] if isinstance(patterns, str) else patterns:
            text = given.strip("/")
            if not text and given != "/":
                raise InvalidArgument("a pattern must not be empty; '**' matches everything")
            slashed = "/" in text or "**" in text or given.startswith("/")
            (whole if slashed else names).append(pattern_regex(text))
        return cls(tuple(names), tuple(whole))

    def match_node(self, path: str) -> bool:
        """Return True if a node, or one above it but the root, matches."""
        return any(
            any(regex.fullmatch(paths.name(each)) for regex in self.names)
            or any(regex.fullmatch(each) for regex in self.paths)
            for each in (*paths.ancestors(path), path)
            if each or not path
        )

    def match_key(self, key: str, is_chunk: bool) -> bool:
        """Return True if the key itself matches."""
        if any(regex.fullmatch(key) for regex in self.paths):
            return True
        return not is_chunk and any(regex.fullmatch(paths.name(key)) for regex in self.names)
