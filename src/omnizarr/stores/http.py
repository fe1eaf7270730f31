"""Plain web servers, read-only: keys are paths below a URL, parts are range requests.

Keys cannot be listed. A name and password in the URL become a header, and its query string (a
signature, say) is sent with every request; messages contain neither.

Values are fetched by obstore where it is installed, outside the interpreter's lock. Whatever it
cannot do (query strings, proxies, unusual keys) or does not deliver as requested, the client in
Python does; its answer counts.
"""

from __future__ import annotations

import copy
import os
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from email.utils import format_datetime, parsedate_to_datetime
from functools import partial
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3.exceptions import HTTPError

from omnizarr import config
from omnizarr.concurrency.pool import interruptible
from omnizarr.concurrency.retry import (
    RETRY_OPTIONS,
    TRANSIENT_STATUS,
    Retry,
    TransientError,
    take_retry,
)
from omnizarr.errors import InvalidArgument, StoreError, descriptor_shortage, known_names
from omnizarr.stores import identity
from omnizarr.stores.base import (
    Bytes,
    Closeable,
    Range,
    Requests,
    Traits,
    Values,
    VersionedValue,
    is_web_page,
    redact_url,
    redact_urls,
)
from omnizarr.stores.byte_ranges import Speed, fetch_each, fetch_many, fetch_many_versioned
from omnizarr.stores.object import obstore
from omnizarr.stores.operations import check_key, check_writable

_CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)\s*", re.IGNORECASE)
_PIECE = 2**18
_STABLE = 3  # seconds after which a date is trusted
_STABLE_HERE = 3600  # the same, by the clock of this machine
_ABSENT = frozenset({404, 410})
_OPTIONS = ("headers", "absent_status")
_PLAIN_KEY = re.compile(r"[A-Za-z0-9._/-]+")  # in which nothing is quoted
_MAX_FAILURES = 3  # one after the other, until obstore is used no more
_TIMED_OUT = "timed out"  # in its messages
_WHOLE: dict[str, Any] = {"range": {"offset": 0}}


