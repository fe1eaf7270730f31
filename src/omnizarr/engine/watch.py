"""Notice that the array of a handle was replaced, moved, deleted or reshaped by somebody else.

A handle compares the metadata that it last read with the stored ones before every write, and after
every read that may have met two arrays: one of several chunks, or one that found a chunk missing.
After other reads, and in stores with a high latency, it looks only if the last look was long ago.

A file is known by its inode, size and time, a value in memory by its identity, any other by its
bytes; only where these differ, the metadata are parsed again. Another array, or none, is
`NodeChanged`. If only the shape or the attributes differ, a read of several chunks is repeated.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeVar, cast

from omnizarr.concurrency import file_locks, key_locks
from omnizarr.concurrency.retry import ABSENCE, CONFLICTS
from omnizarr.data_types import value_key
from omnizarr.engine import kernel
from omnizarr.errors import ChunkError, Conflict, InvalidMetadata, NodeChanged, StoreError
from omnizarr.model import ArrayModel, Node, paths
from omnizarr.model.node import FillValue
from omnizarr.publish.publication import wait_for_replacement
from omnizarr.publish.stage import epoch, replacements
from omnizarr.stores import direct_file_root, direct_values, get_existing, supports_compare_and_set
from omnizarr.stores.base import traits
from omnizarr.stores.identity import ObjectIdentity
from omnizarr.stores.leases import lease_key

T = TypeVar("T")
RECENT = 0.01  # seconds for which one look at a quick store is enough to read one chunk
REMOTE_RECENT = 5.0  # the same for stores with a high latency
ATTEMPTS = 200  # to read an array that is being replaced
GROWING_ATTEMPTS = 3  # to read one whose shape or attributes change all the time
_numbers = itertools.count(1)
# All that decides the meaning of a chunk's bytes, besides the grid.
_meaning = attrgetter(
    *("data_type", "chunk_key_encoding", "fill_value", "codecs", "storage_transformers")
)


class ArrayWatch:
    """The stored metadata of an array as a handle last saw them."""

    __slots__ = (
        *("_is_quick", "_keys", "_location", "_model", "_sign", "_store", "epoch", "expires"),
        *("identity", "is_remote", "metadata", "missed", "signature", "stored"),
    )

    def __init__(self, location: Any, model: ArrayModel, read_at: float) -> None:
        """Watch an array whose metadata were read, or written, at a monotonic time."""
        self._location, self._model, self._store = location, model, location.store
        self._keys: tuple[str, ...] = location.format.keys(location.path)
        self.signature: Any = None  # of the metadata that were last seen
        self.stored = model  # as last seen
        self.missed = 0  # another number whenever a chunk was found to be missing
        self.metadata = b""  # the path of the file, if the kernel may look at it
        self.identity = 0  # of that file
        self.epoch = -1  # of this process when it looked last
        self.is_remote = not traits(location.store).low_latency
        self.expires = read_at + (REMOTE_RECENT if self.is_remote else RECENT)
        self._is_quick = False  # True if the signature is no value that has to be fetched
        self._sign: Callable[[], Any] | None = None

    def _find_sign(self) -> Callable[[], Any]:
        """Return the function that tells one version of the metadata from the next."""
        store, key = self._store, self._keys[0]
        root, values = direct_file_root(store), direct_values(store)
        if root is not None:
            path = root + os.fsencode(key)
            self._is_quick = True
            if kernel.identity is None:
                return lambda: _file_identity(path)
            self.metadata = path
            return lambda: kernel.identity(path)
        if type(values) is dict:
            self._is_quick = True
            return lambda: ObjectIdentity(values.get(key))
        return lambda: [replacements[0], store.get(key)]

    def note_missing(self) -> None:
        """Note that a chunk was missing."""
        self.missed = next(_numbers)

    def is_current(self) -> bool:
        """Return True if the stored metadata are still the ones that were seen last."""
        if self.is_remote or self.signature is None or self._sign is None:
            return False
        now = epoch[0]
        if self._sign() != self.signature:
            return False
        self.epoch, self.expires = now, time.monotonic() + RECENT
        return True

    def confirm(self) -> ArrayModel:
        """Return the stored metadata; raise NodeChanged if they describe another array."""
        current = time.monotonic() < self.expires if self.is_remote else self.is_current()
        return self.stored if current else self.look()

    def confirm_shape(self) -> bool:
        """Return True if no other writer has changed the shape, or is about to.

        The caller holds the locks of these chunks. Raises NodeChanged if the array is smaller now.
        """
        idle = key_locks.is_free(key_locks.SHAPE, self._keys) and self._is_unlocked()
        stored = self.confirm()  # afterwards: who changes it holds the lock until it is stored
        self._check_shape()
        return idle and stored.shape == self._model.shape

    def expected_shape(self) -> dict[str, str | None] | None:
        """Return the key of the lock on the shape; None if it is held, or the shape changed."""
        key = lease_key(paths.folder(self._keys[0]), "shape")
        if self._store.get(key) is not None or self.stored.shape != self._model.shape:
            return None
        return {key: None}

    def _is_unlocked(self) -> bool:
        """Return True if no process is changing the shape, False if that is unknown."""
        if getattr(self._store, "lock_keys", None) is None:
            return not supports_compare_and_set(self._store)
        root = direct_file_root(self._store)
        if root is None:
            return False
        path = os.fsdecode(root) + lease_key(paths.folder(self._keys[0]), "shape")
        return file_locks.is_unused(path, remove=False)

    def expected(self) -> dict[str, str | None]:
        """Return the key and generation of the metadata; another or smaller array: NodeChanged."""
        for _ in CONFLICTS.tries():
            number = replacements[0]
            stored, generation = self._store.get_versioned(self._keys[0])
            if self.signature == [number, stored]:
                return {self._keys[0]: generation}
            self.look()
            self._check_shape()
        raise Conflict(
            f"the metadata of {self._location} changes all the time; nothing was stored, try again"
        )

    def look(self) -> ArrayModel:
        """Read the metadata and return them; raise NodeChanged if they are of another node."""
        now = epoch[0]
        signature, found = self._read()
        node = check_same_array(self._location, self._model, found)
        if node is not self._model and is_smaller(node, self._model):
            signature = None  # the handle has to follow before it reads
        self.stored, self.signature, self.epoch = node, signature, now
        self.identity = signature if self.metadata and signature is not None else 0
        self.expires = time.monotonic() + (REMOTE_RECENT if self.is_remote else RECENT)
        return node

    def _read(self) -> tuple[Any, Node | None]:
        """Return the signature and the node; wait for a node that is being replaced."""
        location, keys = self._location, self._keys
        for _ in ABSENCE.tries():
            number = replacements[0]
            self._sign = sign = self._sign or self._find_sign()
            signature = sign() if self._is_quick else None
            if self._is_quick:  # one request at a time costs less
                found = ((key, location.store.get(key)) for key in keys)
                documents = {key: value for key, value in found if value is not None}
            else:
                documents = get_existing(location.store, keys)
                signature = [number, documents.get(keys[0])]
            try:
                node = location.format.read(location.path, documents, [])
            except InvalidMetadata as e:
                raise NodeChanged(f"{location} has changed since it was opened: {e}") from e
            if node is None and location.consolidated is not None:
                node = location.consolidated.node(location.path)
            if node is not None or self.is_remote:
                break
            wait_for_replacement(location.store)
        return signature, node

    def find_identity(self) -> int:
        """Return the identity of the metadata's file, if the kernel may look at it, else 0."""
        if self.signature is None and not self.is_remote:
            self.look()
            self._check_shape()
        return self.identity

    def steadily(self, read: Callable[[], T], several: Callable[[], bool]) -> T:
        """Return what `read` returns; call it again if the array may have been replaced meanwhile.

        `several` returns True if it reads more than one chunk.
        """
        if self.signature is None and not self.is_remote:
            self.look()
        self._check_shape()
        for number in itertools.count(1):
            missed, stored, signature = self.missed, self.stored, self.signature
            values, error = None, None
            try:
                values = read()
            except ChunkError as e:
                error = e
            # The kernel, which does not tell of missing chunks, reads files and memory.
            skips = self.is_remote or not (self._is_quick or several())
            recent = self.missed == missed and error is None and skips
            own = self.is_remote or self.epoch == epoch[0]  # this process has changed nothing since
            fresh = own and time.monotonic() < self.expires
            if not (recent and fresh) and not self.is_current():
                try:
                    self.look()
                except StoreError:
                    if error is not None:
                        raise error from None
                    raise
                self._check_shape()
            same = self.signature == signature
            if self.is_remote and (signature is None or self.missed == missed):
                same = True  # what was looked at first has the known meaning
            if same or (self.stored != stored and number >= GROWING_ATTEMPTS):
                if error is not None:
                    raise error
                return cast(T, values)
            if number >= ATTEMPTS:
                raise Conflict(
                    f"{self._location} was replaced {number} times while it was read; read it"
                    " again when it is written less often"
                )
        raise AssertionError  # not reached: the count has no end

    def _check_shape(self) -> None:
        """Raise if the array is smaller than the handle knows."""
        if self.stored is not self._model and is_smaller(self.stored, self._model):
            raise NodeChanged(
                f"{self._location} was made smaller, to {self.stored.shape}, since this array was"
                " opened; call refresh()",
                reshaped=True,
            )


