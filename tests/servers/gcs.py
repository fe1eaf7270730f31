"""The XML interface of Google Cloud Storage, as far as its clients use it.

The emulator on PyPI speaks the JSON interface only, which obstore does not.
"""

from __future__ import annotations

import hashlib
import threading
from email.utils import formatdate
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.servers.web import Answer, Web, cut

PAGE_SIZE = 1000


class CloudStorage(Web):
    """Buckets by name: objects with generations, conditional writes, listing in pages."""

    def __init__(self, port: int = 0) -> None:
        super().__init__(port=port)
        self.buckets: dict[str, dict[str, tuple[bytes, int]]] = {}
        self._metadata: dict[int, dict[str, str]] = {}  # by generation
        self._count = 0
        self._turn = threading.Lock()

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        parts = urlsplit(path)
        bucket, _, key = unquote(parts.path)[1:].partition("/")
        objects = self.buckets.get(bucket)
        if objects is None:
            return error(404, "NoSuchBucket")
        with self._turn:
            if not key:
                return _listing(bucket, objects, parse_qs(parts.query, keep_blank_values=True))
            if method == "PUT":
                return self._put(objects, key, headers, body)
            if key not in objects:
                return error(404, "NoSuchKey")
            if method == "DELETE":
                del objects[key]
                return Answer(204)
            value, generation = objects[key]
        more = _headers(value, generation) | self._metadata.get(generation, {})
        if "range" in headers:
            return cut(value, headers["range"], more)
        return Answer(200, value, more | {"Content-Length": str(len(value))})

    def _put(
        self,
        objects: dict[str, tuple[bytes, int]],
        key: str,
        headers: dict[str, str],
        body: bytes,
    ) -> Answer:
        refused = self._refused(objects, key, headers)
        if refused is not None:
            return refused
        self._count += 1
        objects[key] = body, self._count
        kinds = "x-goog-meta-", "x-amz-meta-"
        given = {k: v for k, v in headers.items() if k.startswith(kinds)}
        if given:
            self._metadata[self._count] = given
        return Answer(200, b"", _headers(body, self._count))

    def _refused(
        self, objects: dict[str, tuple[bytes, int]], key: str, headers: dict[str, str]
    ) -> Answer | None:
        """Return the answer to a write whose condition does not hold."""
        wanted = headers.get("x-goog-if-generation-match")
        current = objects[key][1] if key in objects else 0
        if wanted is not None and int(wanted) != current:
            return error(412, "PreconditionFailed")
        return None


def _headers(value: bytes, generation: int) -> dict[str, str]:
    return {
        "ETag": f'"{hashlib.md5(value).hexdigest()}"',
        "x-goog-generation": str(generation),
        "Last-Modified": formatdate(usegmt=True),
        "Content-Type": "application/octet-stream",
    }


def error(status: int, code: str) -> Answer:
    text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}</Message></Error>"
    return Answer(status, text.encode(), {"Content-Type": "application/xml"})


def _listing(
    bucket: str, objects: dict[str, tuple[bytes, int]], query: dict[str, list[str]]
) -> Answer:
    """Return one page of names after the token."""
    prefix = query.get("prefix", [""])[0]
    delimiter = query.get("delimiter", [""])[0]
    after = query.get("continuation-token", query.get("start-after", [""]))[0]
    names: dict[str, bool] = {}
    for key in sorted(objects):
        if key.startswith(prefix):
            head, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
            names[prefix + head + found if found else key] = bool(found)
    rest = [name for name in names if name > after]
    page = rest[:PAGE_SIZE]
    more = len(rest) > len(page)
    items = "".join(
        f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>"
        if names[name]
        else f"<Contents><Key>{escape(name)}</Key><Size>{len(objects[name][0])}</Size>"
        "<LastModified>2026-01-01T00:00:00.000Z</LastModified>"
        f'<ETag>"{hashlib.md5(objects[name][0]).hexdigest()}"</ETag></Contents>'
        for name in page
    )
    token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if more else ""
    text = (
        f"<?xml version='1.0'?><ListBucketResult><Name>{bucket}</Name>{items}{token}"
        f"<IsTruncated>{str(more).lower()}</IsTruncated></ListBucketResult>"
    )
    return Answer(200, text.encode(), {"Content-Type": "application/xml"})