class HTTPStore(Closeable):
    """The values of a web server below a URL."""

    read_only = True
    traits = Traits(to_write="use another store: this is a web server")

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        retry: Retry | None = None,
        absent_status: Collection[int] = (),
    ) -> None:
        """`headers` are sent with every request.

        `absent_status`: status codes that mean a missing key on this server besides 404 and 410.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise StoreError(f"{redact_url(url)!r} is not http://host/path or https://host/path")
        self.headers = {"Accept-Encoding": "identity", **(headers or {})}
        for name, value in self.headers.items():
            if any(mark in f"{name}{value}" for mark in "\r\n"):
                raise InvalidArgument(f"the header {name!r} has a line break, which HTTP forbids")
        user, at, host = parts.netloc.rpartition("@")
        if at:
            login = unquote(user) if ":" in user else f"{unquote(user)}:"
            self.headers.update(urllib3.make_headers(basic_auth=login))
        self._base = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        self._query = f"?{parts.query}" if parts.query else ""
        self.retry = retry or Retry()
        self.absent_status = _ABSENT | frozenset(absent_status)
        self.has_ranges = True  # until a response shows otherwise
        self._pools: tuple[int, urllib3.PoolManager] | None = None
        self._native: obstore.Client | None = None
        self._failures = 0  # of obstore, one after the other
        self._check_url: Callable[[str], object] | None = None
        self.speed = Speed()

    @classmethod
    def from_url(cls, url: str, *, read_only: bool = True, **options: Any) -> HTTPStore:
        """Return the store that a URL names."""
        retry = take_retry(options)
        known = {k: options.pop(k) for k in _OPTIONS if k in options}
        if options:
            name = sorted(options)[0]
            known_here = known_names(name, (*_OPTIONS, *RETRY_OPTIONS))
            raise StoreError(
                f"unknown storage_options {sorted(options)} for {redact_url(url)!r}; {known_here}"
            )
        return cls(url, retry=retry, **known)

    def checking_redirects(self, check: Callable[[str], object]) -> HTTPStore:
        """Return this store with a check of every URL, also of redirects, which obstore follows."""
        found = copy.copy(self)
        found._pools, found._native = None, None
        found._check_url, found._failures, found.speed = check, _MAX_FAILURES, Speed()
        return found

    # Reading

    def get(self, key: str, range: Range | None = None) -> bytes | None:
        return self._value(key, range, fast=True)[0]

    def get_many(self, requests: Requests) -> Values:
        if self.has_ranges:
            return fetch_many(self.get, requests, self.speed)
        wanted = list(requests)
        whole = fetch_many(self.get, [(key, None) for key, _ in wanted], self.speed)
        parts = zip(whole, wanted, strict=True)
        return [v if v is None or range is None else range.of(v) for v, (_, range) in parts]

    def get_many_versioned(self, requests: Requests) -> list[VersionedValue]:
        return fetch_many_versioned(partial(self._value, fast=True), requests, self.speed)

    def get_each(self, keys: Sequence[str], use: Callable[[int, Any], object]) -> None:
        get = partial(self._value, range=None, fast=True, copy=False)
        fetch_each(lambda key: get(key)[0], keys, use, self.speed)

    def get_versioned(self, key: str, range: Range | None = None) -> VersionedValue:
        data, validator = self._value(key, range)
        return data, _generation(validator)

    def generation(self, key: str) -> str | None:
        return _generation(self._value(key, None, "HEAD")[1])

    # Not offered

    def set(self, key: str, value: Bytes) -> None:
        check_writable(self)

    def erase(self, key: str) -> None:
        check_writable(self)

    # Requests

    def _value(
        self,
        key: str,
        range: Range | None,
        method: str = "GET",
        *,
        fast: bool = False,
        copy: bool = True,
    ) -> VersionedValue:
        """Return a value or part of it; `fast` tries obstore first, `copy` copies its buffer."""
        # HTTP has no empty ranges.
        requested = range if range is None or range.length != 0 else Range(range.start, 1)
        url = f"{self._base}/{quote(check_key(key), safe='/')}{self._query}"
        client = self._native_client(key) if fast else None

        def attempt() -> VersionedValue:
            nonlocal client
            first, client = client, None
            if first is not None:
                ask = partial(self._request_natively, first.store, key, requested, copy)
                response: VersionedValue | None = interruptible(ask)
                if response is not None:
                    return response
            return self._request(url, requested, method)

        begun = time.monotonic()
        try:
            data, validator = self.retry.call(attempt)
        except StoreError as e:
            raise StoreError(f"cannot read {key!r} in {self!r}: {e}") from e.__cause__
        if method == "GET":
            self.speed.note(time.monotonic() - begun, 0 if data is None else len(data))
        if data is not None and range is not None and range.length is not None:
            data = data[: range.length]
        return data, validator

    def _native_client(self, key: str) -> obstore.Client | None:
        """Return obstore's client, if it can be used for a key."""
        usable = self.has_ranges and self._failures < _MAX_FAILURES
        if not usable or not _PLAIN_KEY.fullmatch(key):
            return None
        found = self._native
        if found is None or found.process != os.getpid():
            plain = _PLAIN_KEY.fullmatch(urlsplit(self._base).path or "/")
            if not plain or self._query or _proxy(self._base) is not None:
                self._failures = _MAX_FAILURES
                return None
            timeout = timedelta(seconds=self.retry.timeout)
            options = {
                "allow_http": self._base.startswith("http:"),
                "timeout": timeout,
                "connect_timeout": min(timedelta(seconds=10), timeout),
                "default_headers": self.headers,
            }
            once = {"max_retries": 0, "retry_timeout": timeout}
            known = self._base, *sorted(self.headers.items()), self.retry.timeout
            try:
                found = self._native = obstore.client(
                    known,
                    lambda library: library.store.HTTPStore.from_url(
                        self._base, client_options=options, retry_config=once
                    ),
                )
            except Exception:  # it is not installed, or cannot: the other client can
                self._failures = _MAX_FAILURES
        return found

    def _request_natively(
        self, client: Any, key: str, range: Range | None, copy: bool
    ) -> VersionedValue | None:
        """Return the response to obstore's request; None to ask again with the other client."""
        # With a range even a whole value comes with its place, which shows that it is whole.
        options = obstore.range_options(range) or _WHOLE
        try:
            data, meta, attributes = obstore.fetch(client, key, options, copy)
        except FileNotFoundError:
            return None, None
        except (OSError, ValueError, obstore.library().exceptions.BaseError) as e:
            status = obstore.status_of(e)
            if status in self.absent_status:
                return None, None
            if status in TRANSIENT_STATUS:
                raise TransientError(f"the server responds {status}") from None
            if status is None and not isinstance(e, StoreError) and _TIMED_OUT in str(e):
                raise TransientError("the response did not come in time") from None
            self._failures += status is None
            return None
        encoding = attributes.get("Content-Encoding", "identity")
        if encoding.lower() not in ("identity", ""):
            self._failures = _MAX_FAILURES
            return None
        self._failures = 0
        return data, _validator_of(meta)

    def _request(self, url: str, range: Range | None, method: str) -> VersionedValue:
        end = time.monotonic() + self.retry.timeout
        headers = dict(self.headers)
        if range is not None and (range.start or range.length is not None) and self.has_ranges:
            headers["Range"] = _range_header(range)
        try:
            response = self._pool().request(
                method,
                url,
                headers=headers,
                preload_content=False,
                timeout=urllib3.Timeout(
                    connect=min(10.0, self.retry.timeout), read=self.retry.timeout
                ),
                retries=urllib3.Retry(
                    connect=0, read=0, redirect=10, status=0, other=0, raise_on_redirect=True
                ),
            )
            try:
                body = _body(response, end)
            except BaseException:
                response.close()  # the next request must not read the rest of this response
                raise
            response.release_conn()
        except (HTTPError, OSError) as e:
            if isinstance(e, StoreError):
                raise
            # Without a descriptor the next attempt comes when those of other requests are free.
            why = descriptor_shortage() or redact_urls(str(getattr(e, "reason", None) or e))
            raise TransientError(f"no response from the server, or not all of it: {why}") from None
        return self._interpret(response, body, range, "Range" in headers)

    def _interpret(
        self, response: Any, body: bytes, range: Range | None, ranged: bool
    ) -> VersionedValue:
        """Return the value in a response, or None for a missing key; raise for anything else."""
        status = response.status
        said = f"the server responds {status} {response.reason or ''}".strip()
        if status in self.absent_status:
            return None, None
        validator = _validator(response)
        if status == 416 and ranged and range is not None:
            size = _sent_range(response)[2]
            if size is not None and (range.start < size if range.start >= 0 else size > 0):
                raise TransientError(f"{_range_header(range)!r} of {size} bytes is refused")
            return b"", validator
        if status in (401, 403):
            raise StoreError(
                f"access is denied (status {status}); where that means a missing key, give"
                f" storage_options={{'absent_status': {{{status}}}}}"
            )
        if status in TRANSIENT_STATUS:
            raise TransientError(said, _retry_after(response))
        if status not in (200, 206):
            raise StoreError(said)
        part = range if ranged and status == 206 else None
        start = 0 if part is None else part.start
        if is_web_page(response.headers.get("Content-Type"), body, start):
            raise StoreError(
                "a web page came instead of data: a login is needed, or the server responds"
                " so to missing keys"
            )
        if part is not None:
            _check_part(response, body, part)
            return body, validator
        if status == 206:
            raise TransientError("a part came (status 206) instead of the whole value")
        self.has_ranges = self.has_ranges and not ranged
        return (body if range is None else range.of(body)), validator

    def _pool(self) -> urllib3.PoolManager:
        """Return the connections of this process; a forked one must not share them."""
        if self._pools is None or self._pools[0] != os.getpid():
            self._pools = os.getpid(), _connections(self._base, self._check_url)
        return self._pools[1]

    # What it is

    def close(self) -> None:
        """Close idle connections; the store can still be used."""
        self._native = None
        pools, self._pools = self._pools, None
        if pools is not None and pools[0] == os.getpid():
            pools[1].clear()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pools": None, "_native": None}

    @property
    def url(self) -> str:
        """The URL, without secrets."""
        return redact_url(self._base + self._query)

    def identity_details(self) -> tuple[Any, ...]:
        """Return the headers, and the status codes that mean a missing key."""
        return sorted(self.headers.items()), sorted(self.absent_status)

    def identity(self, prefix: str = "") -> identity.StorageIdentity:
        parts = urlsplit(self._base)
        server = identity.address(self._base), parts.path, self._query
        return identity.inside(("http", *server), prefix)

    def _values_at(self) -> tuple[str, str]:
        return self._base, self._query

    def __repr__(self) -> str:
        return self.url


