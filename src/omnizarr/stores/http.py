"""Plain web servers, read-only: keys are paths below a URL, parts are range requests.

Keys are listed where a server offers it (docs/serve.md). A name and password in the URL become a
header, and its query string (a signature, say) is sent always; messages contain neither.
"""

from __future__ import annotations

import copy
import gzip
import re
import time
import zlib
from base64 import b64encode
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from operator import index
from typing import Any
from urllib.parse import quote, unquote, unquote_to_bytes, urljoin, urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

from omnizarr._json import MAX_DEPTH, load_object
from omnizarr.concurrency import retry as retries
from omnizarr.concurrency.cache import cached
from omnizarr.concurrency.pool import in_parallel
from omnizarr.concurrency.retry import Retry, TransientError, take_retry
from omnizarr.errors import InvalidArgument, OmnizarrError, StoreError, known_names
from omnizarr.stores import base, curl, identity, tracing
from omnizarr.stores.base import Range, Requests, Traits, VersionedValue, is_web_page, redact_url
from omnizarr.stores.byte_ranges import Speed, fetch_together
from omnizarr.stores.object import obstore
from omnizarr.stores.operations import NeverWritten, check_key

_PLAIN = re.compile(r"[A-Za-z0-9._/-]+")  # in which nothing is quoted
_IN_URLS = "/%:;=@!$&'()*+,?~[]"  # not quoted in the URLs of users, and of redirects
_STABLE = 3  # seconds after which a date is trusted
_ABSENT = frozenset({404, 410})
_OPTIONS = ("headers", "absent_status")
_LISTING = ("list_dir", "list_entries")
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SECRETS = ("authorization", "cookie")  # headers that other servers do not get


