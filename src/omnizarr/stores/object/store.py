"""Object stores: S3 and compatible servers, Google Cloud Storage, Azure; by obstore.

URLs: ``s3://bucket/path``, ``gs://bucket/path``, ``az://container/path`` with the option
`account_name`, or ``abfs://container@account.dfs.core.windows.net/path``. Storage options are
those of obstore and of `Retry`, and `anonymous`, `profile`, `absent_status`.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn, TypeVar

from omnizarr.concurrency import retry as retries
from omnizarr.concurrency.fork import never_release
from omnizarr.concurrency.pool import in_parallel, interruptible
from omnizarr.concurrency.retry import AnswerLost, Retry, TransientError, take_retry
from omnizarr.errors import InvalidName, StoreError
from omnizarr.stores import base, curl, identity, tracing
from omnizarr.stores.base import Bytes, Entry, Names, Range, Requests, Traits, VersionedValue, flat
from omnizarr.stores.byte_ranges import Speed, fetch_together
from omnizarr.stores.object import obstore
from omnizarr.stores.object.bucket import Bucket
from omnizarr.stores.object.obstore import NO_RANGES, Meta, fetch, status_of
from omnizarr.stores.operations import check_key, check_length, check_prefix, check_writable

CODE = re.compile(r"<Code>(\w+)</Code>")


def version_tag(meta: Meta) -> str | None:
    """Return the version and ETag of a value as one text; None if the server sends neither."""
    version, e_tag = meta.get("version"), meta.get("e_tag")
    return f"{version or ''}|{e_tag or ''}" if version or e_tag else None


def generation_of(meta: Meta) -> str:
    """Return the generation of a value."""
    found = version_tag(meta)
    if found is None:
        raise StoreError("the server sends neither an ETag nor a version")
    return found


def _entry(meta: Meta, skip: int) -> Entry:
    """Return an entry of a listing; the first `skip` characters of the path precede the key."""
    modified = int(meta["last_modified"].timestamp() * 1000) * 10**6  # servers send no more digits
    return Entry(meta["path"][skip:], meta["size"], modified, meta.get("e_tag"))


def was_stored(client: Any, path: str, data: Any, name: str, mark: str) -> bool | None:
    """Return whether our write has stored an object; None if that cannot be known.

    If another write has replaced the same generation, whose digest its mark has, this one has not.
    If a server stores no metadata, the bytes are compared.
    """
    try:
        result = client.get(path)
    except FileNotFoundError:
        return None
    found = {k.lower(): v for k, v in result.attributes.items()}.get(name)
    if found is None:
        return True if bytes(result.bytes()) == bytes(data) else None
    if found == mark:
        return True
    return False if found.partition("-")[2] == mark.partition("-")[2] else None


def reason_of(error: Exception) -> str:
    """Return the reason of an error in one line without secrets."""
    text = str(error).partition("\n\nDebug source")[0]
    code = CODE.search(text)
    line = base.redact_urls(text.partition("\n")[0].partition(": <")[0])
    return f"{line} ({code[1]})" if code is not None else line


T = TypeVar("T")
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "ContainerBeingDeleted", "AccountIsDisabled")
_TOO_SHORT = "but object was only"  # obstore's message for a value that ends earlier
_NO_REQUEST = "builder error"  # its message for a URL that it may not request
_MAX_KEY = 1024  # bytes of a name, in all three clouds
_NO_KEY = "no-such-key.omnizarr"
_PART = 2**23  # bytes that are uploaded in one request, of a value that comes in parts
_DENIED = frozenset({401, 403})
_LARGE = 2**17  # bytes, which obstore copies outside the interpreter's lock
_BATCH = 1000  # keys listed or erased in one go
_MARK = "omnizarrwrite"  # metadata by which a writer knows its own value; Azure takes no hyphens


class _Listing:
    """The objects below a path, page by page; after an error it continues after the last one."""

    def __init__(self, top: str, is_sorted: bool) -> None:
        self._top = top
        self._sorted = is_sorted  # as far as is known
        self.last = b""  # the path that was listed last; empty if there was none
        self.ended = False  # as the size of the last page shows
        self._known = b""  # the path up to which objects were listed before an error
        self._stream: Iterator[list[Meta]] | None = None
        self._process = os.getpid()

    def next_page(self, client: Any) -> list[Meta]:
        """Return the next objects; none at the end."""
        stream, self._stream = self._stream, None  # it cannot be used after an error
        if self._process != os.getpid():
            never_release(stream)  # it belongs to the parent
            raise StoreError("the process was forked while it was listed; list again")
        if stream is None:
            self._known = self.last
            self._check_sorted()
            offset = self.last.decode() or None
            stream = client.list(self._top or None, offset=offset, chunk_size=_BATCH)
        found: list[Meta] = []
        page: list[Meta]
        while not found and (page := next(stream, [])):  # a server may ignore the offset
            found = [meta for meta in page if meta["path"].encode() > self._known]
            self.ended = len(page) < _BATCH
        names = [self.last, *(meta["path"].encode() for meta in found)]
        self._sorted = self._sorted and all(a < b for a, b in itertools.pairwise(names))
        self._check_sorted()
        self._stream, self.last = stream, names[-1]
        return found

    def _check_sorted(self) -> None:
        if self._known and not self._sorted:
            raise StoreError("listing was interrupted and cannot go on; list again")


class ObjectStore(base.ListedStore):
    """The objects of a bucket below a prefix."""

    _copies_share_values = True
    traits = Traits(sends_values=True)

    def __init__(
        self,
        store: Any,
        prefix: str = "",
        *,
        read_only: bool = False,
        retry: Retry | None = None,
        absent_status: Collection[int] = (),
    ) -> None:
        """Wrap a store of obstore for a cloud, or a `Bucket`.

        `absent_status`: more status codes of a missing key, as 403 if a bucket may not be listed.
        """
        inner = ""
        if not isinstance(store, Bucket):
            store, inner = Bucket.from_obstore(store)
        self.bucket: Bucket = store
        self.prefix = "/".join(part for part in (inner, prefix.strip("/")) if part)
        if self.prefix:
            check_key(self.prefix)
        self._start = self.prefix and self.prefix + "/"
        self.read_only = read_only
        self.retry = retry or Retry()
        self.absent_status = frozenset(absent_status)
        self.speed = Speed()
        self._takes_urls: bool | None = None  # with signatures, once the server has shown it
        _ = self.bucket.client  # wrong options raise at once

    @classmethod
    def from_url(cls, url: str, *, read_only: bool = False, **options: Any) -> ObjectStore:
        """Return the store that a URL names."""
        retry, absent = take_retry(options), options.pop("absent_status", ())
        bucket, prefix = Bucket.from_url(url, options, retry)
        return cls(bucket, prefix, read_only=read_only, retry=retry, absent_status=absent)

    # Reading

    def get(self, key: str, range: Range | None = None) -> bytes | None:
        return self._read(key, range)[0]

    def get_many(self, requests: Requests) -> base.Values:
        fetch_each = partial(self._fetch_each, versioned=False)
        return [data for data, _ in fetch_together(fetch_each, list(requests))]

    def get_many_versioned(self, requests: Requests) -> list[VersionedValue]:
        return fetch_together(self._fetch_each, list(requests))

    def get_each(self, keys: Sequence[str], use: Callable[[int, Any], object]) -> None:
        read = partial(self._read, range=None, copy=False)
        in_parallel(lambda number: use(number, read(keys[number])[0]), range(len(keys)))

    def _fetch_each(
        self,
        wanted: Sequence[tuple[str, Range | None]],
        use: Callable[[int, VersionedValue], object],
        *,
        versioned: bool = True,
    ) -> None:
        """Call `use` for every value when it comes."""

        def ask(number: int) -> None:
            data, meta = (self._with_meta if versioned else self._read)(*wanted[number])
            use(number, (data, None if meta is None else version_tag(meta)))

        def take(number: int, response: curl.Response) -> None:
            found = self._direct_value(response, wanted[number][1])
            is_denied = response.status in _DENIED
            if found is not None:
                self._takes_urls = self._takes_urls if is_denied else True
                self.speed.note(response.seconds, len(response.data))
                del left[number]
                use(number, found)
            elif is_denied and response.status not in self.absent_status:
                self._takes_urls = bool(self._takes_urls)  # it may take the headers of obstore
                raise Denied

        left, urls = dict.fromkeys(range(len(wanted))), None
        lengths = (None if part is None else part.length for _, part in wanted)
        is_direct = len(wanted) > 1 and self._takes_urls is not False
        if is_direct and all(n is None or 0 < n < _LARGE for n in lengths):
            urls = self.bucket.urls([self._path(key) for key, _ in wanted])
        if urls is not None:
            texts = (None if part is None else curl.range_text(part) for _, part in wanted)
            asked = [curl.Request(*each) for each in zip(urls, texts, strict=True)]
            with suppress(Denied):
                curl.fetch_each(self, asked, take, self.retry.timeout)
        in_parallel(ask, [*left])

    def _direct_value(self, response: curl.Response, part: Range | None) -> VersionedValue | None:
        """Return the value in a response to libcurl; None to ask again by obstore."""
        status, headers, data = response.status, response.headers, response.data
        if status in _DENIED and self._takes_urls is None and self.bucket.access != "anonymous":
            return None  # perhaps for the URL alone
        if status in self.absent_status or (status == 404 and b"<Code>NoSuchKey<" in data):
            return None, None
        if part == Range() and status == 200:
            part = None
        if status != (200 if part is None else 206):
            return None
        if base.is_web_page(headers.get("content-type"), data, 0 if part is None else part.start):
            return None
        with suppress(TransientError):
            if part is not None:
                curl.check_part(headers, data, part)
            known = {"version": headers.get("x-amz-version-id"), "e_tag": headers.get("etag")}
            return data, version_tag(known)
        return None

    def _with_meta(self, key: str, range: Range | None) -> tuple[bytes | None, Meta | None]:
        data, meta = self._read(key, range)
        return data, self._head(key) if data is not None and meta is None else meta

    def get_versioned(self, key: str, range: Range | None = None) -> VersionedValue:
        data, meta = self._with_meta(key, range)
        return (None, None) if meta is None else (data, generation_of(meta))

    def generation(self, key: str) -> str | None:
        meta = self._head(key)
        return None if meta is None else generation_of(meta)

    def sizes(self, keys: Iterable[str]) -> dict[str, int]:
        requested = [*keys]
        found = in_parallel(self._head, requested)
        return {key: meta["size"] for key, meta in zip(requested, found, strict=True) if meta}

    def _head(self, key: str) -> Meta | None:
        path = self._path(key)
        found: Meta | None = self._call("read", key, lambda client: client.head(path), None)
        return found

    def _read(
        self, key: str, range: Range | None, copy: bool = True
    ) -> tuple[bytes | None, Meta | None]:
        """Return a value or part, a buffer unless `copy`, and its `Meta`, None after its end."""
        path, range = self._path(key), None if range == Range() else range

        def read(client: Any) -> tuple[bytes | None, Meta | None]:
            part = range
            if part is not None and part.start < 0 and self.bucket.kind == "az":
                part = part.within(Range(0, client.head(path)["size"]))  # it has none from the end
            if part is not None and part.length == 0:
                return b"", client.head(path)
            try:
                data, meta, _ = fetch(client, path, part, copy)
            except obstore.library().exceptions.GenericError as e:
                if range is None or NO_RANGES not in str(e):
                    raise
                data, meta, _ = fetch(client, path)
                return range.of(data), meta
            if range is not None and range.length is not None:
                data = data[: range.length]
            return data, meta

        start = time.perf_counter()
        found = self._call("read", key, read, (None, None), after_end=range is not None)
        self.speed.note(time.perf_counter() - start, 0 if found[0] is None else len(found[0]))
        return found

    # Writing

    def set(self, key: str, value: Bytes) -> None:
        check_writable(self)
        path, data = self._path(key), flat(value)
        self._call(
            "write", key, lambda c: c.put(path, data, use_multipart=False), sent_bytes=len(data)
        )

    def set_many(self, values: Iterable[tuple[str, Bytes]]) -> None:
        last = dict(values)  # of a key that comes twice the later value counts
        in_parallel(lambda pair: self.set(*pair), [*last.items()])

    def set_parts(self, key: str, parts: Callable[[], Iterator[bytes]]) -> None:
        """Upload a value in parts, a few at a time; it appears when all of them are there."""
        check_writable(self)
        path = self._path(key)

        def put(client: Any) -> None:
            client.put(path, parts(), use_multipart=True, chunk_size=_PART, max_concurrency=4)

        self._call("write", key, put)

    def set_if(self, key: str, value: Bytes, generation: str | None) -> bool:
        check_writable(self)
        path, data = self._path(key), flat(value)
        version, _, tag = (generation or "").partition("|")
        known = {"version": version, "e_tag": tag}
        mode = "create" if generation is None else {k: v for k, v in known.items() if v}
        replaced = hashlib.sha256((generation or "").encode()).hexdigest()[:32]
        attempts, mark = 0, f"{os.urandom(16).hex()}-{replaced}"

        def write(client: Any) -> bool:
            nonlocal attempts
            attempts += 1
            errors = obstore.library().exceptions
            try:
                client.put(path, data, attributes={_MARK: mark}, mode=mode, use_multipart=False)
                return True
            except (errors.AlreadyExistsError, errors.PreconditionError, FileNotFoundError) as e:
                if isinstance(e, FileNotFoundError):
                    self._check_bucket(e)
                if attempts == 1:
                    return False
                # The response to an earlier attempt that did store it may have been lost.
                stored = was_stored(client, path, data, _MARK, mark)
                if stored is None:
                    raise retries.superseded(key, self) from None
                return stored

        return self._call("write", key, write, sent_bytes=len(data))

    def erase(self, key: str) -> None:
        check_writable(self)
        path = self._path(key)
        self._call("erase", key, lambda client: client.delete(path), None)

    def erase_prefix(self, prefix: str) -> None:
        check_writable(self)
        keys = self.list_prefix(prefix)
        while batch := [self._start + key for key in itertools.islice(keys, _BATCH)]:
            self._call("erase", prefix, partial(self._delete, batch))

    def _delete(self, paths: Names, client: Any) -> None:
        try:
            client.delete(paths)
        except FileNotFoundError as e:  # another process erases as well
            self._check_bucket(e)
            for path in paths:
                with suppress(FileNotFoundError):
                    client.delete(path)

    # Listing

    def list_prefix(self, prefix: str) -> Iterator[str]:
        return (entry.key for entry in self.list_entries(prefix))

    def list_entries(self, prefix: str) -> Iterator[Entry]:
        """Yield all objects below a prefix, holding one page of the listing in memory at a time."""
        check_prefix(prefix)
        skip = len(self._start)
        listing = _Listing((self._start + prefix).rstrip("/"), self.bucket.kind != "az")
        while not listing.ended and (page := self._call("list", prefix, listing.next_page)):
            yield from (_entry(meta, skip) for meta in page)
        if not listing.last:
            self._check_empty(prefix)

    def check_new_key(self, key: str) -> None:
        """Raise if object stores cannot have a key, or cannot tell it from another."""
        check_length(key, _MAX_KEY, self, start=self._start)
        self._path(key)
        if any(c < " " or c == "\x7f" for c in key):
            raise InvalidName(f"{key!r} has a control character, which {self!r} refuses; rename it")
        if self.bucket.kind == "az" and "./" in key:
            raise InvalidName(
                f"{key!r} has a name that ends in a period, which Azure may remove; rename it"
            )

    def has_keys(self, prefix: str) -> bool:
        check_prefix(prefix)
        listing = _Listing((self._start + prefix).rstrip("/"), self.bucket.kind != "az")
        return bool(self._call("list", prefix, listing.next_page))

    def list_dir(self, prefix: str) -> tuple[Names, Names]:
        check_prefix(prefix)
        top, skip = (self._start + prefix).rstrip("/"), len(self._start)
        found = self._call("list", prefix, lambda client: client.list_with_delimiter(top or None))
        if not found["objects"] and not found["common_prefixes"]:
            self._check_empty(prefix)
        keys = [entry["path"][skip:] for entry in found["objects"]]
        return keys, [f"{path[skip:]}/" for path in found["common_prefixes"]]

    def _check_empty(self, prefix: str) -> None:
        """Raise if nothing is listed since the server answers every request with a web page."""

        def look(client: Any) -> None:
            try:
                fetch(client, self._start + _NO_KEY)
            except obstore.library().exceptions.BaseError as e:
                if status_of(e) is None:
                    raise

        self._call("list", prefix, look, None)

    # Identity

    def identity_details(self) -> tuple[str, ...]:
        """Return the whole endpoint, and the account."""
        return self.bucket.endpoint, str(self.bucket.config.get("account_name", ""))

    def identity(self, prefix: str = "") -> identity.StorageIdentity:
        return self.bucket.identity(f"{self._start}{prefix}")

    def _values_at(self) -> tuple[Bucket, str]:
        return self.bucket, self.prefix

    @property
    def url(self) -> str:
        """The URL, without options."""
        return f"{self.bucket}/{self.prefix}".rstrip("/")

    def __repr__(self) -> str:
        return self.url

    # Requests

    def _path(self, key: str) -> str:
        path = self._start + check_key(key)
        if "\\" in path and self.bucket.kind == "az":
            raise InvalidName(f"{key!r} has a backslash, which Azure takes for a slash; rename it")
        return path

    def _call(
        self,
        verb: str,
        key: str,
        request: Callable[[Any], T],
        absent: Any = ...,
        *,
        after_end: bool = False,
        sent_bytes: int = 0,
    ) -> T:
        """Return the result of a request; `absent` if the server says that there is no such key."""

        def attempt() -> T:
            try:
                ask = partial(request, self.bucket.client)
                return tracing.answer(self, f"{verb} {key!r}", ask, sent_bytes)
            except (OSError, ValueError, obstore.library().exceptions.BaseError) as e:
                if isinstance(e, StoreError):
                    raise
                found: T = self._result_of(e, absent, after_end=after_end)
                return found
            except BaseException as e:
                if type(e).__module__ != "pyo3_runtime":  # a panic of the client, no Exception
                    raise
                raise StoreError(f"the client failed: {base.redact_urls(str(e))}") from None

        try:
            return interruptible(lambda: self._try(attempt))
        except StoreError as e:
            lost = isinstance(e, AnswerLost)
            if isinstance(e, AnswerLost) and e.superseded:
                raise
            maybe = f"; {retries.MAY_BE_DONE}" if lost and verb in ("write", "erase") else ""
            kind = AnswerLost if lost else StoreError
            raise kind(f"cannot {verb} {key!r} in {self!r}: {e}{maybe}") from e.__cause__

    def _try(self, attempt: Callable[[], T]) -> T:
        """Try; if anonymous access is denied, try once more with the role of the machine."""
        try:
            return self.retry.call(attempt, store=self)
        except Denied:
            before = self.bucket
            if before.access != "anonymous" or before.chosen:
                raise
        self.bucket = replace(before, access="instance")
        try:
            return Retry(1, min(5.0, self.retry.timeout), self.retry.deadline).call(attempt)
        except StoreError as e:
            self.bucket = before
            raise StoreError(
                "anonymous access is denied, and no credentials were found in storage_options, the"
                f" environment, the configuration of the cloud's tools and this machine's role: {e}"
            ) from e.__cause__

    def _result_of(self, error: Exception, absent: Any, *, after_end: bool = False) -> Any:
        """Return the result for an error that only means "missing" or "empty", else raise."""
        status = status_of(error)
        if isinstance(error, FileNotFoundError) or status == 404:
            self._check_bucket(error)
        elif after_end and (status == 416 or _TOO_SHORT in str(error)):  # so the value exists
            return b"", None
        elif status not in self.absent_status:
            self._refuse(error)
        if absent is ...:
            self._refuse(error)
        return absent

    def _check_bucket(self, error: Exception) -> None:
        code = CODE.search(str(error))
        if code is not None and code[1] in _NO_BUCKET:
            raise StoreError(f"there is no bucket or container {str(self.bucket)!r}") from None

    def _refuse(self, error: Exception) -> NoReturn:
        status, reason = status_of(error), reason_of(error)
        if status is None:
            reason = curl.free_descriptors() or reason
        errors = obstore.library().exceptions
        if status in (401, 403) or isinstance(
            error, (errors.PermissionDeniedError, errors.UnauthenticatedError)
        ):
            how = "anonymously" if self.bucket.access == "anonymous" else "with credentials"
            raise Denied(f"access is denied ({how}): {reason}") from None
        if status in (301, 307, 400) and self.bucket.kind == "s3" and "region" in reason.lower():
            raise StoreError(f"{reason}; give storage_options={{'region': …}}") from None
        if _NO_REQUEST in reason:
            raise StoreError(
                f"{reason}; plain HTTP takes storage_options={{'client_options': {{'allow_http':"
                " True}}"
            ) from None
        if status in retries.TRANSIENT_STATUS or (
            status is None and isinstance(error, errors.GenericError)
        ):
            raise TransientError(reason) from None
        raise StoreError(reason) from None


class Denied(StoreError):
    """The server denies access, with or without credentials."""