def _connections(url: str, check: Callable[[str], object] | None) -> urllib3.PoolManager:
    """Return a pool of connections, through the proxy of the environment if there is one.

    `check` is called with every URL, those of redirects too.
    """
    proxy, size = _proxy(url), config.get().requests
    if proxy is None:
        pools = urllib3.PoolManager(maxsize=size)
    else:
        login = urlsplit(proxy).netloc.rpartition("@")[0]
        headers = urllib3.make_headers(proxy_basic_auth=unquote(login)) if login else None
        pools = urllib3.ProxyManager(proxy, maxsize=size, proxy_headers=headers)
    if check is not None:
        ask = pools.urlopen

        def urlopen(method: str, url: str, *args: Any, **options: Any) -> Any:
            check(url)
            return ask(method, url, *args, **options)

        pools.urlopen = urlopen  # type: ignore[method-assign]  # it calls itself for a redirect
    return pools


def _proxy(url: str) -> str | None:
    parts = urlsplit(url)
    return None if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme)


def _body(response: Any, end: float) -> bytes:
    """Return the body of a response; raise if it is too short, or takes too long."""
    encoded = response.headers.get("Content-Encoding", "identity").lower()
    if encoded not in ("identity", ""):
        if response.status == 206:
            raise StoreError(f"a part of a value came in the encoding {encoded!r}")
        if encoded not in ("gzip", "x-gzip", "deflate"):
            raise StoreError(f"the value came in the encoding {encoded!r}, which was not requested")
    pieces = []
    for piece in response.stream(_PIECE, decode_content=True):
        pieces.append(piece)
        if time.monotonic() > end:
            raise TransientError("the response takes too long")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _range_header(range: Range) -> str:
    if range.start < 0:
        return f"bytes={range.start}"
    last = "" if range.length is None else range.start + range.length - 1
    return f"bytes={range.start}-{last}"


