"""Entity tags, conditional requests and byte ranges of HTTP (RFC 9110)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias

from omnizarr.extension import value_digest

if TYPE_CHECKING:
    from starlette.requests import Request

Span: TypeAlias = tuple[int, int]  # start and stop in bytes

_RANGE = re.compile(
    r"\s*bytes\s*=\s*(?=.*[0-9])([0-9]{0,18})[ \t]*-[ \t]*([0-9]{0,18})\s*", re.IGNORECASE
)
_TAG = re.compile(r'(W/)?"[\x21\x23-\x7e\x80-\xff]*"')


def entity_tag(*parts: str | bytes) -> str:
    """Return the entity tag for these parts; a weak generation among them makes it weak."""
    weak = any(isinstance(part, str) and part.startswith("W/") for part in parts)
    encoded = (p.encode("utf-8", "surrogatepass") if isinstance(p, str) else p for p in parts)
    digest = value_digest(b"\0".join(encoded))
    return f'W/"{digest}"' if weak else f'"{digest}"'


def decided_status(request: Request, tag: str | None) -> int | None:
    """Return 412 or 304 if a condition of a request says so, else None."""
    wanted, unwanted = _header(request, "if-match"), _header(request, "if-none-match")
    if wanted is not None and not _matches(wanted, tag, strong=True):
        return 412
    return 304 if unwanted is not None and _matches(unwanted, tag) else None


def requested_span(request: Request, tag: str | None, size: int) -> Span | None:
    """Return the span of a value that a request asks for; None for all of it."""
    header, condition = _header(request, "range"), request.headers.get("if-range")
    if header is None or request.method != "GET":
        return None
    if condition is not None and (_is_weak(tag) or condition.strip() != tag):
        return None  # dates never match, as none are sent
    return parse_range(header, size)


def parse_range(header: str, size: int) -> Span | None:
    """Return the span of a Range header, an empty one if it is outside of the value.

    None if all is wanted or the header is to be ignored: several ranges are answered by all.
    """
    match = _RANGE.fullmatch(header)
    if match is None:
        return None
    first, last = match.groups()
    if not first:  # the last bytes; all of nothing cannot be expressed by Content-Range
        return (max(0, size - int(last)), size) if size or not int(last) else None
    start, stop = int(first), min(int(last) + 1, size) if last else size
    return None if last and int(last) < start else (start, max(start, stop))


def _matches(header: str, tag: str | None, *, strong: bool = False) -> bool:
    """Return True if a header of entity tags, or an asterisk, matches a tag."""
    if header.strip() == "*":
        return True
    if tag is None or (strong and _is_weak(tag)):
        return False
    start = "" if strong else "W/"
    return any(m[0].removeprefix(start) == tag.removeprefix(start) for m in _TAG.finditer(header))


def _is_weak(tag: str | None) -> bool:
    return tag is None or tag.startswith("W/")


def _header(request: Request, name: str) -> str | None:
    """Return a list header as one text, joined if it was sent in several parts."""
    return ", ".join(request.headers.getlist(name)) or None