def is_smaller(new: ArrayModel, old: ArrayModel) -> bool:
    """Return True if an array was cut along any axis."""
    return any(a < b for a, b in zip(new.shape, old.shape, strict=True))


def _file_identity(path: bytes) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def check_same_array(where: Any, known: ArrayModel, stored: Node | None) -> ArrayModel:
    """Return a stored array; raise NodeChanged if its chunks would be read differently."""
    if not isinstance(stored, ArrayModel):
        what = "was deleted or moved" if stored is None else "was replaced by a group"
        raise NodeChanged(f"{where} {what} since this array was opened; open it again")
    difference = None if stored is known else _difference(known, stored)
    if difference == "codecs" and where.format.order_by_setting:
        difference = None  # which may be another one than when the array was opened
    if difference is not None:
        raise NodeChanged(
            f"{where} was replaced since this array was opened, by one with another {difference};"
            " open it again"
        )
    return stored


def _difference(old: ArrayModel, new: ArrayModel) -> str | None:
    """Return a part of two models that gives chunks another meaning; None if there is none."""
    if len(old.shape) != len(new.shape):
        return "number of axes"
    if old.chunk_grid.name != new.chunk_grid.name:
        return "chunk grid"
    if old.chunk_grid.name == "regular" and old.chunk_grid != new.chunk_grid:
        return "chunk shape"
    names = ("data type", "chunk key encoding", "fill value", "codecs", "storage transformers")
    pairs = zip(names, _meaning(old), _meaning(new), strict=True)
    return next((name for name, a, b in pairs if not _is_equal(a, b)), None)


def _is_equal(one: object, other: object) -> bool:
    """Return True for equal parts of models; NaN in a fill value is equal to itself here."""
    if isinstance(one, FillValue) and isinstance(other, FillValue) and one != other:
        key = value_key((one.json, one.dialect))
        return key is not None and key == value_key((other.json, other.dialect))
    return one == other