def _sent_range(response: Any) -> tuple[int, int, int | None]:
    """Return the first byte, the end and the size of the value in a response; (0, 0) for none."""
    found = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
    first, last, size = (None, None, "*") if found is None else found.groups()
    end = 0 if last is None else int(last) + 1
    return int(first or 0), end, None if size == "*" else int(size)


def _check_part(response: Any, body: bytes, range: Range) -> None:
    first, end, size = _sent_range(response)
    known = end if size is None else size  # what the server has not stated cannot be checked
    start = max(0, known + range.start) if range.start < 0 else range.start
    stop = known if range.start < 0 or range.length is None else start + range.length
    stop = stop if size is None else min(stop, size)
    unknown = size is None and range.start < 0
    if unknown or (first, end) != (start, stop) or len(body) != end - first:
        raise TransientError(
            f"{len(body)} bytes came as {response.headers.get('Content-Range')!r} where"
            f" {_range_header(range)!r} was requested"
        )


def _validator(response: Any) -> str | None:
    """Return the validator of a response, which tells one value from another.

    It begins with ``W/`` if it is weak: another value may have it. Dates, and the ETags that many
    servers derive from them, have a resolution of seconds, so none is strong until a little later
    (RFC 9110, 8.8.2).
    """
    tag, modified = response.headers.get("ETag"), response.headers.get("Last-Modified")
    if modified is None:
        return str(tag) if tag else None
    try:
        date = parsedate_to_datetime(response.headers.get("Date", ""))
        strong = (date - parsedate_to_datetime(modified)).total_seconds() >= _STABLE
    except (TypeError, ValueError):
        strong = False
    return _marked(str(tag) if tag else f"modified {modified}", strong)


def _validator_of(meta: obstore.Meta) -> str | None:
    """Return the validator of obstore's response.

    The date of the response is unknown, so the clock here has to do, which may be wrong.
    """
    tag, modified = meta.get("e_tag"), meta["last_modified"].timestamp()
    if not modified:  # which stands for no date
        return tag or None
    text = tag or f"modified {format_datetime(meta['last_modified'], usegmt=True)}"
    return _marked(text, time.time() - modified >= _STABLE_HERE)


def _marked(validator: str, strong: bool) -> str:
    plain = validator.removeprefix("W/")
    return plain if strong else f"W/{plain}"


def _generation(validator: str | None) -> str | None:
    """Return a strong validator, which no other value will ever have, or None."""
    return None if validator is None or validator.startswith("W/") else validator


def _retry_after(response: Any) -> float:
    text = response.headers.get("Retry-After", "").strip()
    try:
        if text.isdecimal():
            return float(text)
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (TypeError, ValueError):
        return 0.0
