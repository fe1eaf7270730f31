"""A store in a Redis database; needs the package `redis`.

A key ``a/b`` is the Redis key ``<prefix>:a/b``, as in zarr-python 2. Keys are listed by scanning,
so that those of other programs are found; a generation is a digest that the server computes, so
that no value is transferred.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from omnizarr.concurrency import fork
from omnizarr.concurrency.fork import Usage
from omnizarr.concurrency.retry import MAY_BE_DONE, AnswerLost, Retry, superseded
from omnizarr.errors import InvalidName, MissingModule, StoreError
from omnizarr.stores import identity
from omnizarr.stores.base import Bytes, Names, Range, Requests, Values, flat, redact_url
from omnizarr.stores.database import DatabaseStore
from omnizarr.stores.operations import (
    check_key,
    check_offset,
    check_prefix,
    check_writable,
    named,
    translated_errors,
)

try:
    import redis
    from redis.backoff import NoBackoff
except ImportError as e:
    raise MissingModule("Redis stores need a package: pip install 'omnizarr[redis]'") from e

_ERRORS = (redis.RedisError, OSError, UnicodeError)
_NO_ANSWER = (redis.ConnectionError, redis.TimeoutError, OSError)
_BATCH = 1000
_making = fork.lock()
_VALUE = "local v = redis.call('GET', KEYS[1]) "
_GENERATION = _VALUE + "return v and redis.sha1hex(v)"
# ARGV[1] keys are compared with the generations that follow, ARGV[2] are erased, the others stored.
_CHANGE_IF = (
    "local n, m = tonumber(ARGV[1]), tonumber(ARGV[2]) "
    "for i = 1, n do local v = redis.call('GET', KEYS[i]) "
    "if (v and redis.sha1hex(v) or '') ~= ARGV[i + 2] then return 0 end end "
    "for i = n + 1, n + m do redis.call('DEL', KEYS[i]) end "
    "for i = n + m + 1, #KEYS do redis.call('SET', KEYS[i], ARGV[i - m + 2]) end return 1"
)
_RETRY = Retry(3)  # of a conditional change
_GET_VERSIONED = _VALUE + (
    "if not v then return {false, false} end "
    "return {redis.call('GETRANGE', KEYS[1], ARGV[1], ARGV[2]), redis.sha1hex(v)}"
)


class RedisStore(DatabaseStore):
    """The keys of a Redis database that start with a prefix.

    Messages do not contain passwords of the URL.

    Args:
        url: ``redis://host:port/db``, ``rediss://…`` (TLS) or ``unix:///path?db=0``.
        prefix: The start of all keys, before a colon; without one, or no node can be created.
        read_only: True to refuse all writes.
        **options: Options of the client.
    """

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
        self._clients: dict[bool, redis.Redis] = {}
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

    def _redis(self, repeats: bool = True) -> redis.Redis:
        """Return the client, which has connections for each thread and process.

        One that does not repeat commands is for those that must not be done twice unnoticed.
        """
        client = self._clients.get(repeats)
        if client is not None and self._owner == os.getpid():
            return client
        with _making:  # a second client would close the connections of the first
            if self._owner != os.getpid():
                fork.never_release(self._clients)  # a thread of the parent may have held its locks
                self._clients, self._owner = {}, os.getpid()
            if repeats not in self._clients:
                once = {} if repeats else {"retry": redis.retry.Retry(NoBackoff(), 0)}
                options = {"socket_timeout": 60, **self.options, **once}
                self._clients[repeats] = redis.Redis.from_url(self.url, **options)
            return self._clients[repeats]

    @contextmanager
    def _using(self, verb: str, what: str) -> Iterator[None]:
        """Keep the connections open, and translate errors of the client."""
        try:
            with translated_errors(verb, what, self, _ERRORS), self._usage:
                yield
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
        requested = [(self._name(key), range) for key, range in requests]
        if not requested:
            return []
        with self._using("read", named(self._keys(name for name, _ in requested[:3]))):
            pipeline = self._redis().pipeline(transaction=True)
            for name, range in requested:
                if range is None:
                    pipeline.get(name)
                else:
                    pipeline.exists(name)
                    pipeline.getrange(name, *_bounds(range))
            replies = iter(pipeline.execute())
        return [
            next(replies) if range is None else _part(next(replies), next(replies), range)
            for _, range in requested
        ]

    def sizes(self, keys: Iterable[str]) -> dict[str, int]:
        requested = [*keys]
        with self._using("read", named(requested)):
            pipeline = self._redis().pipeline(transaction=True)
            for key in requested:
                pipeline.exists(self._name(key))
                pipeline.strlen(self._name(key))
            replies = iter(pipeline.execute() if requested else ())
        found = ((key, next(replies), next(replies)) for key in requested)
        return {key: size for key, exists, size in found if exists}

    def generation(self, key: str) -> str | None:
        name = self._name(key)
        with self._using("read", key):
            return _digest(self._redis().eval(_GENERATION, 1, name))

    def get_versioned(
        self, key: str, range: Range | None = None
    ) -> tuple[bytes | None, str | None]:
        name = self._name(key)
        with self._using("read", key):
            reply: Any = self._redis().eval(_GET_VERSIONED, 1, name, *_bounds(range or Range()))
        return _part(reply[1] is not None, reply[0], range or Range()), _digest(reply[1])

    # Writing

    def set_many(self, values: Iterable[tuple[str, Bytes]]) -> None:
        check_writable(self)
        rows = {self._name(key): bytes(flat(value)) for key, value in values}
        if rows:
            with self._using("write", named(self._keys(rows))):
                self._redis().mset(rows)

    def set_partial(self, key: str, start: int, value: Bytes) -> None:
        check_writable(self)
        name = self._name(key)
        check_offset(key, start)
        with self._using("write", key):
            self._redis().setrange(name, start, bytes(flat(value)))

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

        def attempt() -> bool:
            nonlocal attempts
            attempts += 1
            client = self._redis(repeats=False)
            return bool(client.eval(_CHANGE_IF, len(names), *names, *given))

        what = named(changes)
        with self._using("write", what):
            done = _RETRY.call(attempt, _NO_ANSWER)
        if not done and attempts > 1:
            raise superseded(what, self)
        return done

    def erase(self, key: str) -> None:
        check_writable(self)
        name = self._name(key)
        with self._using("erase", key):
            self._redis().delete(name)

    def erase_prefix(self, prefix: str) -> None:
        check_writable(self)
        names = [f"{self.prefix}:{key}" for key in self.list_prefix(prefix)]
        with self._using("erase", prefix):
            for start in range(0, len(names), _BATCH):
                self._redis().unlink(*names[start : start + _BATCH])

    # Listing

    def list_prefix(self, prefix: str) -> Iterator[str]:
        check_prefix(prefix)
        pattern = re.sub(r"([*?\[\]\\^-])", r"\\\1", f"{self.prefix}:{prefix}") + "*"
        with self._using("list", prefix):
            # A scan may give a key twice.
            found = {name.decode() for name in self._redis().scan_iter(pattern, count=_BATCH)}
        yield from self._keys(found)

    def _keys(self, names: Iterable[str]) -> Names:
        return [name[len(self.prefix) + 1 :] for name in names]

    # Finishing

    def close(self) -> None:
        """Close the connections; the store cannot be used afterwards."""
        self._usage.close(self._disconnect)

    def _disconnect(self) -> None:
        clients, self._clients = self._clients, {}
        for client in clients.values() if self._owner == os.getpid() else ():
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

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RedisStore):
            return NotImplemented
        mine = (self.url, self.prefix, self.options)
        return mine == (other.url, other.prefix, other.options)

    def __hash__(self) -> int:
        return hash((self.url, self.prefix))

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


def _digest(reply: Any) -> str | None:
    return None if reply is None else bytes(reply).decode()
