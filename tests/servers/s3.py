"""S3 as far as its clients use it, faster than moto: conditional writes and reads, listing.

``python -m tests.servers.s3 PORT LATENCY BUCKET...`` serves until it is ended.
"""

from __future__ import annotations

import hashlib
import re
import sys
import time
from collections import deque
from xml.sax.saxutils import escape, unescape

from tests.servers.gcs import CloudStorage, error
from tests.servers.web import Answer


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


def _tag(value: bytes) -> str:
    return f'"{hashlib.md5(value).hexdigest()}"'


def main(port: str, latency: str, *buckets: str) -> None:
    server = SimpleStorage(int(port))
    server.latency = float(latency)
    server.buckets = {name: {} for name in buckets}
    server.log = deque(maxlen=0)  # type: ignore[assignment]  # requests are not counted
    server.start()
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main(*sys.argv[1:])
