"""A store in a Redis database; needs the package `redis`.

A key ``a/b`` is the Redis key ``<prefix>:a/b``, as in zarr-python 2. Keys are listed by scanning,
so that those of other programs are found; a generation is a digest that the server computes, so
that no value is transferred.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from operator import methodcaller
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from omnizarr.concurrency import fork
from omnizarr.concurrency.fork import Usage
from omnizarr.concurrency.retry import MAY_BE_DONE, AnswerLost, Retry, superseded
from omnizarr.errors import InvalidName, MissingModule, StoreError
from omnizarr.stores import base, identity, operations, tracing
from omnizarr.stores.base import Bytes, Names, Range, Requests, Traits, Values, flat, redact_url
from omnizarr.stores.operations import check_key, check_writable, named, translated_errors

try:
    import redis
    from redis.backoff import NoBackoff
except ImportError as e:
    raise MissingModule("Redis stores need a package: pip install 'omnizarr[redis]'") from e

_ERRORS = (redis.RedisError, OSError, UnicodeError)
_NO_ANSWER = (redis.ConnectionError, redis.TimeoutError, OSError)
_ONCE = redis.retry.Retry(NoBackoff(), 0)
_BATCH = 1000
_making = fork.lock()
# ARGV[1] keys are compared with the generations that follow, ARGV[2] are erased, the others stored.
_CHANGE_IF = (
    "local n, m = tonumber(ARGV[1]), tonumber(ARGV[2]) "
    "for i = 1, n do local v = redis.call('GET', KEYS[i]) "
    "if (v and redis.sha1hex(v) or '') ~= ARGV[i + 2] then return 0 end end "
    "for i = n + 1, n + m do redis.call('DEL', KEYS[i]) end "
    "for i = n + m + 1, #KEYS do redis.call('SET', KEYS[i], ARGV[i - m + 2]) end return 1"
)
_RETRY = Retry(3)
_GET_VERSIONED = (
    "local v = redis.call('GET', KEYS[1]) if not v then return {false, false} end "
    "return {redis.call('GETRANGE', KEYS[1], ARGV[1], ARGV[2]), redis.sha1hex(v)}"
)


class RedisStore(base.ListedStore):
    """The keys of a Redis database that start with a prefix.

    Messages do not contain passwords of the URL.

    Args:
        url: ``redis://host:port/db``, ``rediss://…`` (TLS) or ``unix:///path?db=0``.
        prefix: The start of all keys, before a colon; without one, or no node can be created.
        read_only: True to refuse all writes.
        **options: Options of the client, except `retry`: the store repeats requests itself.
    """

    traits = Traits(low_latency=True)

    def __init__(
        self,
        url: str = "redis://localhost:6379/0",
        *,
        prefix: str = "zarr",
        read_only: bool = False,
        **options: Any,
    ) -> None:
        self.url = url
        self.prefix = prefix
        self.read_only = read_only
        self.options = options
        self._client: redis.Redis | None = None
        self._owner = os.getpid()
        self._usage = Usage()

    @classmethod
    def from_url(cls, url: str, *, read_only: bool = False, **options: Any) -> RedisStore:
        """Return the store of a URL, which may have ``?prefix=…``."""
        server, _, query = url.partition("?")
        rest = dict(parse_qsl(query))
        prefix = rest.pop("prefix", None)
        if prefix is not None:
            options.setdefault("prefix", prefix)
        return cls(server + (f"?{urlencode(rest)}" if rest else ""), read_only=read_only, **options)

    def _redis(self) -> redis.Redis:
        """Return the client, which has connections for each thread and process."""
        if self._client is None or self._owner != os.getpid():
            with _making:  # a second client would close the connections of the first
                if self._owner != os.getpid():
                    fork.never_release(self._client)  # a thread of the parent may hold its locks
                    self._client, self._owner = None, os.getpid()
                if self._client is None:
                    options = {"socket_timeout": 60, **self.options, "retry": _ONCE}
                    self._client = redis.Redis.from_url(self.url, **options)
        return self._client

    def _call(
        self, verb: str, what: str, request: Callable[[redis.Redis], Any], sent_bytes: int = 0
    ) -> Any:
        """Return the answer to a request, repeated where none comes; translate errors."""
        about = f"{verb} {what}"
        try:
            with translated_errors(verb, what, self, _ERRORS), self._usage:
                ask = partial(request, self._redis())
                answer = partial(tracing.answer, self, about, ask, sent_bytes)
                return _RETRY.call(answer, _NO_ANSWER, store=self)
        except StoreError as e:
            if verb not in ("write", "erase") or not isinstance(e.__cause__, _NO_ANSWER):
                raise
            raise AnswerLost(f"{e}; {MAY_BE_DONE}") from e.__cause__

    def _name(self, key: str) -> str:
        return f"{self.prefix}:{check_key(key)}"

    def check_new_key(self, key: str) -> None:
        """Raise if the prefix has a colon: a store with only its first part would see the keys."""
        if ":" in self.prefix:
            raise InvalidName(
                f"{self!r} can be read, but no new node is created there: its keys would also be"
                f" those of the prefix {self.prefix.partition(':')[0]!r}; use one without a colon"
            )

    # Reading

    def get_many(self, requests: Requests) -> Values:
        asked = [(self._name(key), range) for key, range in requests]

        def read(client: redis.Redis) -> Any:
            pipeline = client.pipeline(transaction=True)
            for name, range in asked:
                if range is None:
                    pipeline.get(name)
                else:
                    pipeline.exists(name)
                    pipeline.getrange(name, *_bounds(range))
            return pipeline.execute()

        replies = iter(self._call("read", named(self._keys(n for n, _ in asked[:3])), read))
        return [
            next(replies) if range is None else _part(next(replies), next(replies), range)
            for _, range in asked
        ]

    def sizes(self, keys: Iterable[str]) -> dict[str, int]:
        asked = [*keys]

        def measure(client: redis.Redis) -> Any:
            pipeline = client.pipeline(transaction=True)
            for name in map(self._name, asked):
                pipeline.exists(name)
                pipeline.strlen(name)
            return pipeline.execute()

        replies = self._call("read", named(asked), measure)
        found = zip(asked, replies[::2], replies[1::2], strict=True)
        return {key: size for key, exists, size in found if exists}

    def generation(self, key: str) -> str | None:
        return self.get_versioned(key, Range(0, 0))[1]

    def get_versioned(self, key: str, range: Range | None = None) -> base.VersionedValue:
        name, part = self._name(key), range or Range()
        value, digest = self._call(
            "read", key, lambda client: client.eval(_GET_VERSIONED, 1, name, *_bounds(part))
        )
        return (None, None) if digest is None else (_part(True, value, part), digest.decode())

    # Writing

    def set_many(self, values: Iterable[tuple[str, Bytes]]) -> None:
        check_writable(self)
        rows = {self._name(key): bytes(flat(value)) for key, value in values}
        if rows:
            size = sum(map(len, rows.values()))
            self._call("write", named(self._keys(rows)), lambda c: c.mset(rows), size)

    def set_partial(self, key: str, start: int, value: Bytes) -> None:
        check_writable(self)
        name, data = self._name(key), bytes(flat(value))
        operations.check_offset(key, start)
        self._call("write", key, lambda client: client.setrange(name, start, data), len(data))

    def set_if(self, key: str, value: Bytes, generation: str | None) -> bool:
        return self.change_if({key: value}, {key: generation})

    def change_if(
        self, changes: Mapping[str, Bytes | None], expected: Mapping[str, str | None]
    ) -> bool:
        check_writable(self)
        erased = [key for key, value in changes.items() if value is None]
        stored = {key: bytes(flat(value)) for key, value in changes.items() if value is not None}
        names = [self._name(key) for key in (*expected, *erased, *stored)]
        given: list[int | str | bytes] = [len(expected), len(erased)]
        given += [*(generation or "" for generation in expected.values()), *stored.values()]
        attempts = 0

        def change(client: redis.Redis) -> bool:
            nonlocal attempts
            attempts += 1
            return bool(client.eval(_CHANGE_IF, len(names), *names, *given))

        done: bool = self._call("write", named(changes), change, sum(map(len, stored.values())))
        if not done and attempts > 1:
            raise superseded(named(changes), self)
        return done

    def erase(self, key: str) -> None:
        check_writable(self)
        name = self._name(key)
        self._call("erase", key, lambda client: client.delete(name))

    def erase_prefix(self, prefix: str) -> None:
        check_writable(self)
        names = (f"{self.prefix}:{key}" for key in self.list_prefix(prefix))
        while batch := [*itertools.islice(names, _BATCH)]:
            self._call("erase", prefix, methodcaller("unlink", *batch))

    # Listing

    def list_prefix(self, prefix: str) -> Iterator[str]:
        operations.check_prefix(prefix)
        pattern = re.sub(r"([*?\[\]\\^-])", r"\\\1", f"{self.prefix}:{prefix}") + "*"

        def scan(client: redis.Redis) -> set[str]:  # which may give a key twice
            return {name.decode() for name in client.scan_iter(pattern, count=_BATCH)}

        yield from self._keys(self._call("list", prefix, scan))

    def _keys(self, names: Iterable[str]) -> Names:
        return [name[len(self.prefix) + 1 :] for name in names]

    # Finishing

    def close(self) -> None:
        """Close the connections; the store cannot be used afterwards."""
        self._usage.close(self._disconnect)

    def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None and self._owner == os.getpid():
            client.close()

    def __reduce__(self) -> tuple[Any, ...]:
        given = {"prefix": self.prefix, "read_only": self.read_only, **self.options}
        return partial(type(self), **given), (self.url,)

    def identity_details(self) -> tuple[str, ...]:
        """Return the whole URL and the prefix."""
        return self.url, self.prefix

    def identity(self, prefix: str = "") -> identity.StorageIdentity:
        parts = urlsplit(self.url)
        database = parts.path.strip("/") or self.options.get("db", 0)
        server = identity.address(self.url), parts.path if parts.scheme == "unix" else database
        return identity.inside(("redis", *server, parts.query, self.prefix), prefix)

    def _values_at(self) -> tuple[str, ...]:
        return self.url, self.prefix, repr(sorted(self.options.items()))

    def __repr__(self) -> str:
        return f"{redact_url(self.url)} ({self.prefix})"


def _bounds(range: Range) -> tuple[int, int]:
    """Return the first and last byte for GETRANGE; for a range from the end, up to the end."""
    if range.start < 0 or range.length is None:
        return range.start, -1
    return range.start, range.start + max(range.length, 1) - 1


def _part(exists: bool, value: bytes, range: Range) -> bytes | None:
    if not exists:
        return None
    return value if range.length is None else value[: range.length]
