"""S3 as far as its clients use it, faster than moto: conditional writes and reads, listing.

``python -m tests.servers.s3 PORT LATENCY BUCKET...`` serves until it is ended; with a number in
place of buckets, a `GeneratedBucket` of so many objects.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import time
from collections import deque
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape, unescape

from tests.servers.gcs import CloudStorage, error
from tests.servers.web import Answer, Web


class SimpleStorage(CloudStorage):
    """Buckets by name: objects with e-tags for conditional writes and reads."""

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        if method == "POST" and path.partition("?")[2].startswith("delete"):
            return self._delete(path, body)
        found = super().answer(method, path, headers, body)
        wanted = headers.get("if-match")
        if method in ("GET", "HEAD") and wanted not in (None, found.headers.get("ETag")):
            return found if found.status == 404 else error(412, "PreconditionFailed")
        return found

    def _delete(self, path: str, body: bytes) -> Answer:
        """Delete several keys at once; missing keys are no error."""
        objects = self.buckets[path[1:].partition("?")[0].strip("/")]
        keys = [unescape(key) for key in re.findall(r"<Key>(.*?)</Key>", body.decode())]
        with self._turn:
            for key in keys:
                objects.pop(key, None)
        done = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
        text = f"<?xml version='1.0'?><DeleteResult>{done}</DeleteResult>"
        return Answer(200, text.encode(), {"Content-Type": "application/xml"})

    def _refused(
        self, objects: dict[str, tuple[bytes, int]], key: str, headers: dict[str, str]
    ) -> Answer | None:
        wanted, none = headers.get("if-match"), headers.get("if-none-match")
        if wanted is not None and key not in objects:
            return error(404, "NoSuchKey")
        if wanted is not None and wanted != _tag(objects[key][0]):
            return error(412, "PreconditionFailed")
        if none == "*" and key in objects:
            return error(412, "PreconditionFailed")
        return None


class GeneratedBucket(Web):
    """Arrays with so many stored chunks at any name, ``NAME/c/10000/1000`` and so on."""

    def __init__(self, count: int, port: int = 0) -> None:
        super().__init__(port=port)
        self.count = count
        self.log = deque(maxlen=0)  # type: ignore[assignment]  # requests are not counted

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        parts = urlsplit(path)
        query = parse_qs(parts.query, keep_blank_values=True)
        if "list-type" in query:
            return self._listing(query)
        if re.fullmatch("/bucket/[^/]+/zarr.json", parts.path):
            return Answer(200, self.metadata, {"ETag": _tag(self.metadata), **_MODIFIED})
        return error(404, "NoSuchKey")

    @property
    def metadata(self) -> bytes:
        """The document of the array: chunks of one byte, most of which are missing."""
        chunks = {"name": "regular", "configuration": {"chunk_shape": [1, 1]}}
        document = {
            "zarr_format": 3,
            "node_type": "array",
            "shape": [20_000, 2_000],
            "data_type": "int8",
            "chunk_grid": chunks,
            "chunk_key_encoding": {"name": "default"},
            "fill_value": 0,
            "codecs": [{"name": "bytes"}],
        }
        return json.dumps(document).encode()

    def _listing(self, query: dict[str, list[str]]) -> Answer:
        """Return one page; the document comes after all chunks."""
        first = int(query.get("continuation-token", ["0"])[0])
        name, _, inside = query.get("prefix", [""])[0].partition("/")
        if "delimiter" in query and not inside:
            return _page([f"<CommonPrefixes><Prefix>{name}/c/</Prefix></CommonPrefixes>"], None)
        if "delimiter" in query or inside not in ("", "c/"):
            return _page([], None)
        last = min(first + 1000, self.count)
        items = [
            _item(f"{name}/c/{10_000 + i // 1000}/{1000 + i % 1000}", 1, f"{i:032x}")
            for i in range(first, last)
        ]
        if last == self.count and not inside:
            items.append(_item(f"{name}/zarr.json", len(self.metadata), "0"))
        return _page(items, last if last < self.count else None)


_MODIFIED = {"Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}


def _item(name: str, size: int, tag: str) -> str:
    return (
        f"<Contents><Key>{name}</Key><Size>{size}</Size>"
        f'<LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>"{tag}"</ETag></Contents>'
    )


def _page(items: list[str], token: int | None) -> Answer:
    more = "" if token is None else f"<NextContinuationToken>{token}</NextContinuationToken>"
    text = (
        f"<?xml version='1.0'?><ListBucketResult><Name>bucket</Name>{''.join(items)}{more}"
        f"<IsTruncated>{str(token is not None).lower()}</IsTruncated></ListBucketResult>"
    )
    return Answer(200, text.encode(), {"Content-Type": "application/xml"})


def _tag(value: bytes) -> str:
    return f'"{hashlib.md5(value).hexdigest()}"'


def main(port: str, latency: str, *buckets: str) -> None:
    server: Web
    if buckets[0].isdigit():
        server = GeneratedBucket(int(buckets[0]), int(port))
    else:
        server = SimpleStorage(int(port))
        server.buckets = {name: {} for name in buckets}
    server.latency = float(latency)
    server.log = deque(maxlen=0)  # type: ignore[assignment]  # requests are not counted
    server.start()
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main(*sys.argv[1:])
