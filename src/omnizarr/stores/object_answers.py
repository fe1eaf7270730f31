"""Answers of an object store by way of obstore: what came, what it is of, and what went wrong."""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from omnizarr.errors import StoreError
from omnizarr.stores.retry import MayPass
from omnizarr.stores.url import is_page, without_secrets

Meta: TypeAlias = dict[str, Any]
CODE = re.compile(r"<Code>(\w+)</Code>")
_STATUS = re.compile(r"non-2xx status code: (\d{3})")


def fetch(client: Any, path: str, options: dict[str, Any]) -> tuple[bytes, Meta]:
    """The part of a value that options ask for, or an error."""
    result = client.get(path, options=options)
    first, end = result.range
    data = bytes(result.bytes())
    if len(data) != end - first or _differs(options, first, end, result.meta["size"]):
        raise MayPass(f"{len(data)} bytes came as bytes {first} to {end}")
    if is_page(result.attributes.get("Content-Type"), data, first):
        raise StoreError("a web page came instead of data; is a login needed?")
    return data, result.meta


def _differs(options: dict[str, Any], first: int, end: int, size: int) -> bool:
    """Whether another part of a value came than was asked for."""
    asked = options.get("range")
    if asked is None:
        return (first, end) != (0, size)
    if isinstance(asked, tuple):
        return (first, end) != (asked[0], min(asked[1], size))
    if "suffix" in asked:
        return (first, end) != (max(0, size - asked["suffix"]), size)
    return (first, end) != (asked["offset"], size)


def generation(meta: Meta) -> str:
    """The text that tells a value from others of its key."""
    found = tag(meta)
    if found is None:
        raise StoreError("the server gives neither an ETag nor a version")
    return found


def tag(meta: Meta) -> str | None:
    """As `generation`; None where the server gives nothing to tell by."""
    version, e_tag = meta.get("version"), meta.get("e_tag")
    return f"{version or ''}|{e_tag or ''}" if version or e_tag else None


def is_marked(client: Any, path: str, data: Any, name: str, mark: str) -> bool:
    """Tell whether an object is that of a certain write, not of another of the same bytes.

    Where a server keeps no metadata, the bytes have to do.
    """
    try:
        result = client.get(path)
    except FileNotFoundError:
        return False
    found = {k.lower(): v for k, v in result.attributes.items()}.get(name)
    return found == mark if found is not None else bytes(result.bytes()) == bytes(data)


def status(error: Exception) -> int | None:
    """The number of a server's answer that is behind an error."""
    found = _STATUS.search(str(error))
    return None if found is None else int(found[1])


def reason(error: Exception) -> str:
    """What went wrong in one line that holds no secrets."""
    text = str(error).partition("\n\nDebug source")[0]
    code = CODE.search(text)
    line = without_secrets(text.partition("\n")[0].partition(": <")[0])
    return f"{line} ({code[1]})" if code is not None else line
