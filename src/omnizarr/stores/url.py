"""URLs as people may see them, and web pages that came instead of data."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit, urlunsplit

from omnizarr.errors import StoreError

_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://[^\s'\"<>|]+")
_PAGE = re.compile(rb"\s*<(!doctype\s+html|html|head|body|title|script|meta|!--)", re.IGNORECASE)


def shown(url: str) -> str:
    """A URL without user, password, query and fragment, which may hold secrets."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    query = "…" if parts.query else ""
    if not parts.netloc and parts.path.startswith("/"):
        return f"{parts.scheme}://{parts.path}" + (query and "?…")
    return urlunsplit((parts.scheme, host, parts.path, query, ""))


def split_path(url: str) -> tuple[str, str]:
    """Return host and path of a URL that names a file or directory, both unquoted.

    Raise for a query or fragment: such URLs have none, so part of the name would be lost.
    """
    parts = urlsplit(url)
    if parts.query or parts.fragment:
        raise StoreError(
            f"{url!r} has a '?' or '#', which are not part of a path in a URL;"
            " write %3F or %23 where they belong to the name"
        )
    return unquote(parts.netloc), unquote(parts.path)


def without_secrets(text: str) -> str:
    """A message in which every URL is `shown`."""
    return _URL.sub(lambda match: shown(match[0]), text)


def is_page(content_type: str | None, data: bytes, start: int = 0) -> bool:
    """Whether an answer is a web page, such as a login form, rather than a value.

    Some servers call every answer text/html, so its beginning must look like it too, if it is
    there to be seen.
    """
    kind = (content_type or "").partition(";")[0].strip().lower()
    if kind not in ("text/html", "application/xhtml+xml"):
        return False
    return start != 0 or _PAGE.match(data) is not None
