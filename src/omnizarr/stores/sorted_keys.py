"""Listing where keys are in order: below a prefix, and one level without looking at the rest."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence


def after(prefix: str) -> str:
    """The first text behind all keys below a prefix that ends in a slash."""
    return prefix[:-1] + "0"  # the character after the slash


def below(keys: Sequence[str], prefix: str) -> Sequence[str]:
    """The keys below a prefix."""
    if not prefix:
        return keys
    return keys[bisect_left(keys, prefix) : bisect_left(keys, after(prefix))]


def level(scan: Callable[[str], Iterator[str]], prefix: str) -> tuple[list[str], list[str]]:
    """Keys and prefixes one level down; `scan(start)` gives the keys from `start` on, in order."""
    keys: list[str] = []
    prefixes: list[str] = []
    start: str | None = prefix
    while start is not None:
        found, start = scan(start), None
        for key in found:
            if not key.startswith(prefix):
                break
            head, slash, _ = key[len(prefix) :].partition("/")
            if slash:
                prefixes.append(f"{prefix}{head}/")
                start = after(prefixes[-1])
                break
            keys.append(key)
    return keys, prefixes


def scan_sorted(keys: Sequence[str]) -> Callable[[str], Iterator[str]]:
    """What `level` needs, from a sequence."""
    return lambda start: (keys[i] for i in range(bisect_left(keys, start), len(keys)))