class HTTPStore(NeverWritten):
    """The values of a web server below a URL."""

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
        user, at, host = parts.netloc.rpartition("@")
        if parts.scheme not in ("http", "https") or not parts.hostname or not host.isascii():
            raise StoreError(
                f"{redact_url(url)!r} is not http://host/path or https://host/path, where the host"
                " is in ASCII, xn--... for other letters"
            )
        self.headers = {"Accept-Encoding": "identity", **(headers or {})}
        for name, value in self.headers.items():
            text = f"{name}{value}"
            if not (text.isascii() and text.isprintable()):
                raise InvalidArgument(
                    f"the header {name!r} has a line break or another character that HTTP forbids"
                )
        if at:
            login = unquote(user) if ":" in user else f"{unquote(user)}:"
            self.headers["authorization"] = f"Basic {b64encode(login.encode()).decode()}"
        path, query = (
            quote(p, _IN_URLS, errors="surrogateescape") for p in (parts.path, parts.query)
        )
        self._base = urlunsplit((parts.scheme, host, path.rstrip("/"), "", ""))
        self._query = f"?{query}" if query else ""
        self.retry = retry or Retry()
        self.absent_status = _ABSENT | frozenset(absent_status)
        self.has_ranges = True  # until a response shows otherwise
        self._check_url: Callable[[str], object] | None = None
        self.speed = Speed()

    @classmethod
    def from_url(cls, url: str, *, read_only: bool = True, **options: Any) -> HTTPStore:
        """Return the store that a URL names."""
        retry = take_retry(options)
        known = {k: options.pop(k) for k in _OPTIONS if k in options}
        if options:
            name = sorted(options)[0]
            known_here = known_names(name, (*_OPTIONS, *retries.RETRY_OPTIONS))
            raise StoreError(
                f"unknown storage_options {sorted(options)} for {redact_url(url)!r}; {known_here}"
            )
        return cls(url, retry=retry, **known)

    def checking_redirects(self, check: Callable[[str], object]) -> HTTPStore:
        """Return this store with a check of every URL, also of redirects."""
        found = copy.copy(self)
        found._check_url, found.speed = check, Speed()
        for name in _LISTING:
            vars(found).pop(name, None)
        return found

    # Reading

    def get(self, key: str, range: Range | None = None) -> bytes | None:
        return self._value(key, range)[0]

    def get_many(self, requests: Requests) -> base.Values:
        return [data for data, _ in self.get_many_versioned(requests)]

    def get_many_versioned(self, requests: Requests) -> list[VersionedValue]:
        wanted = list(requests)
        if self.has_ranges:
            return fetch_together(self._fetch_each, wanted)
        whole = fetch_together(self._fetch_each, [(key, None) for key, _ in wanted])
        return [
            (v if v is None or range is None else range.of(v), validator)
            for (v, validator), (_, range) in zip(whole, wanted, strict=True)
        ]

    def get_each(self, keys: Sequence[str], use: Callable[[int, Any], object]) -> None:
        # Large values: obstore copies them outside the interpreter's lock, and libcurl inside.
        client = self._native_client() if all(map(_PLAIN.fullmatch, keys)) else None

        def fetch(number: int) -> None:
            key, found, is_known = keys[number], None, False
            if client is not None:
                # Asked for as a part, which shows whether it is whole.
                ask = partial(obstore.fetch, client.store, key, Range(), copy=False)
                with suppress(OSError, ValueError, obstore.library().exceptions.BaseError):
                    try:
                        data, _, attributes = tracing.answer(self, f"reading {key!r}", ask)
                    except FileNotFoundError:
                        is_known = True
                    else:
                        coded = attributes.get("Content-Encoding", "identity").lower()
                        found, is_known = data, coded in ("identity", "")
            use(number, found if is_known else self.get(key))

        in_parallel(fetch, range(len(keys)))

    def _native_client(self) -> obstore.Client | None:
        """Return a client of obstore, if it is installed and sends the same requests."""
        plain = _PLAIN.fullmatch(urlsplit(self._base).path or "/") and self.has_ranges
        if not plain or self._query or self._check_url is not None or _proxy(self._base):
            return None
        timeout = timedelta(seconds=self.retry.timeout)
        options = {
            "allow_http": self._base.startswith("http:"),
            "timeout": timeout,
            "connect_timeout": min(timedelta(seconds=curl.CONNECT), timeout),
            "default_headers": self.headers,
        }
        once = {"max_retries": 0, "retry_timeout": timeout}
        known = self._base, *sorted(self.headers.items()), self.retry.timeout
        with suppress(Exception):  # it is not installed, or cannot
            return obstore.client(
                known,
                lambda library: library.store.HTTPStore.from_url(
                    self._base, client_options=options, retry_config=once
                ),
            )
        return None

    def get_versioned(self, key: str, range: Range | None = None) -> VersionedValue:
        data, validator = self._value(key, range)
        return data, _generation(validator)

    def generation(self, key: str) -> str | None:
        return _generation(self._value(key, None, "HEAD")[1])

    def _list_entries(self, prefix: str) -> Iterator[base.Entry]:
        if prefix.count("/") > MAX_DEPTH:
            raise StoreError(f"cannot list {prefix!r} in {self!r}: it is nested too deeply")
        keys, prefixes = self._list_dir(prefix)
        yield from map(base.Entry, keys, keys.values())
        for inner in prefixes:
            yield from self._list_entries(inner)

    def _list_dir(self, prefix: str) -> tuple[dict[str, int | None], base.Names]:
        """Return keys, with sizes, and prefixes one level down, from a server that offers it."""
        keys: dict[str, int | None] = {}
        prefixes, after = base.Names(), ""
        where = f"{self._base}/{quote(prefix)}{self._query or '?'}&list&after="

        def ask() -> bytes:
            request = self._request()._replace(url=where + after)
            return self._interpret(self._response(request), request, None)[0] or b""

        def whole(name: str) -> str:
            return check_key(prefix + unquote_to_bytes(name).decode())

        while True:
            try:
                found = load_object(self.retry.call(ask, store=self), "?list")
                sizes = found["keys"].items()
                keys |= {whole(key): None if n is None else index(n) for key, n in sizes}
                prefixes += [whole(name) + "/" for name in found["prefixes"]]
                before, after = after, found["next"] or ""
                if unquote(after) <= unquote(before):
                    return keys, prefixes
            except (OmnizarrError, ValueError, TypeError, LookupError, AttributeError) as e:
                raise StoreError(f"cannot list {prefix!r} in {self!r}: {e!r}") from e

    # Requests

    def _fetch_each(
        self,
        wanted: Sequence[tuple[str, Range | None]],
        use: Callable[[int, VersionedValue], object],
    ) -> None:
        """Call `use` for every value when it comes."""
        failed: dict[int, TransientError | None] = dict.fromkeys(range(len(wanted)))
        if len(wanted) > 1 and self._check_url is None:
            request = self._request()
            requests = [self._asking(request, *each) for each in wanted]

            def take(number: int, response: curl.Response) -> None:
                key, part = wanted[number]
                try:
                    found = self._interpret(response, requests[number], part)
                except TransientError as e:
                    failed[number] = e
                except StoreError as e:
                    raise self._unread(key, e) from e.__cause__
                else:
                    del failed[number]
                    use(number, found)

            curl.fetch_each(self, requests, take, self.retry.timeout)

        def ask(number: int) -> None:
            use(number, self._value(*wanted[number], failed=failed[number]))

        in_parallel(ask, [*failed])

    def _value(
        self,
        key: str,
        range: Range | None,
        method: str = "GET",
        *,
        failed: TransientError | None = None,
    ) -> VersionedValue:
        """Return a value or part of it; `failed` is the error of a first attempt."""

        def attempt() -> VersionedValue:
            nonlocal failed
            if failed is not None:
                error, failed = failed, None
                raise error
            request = self._asking(self._request(method), key, range)
            return self._interpret(self._response(request), request, range)

        try:
            return self.retry.call(attempt, store=self)
        except StoreError as e:
            raise self._unread(key, e) from e.__cause__

    def _unread(self, key: str, error: StoreError) -> StoreError:
        return StoreError(f"cannot read {key!r} in {self!r}: {error}")

    def _request(self, method: str = "GET") -> curl.Request:
        """Return a request for no value yet; see `_asking`."""
        headers = [f"{name}: {value}" for name, value in self.headers.items()]
        return curl.Request("", None, headers, method, _proxy(self._base))

    def _asking(self, request: curl.Request, key: str, range: Range | None) -> curl.Request:
        """Return a request for a value, or a part of it."""
        path = key if _PLAIN.fullmatch(check_key(key)) else quote(key, safe="/")
        text = None
        if range is not None and range != Range() and self.has_ranges:
            text = curl.range_text(_askable(range))
        return curl.Request(f"{self._base}/{path}{self._query}", text, *request[2:])

    def _response(self, request: curl.Request) -> curl.Response:
        """Return the response to a request; redirects are checked, if that was requested."""
        check, url = self._check_url, request.url
        if check is None:
            return curl.fetch(self, request, self.retry.timeout)
        for _ in range(curl.MAX_REDIRECTS + 1):
            check(url)
            asked = request._replace(url=url, follows=False)
            response = curl.fetch(self, asked, self.retry.timeout)
            if response.status not in _REDIRECTS or "location" not in response.headers:
                return response
            before, location = urlsplit(url), response.headers["location"].encode("latin-1")
            try:
                url = urljoin(url, quote(location, _IN_URLS + "#"))
                is_elsewhere = urlsplit(url)[:2] != before[:2]
            except ValueError as e:
                raise StoreError(f"the server redirects to an invalid URL: {e}") from e
            if is_elsewhere:
                kept = [h for h in request.headers if not h.lower().startswith(_SECRETS)]
                request = request._replace(headers=kept)
        raise StoreError("too many redirects")

    def _interpret(
        self, response: curl.Response, request: curl.Request, range: Range | None
    ) -> VersionedValue:
        """Return the value in a response, or None for a missing key; raise for anything else."""
        status, headers, ranged = response.status, response.headers, request.range is not None
        if headers.get("x-omnizarr") == "list":
            vars(self).update({name: getattr(self, f"_{name}") for name in _LISTING})
        if not status:
            # Without a descriptor the next attempt comes when those of other requests are free.
            why = curl.free_descriptors() or base.redact_urls(response.reason)
            raise TransientError(f"no response from the server, or not all of it: {why}")
        if request.method == "GET":
            self.speed.note(response.seconds, len(response.data))
        said = f"the server responds {status} {response.reason}".strip()
        if status in self.absent_status:
            return None, None
        validator = _validator(headers)
        if status == 416 and range is not None and ranged:
            size = curl.sent_range(headers)[2]
            if size is not None and (range.start < size if range.start >= 0 else size > 0):
                raise TransientError(f"bytes {request.range} of {size} are refused")
            return b"", validator
        if status in (401, 403):
            absent = "" if status == 401 else "; {'absent_status': {403}} if a key is missing"
            raise StoreError(
                f"access is denied (status {status}); give the header that it needs, a token:"
                " storage_options={'headers': {'Authorization': 'Bearer TOKEN'}}" + absent
            )
        if status in retries.TRANSIENT_STATUS:
            raise TransientError(said, _retry_after(headers))
        if status not in (200, 206):
            raise StoreError(said)
        if request.method == "HEAD":
            return b"", validator
        body = _body(response)
        start = range.start if status == 206 and range is not None else 0
        if is_web_page(headers.get("content-type"), body, start):
            raise StoreError(
                "a web page came instead of data: a login is needed, or the server responds"
                " so to missing keys"
            )
        if status == 206:
            if range is None or not ranged:
                raise TransientError("a part came (status 206) instead of the whole value")
            curl.check_part(headers, body, _askable(range))
            return body if range.length is None else body[: range.length], validator
        self.has_ranges = self.has_ranges and not ranged
        return (body if range is None else range.of(body)), validator

    # What it is

    def close(self) -> None:
        """Close idle connections; the store can still be used."""
        curl.close_idle()

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


