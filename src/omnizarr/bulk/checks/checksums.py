"""The SHA-256 of all values that a job has written, as lines that ``sha256sum -c`` checks.

Values are read back when they are visible, in parts of a limited size, and each line is written as
it comes: neither large values nor many of them need memory. The file appears when it is complete.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256

from omnizarr.extension import (
    PARTIAL,
    MissingValue,
    On,
    Store,
    for_each_on,
    in_parallel,
    is_quick,
    read_parts,
)

BATCH = 64  # keys that one worker takes at a time
PART = 2**22  # bytes of a value that are in memory at a time; of a remote store, of 64 values
ESCAPED = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r"})


@dataclass(frozen=True)
class Batch:
    """Some keys of a store; it can be pickled."""

    store: Store
    keys: tuple[str, ...]


def write_checksums(
    file: str | os.PathLike[str],
    store: Store,
    keys: Iterator[str],
    on: On = None,
    workers: int | None = None,
) -> None:
    """Write the checksums of the values at some keys, in no particular order."""
    folder, name = os.path.split(os.path.abspath(file))
    temporary = os.path.join(folder, f"{PARTIAL}{name}")  # which no listing of a store has
    try:
        with open(temporary, "w", encoding="utf-8", errors="surrogateescape", newline="\n") as out:

            def write(_: Batch, lines: list[str]) -> None:
                out.writelines(lines)

            for_each_on(on, workers, _batches(store, keys), _lines, write)
        os.replace(temporary, file)
    except BaseException as e:
        with suppress(OSError):
            os.unlink(temporary)
        e.add_note(
            "what the job wrote is complete, but its checksums are not; the same call with"
            " resume=True writes them"
        )
        raise


def _batches(store: Store, keys: Iterator[str]) -> Iterator[Batch]:
    while some := tuple(itertools.islice(keys, BATCH)):
        yield Batch(store, some)


def _lines(batch: Batch) -> list[str]:
    line = partial(_line, batch.store)
    if is_quick(batch.store):
        return [line(key) for key in batch.keys]
    return in_parallel(line, batch.keys)


def _line(store: Store, key: str) -> str:
    """Return the line of a value; it is empty if there is none."""
    digest = sha256()
    try:
        for part in read_parts(store, key, PART):
            digest.update(part)
    except MissingValue:  # a key that may have a value, in a store that does not list its keys
        return ""
    name = key.translate(ESCAPED)
    escape = "\\" if name != key else ""
    return f"{escape}{digest.hexdigest()}  {name}\n"