def _proxy(url: str) -> str | None:
    parts = urlsplit(url)
    return None if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme)


def _askable(range: Range) -> Range:
    """Return the part to request for a part: HTTP has no empty ones."""
    return range if range.length != 0 else Range(range.start, 1)


def _body(response: curl.Response) -> bytes:
    """Return the value in a response, decoded if the server has encoded it for transport."""
    encoding = response.headers.get("content-encoding", "identity").lower()
    if encoding in ("identity", ""):
        return response.data
    if response.status == 206:
        raise StoreError(f"a part of a value came in the encoding {encoding!r}")
    try:
        if encoding in ("gzip", "x-gzip"):
            return gzip.decompress(response.data)
        if encoding == "deflate":
            raw = response.data[:1] and response.data[0] & 15 != 8  # without zlib's head
            return zlib.decompress(response.data, -15 if raw else 15)
    except (OSError, EOFError, zlib.error) as e:
        raise TransientError(f"the response cannot be decoded from {encoding!r}: {e}") from None
    raise StoreError(f"the value came in the encoding {encoding!r}, which was not requested")


_date = cached(64)(parsedate_to_datetime)  # many responses have the same


def _validator(headers: Mapping[str, str]) -> str | None:
    """Return the validator of a response, which tells one value from another.

    It begins with ``W/`` if it is weak: another value may have it. Dates, and the ETags that many
    servers derive from them, have a resolution of seconds, so none is strong until a little later
    (RFC 9110, 8.8.2).
    """
    tag, modified = headers.get("etag"), headers.get("last-modified")
    if modified is None:
        return tag or None
    try:
        date = _date(headers.get("date", ""))
        strong = (date - _date(modified)).total_seconds() >= _STABLE
    except (TypeError, ValueError):
        strong = False
    plain = (tag or f"modified {modified}").removeprefix("W/")
    return plain if strong else f"W/{plain}"


def _generation(validator: str | None) -> str | None:
    """Return a strong validator, which no other value will ever have, or None."""
    return None if validator is None or validator.startswith("W/") else validator


def _retry_after(headers: Mapping[str, str]) -> float:
    text = headers.get("retry-after", "").strip()
    try:
        if text.isdecimal():
            return float(text)
        return max(0.0, _date(text).timestamp() - time.time())
    except (TypeError, ValueError):
        return 0.0
