"""Hostile names of nodes and of stores: each is refused at once, or works in every operation.

A name is one that means something to a library, a shell or a disk below: patterns, escapes,
options, devices, markers of this package. Beside it are twins, the names that it could be taken
for. Nothing but the node itself may change, and a name that is refused leaves nothing behind.
"""

from __future__ import annotations

import itertools
import random
import time
import unicodedata
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote, unquote

import numpy as np
from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

import omnizarr as oz
from omnizarr.model import paths
from omnizarr.storage import PrefixStore, ZipStore
from omnizarr.stores import LocalStore, MemoryStore
from omnizarr.stores.fsspec import FsspecStore
from omnizarr.stores.lmdb import LMDBStore
from omnizarr.stores.redis import RedisStore
from omnizarr.stores.sqlite import SQLiteStore
from tests.servers.gcs import CloudStorage
from tests.servers.processes import (
    ACCOUNT,
    ACCOUNT_KEY,
    azurite,
    make_azure_container,
    make_s3_bucket,
    moto,
)
from tests.servers.redis import redis_server
from tests.servers.web import running

MARKS = [*"*?[]{}%#&~$!:;|\"'\\`<>^=+,@()", " ", "\n", "\t", "\r", "\x7f", "\x01", "\u2028"]
_PLAIN = """
x[1] x[0-9] [!x] a?b ** {a,b} %2F a%20b % %zz a+b ~ ~root $HOME ${x} $(id) -rf --help - .hidden ..a
a.. .... . .. ... a/../b ./a a/. / a//b /a/ file:x memory: a::b :: s3: http: x:y@z a#b # ?x=1
a?versionId=1 con NUL aux.txt Com1 lpt9.x a. a:b desktop.ini Thumbs.db c 0 0.0 1 data meta None nan
new old plan.json attributes.json zarr.json .zarray .zgroup .zattrs .zmetadata ß SS İ K __omnizarr
__x__ a.__omnizarr_b .__omnizarr_staged__ .__omnizarr_lock__x x.__omnizarr_partial__1
"""
WORDS = (
    *_PLAIN.split(),
    *("", "\0", "a\0b", "\ud800", "a ", " a", "\u00e9", "e\u0301", "\ufb01", "\u540d\u524d"),
    *("\U0001f600", "\u202e", "n" * 200, "n" * 255, "n" * 256, "é" * 127, "é" * 128, "n" * 1100),
    "/".join("n" * 90),
)
NAMES = tuple(
    dict.fromkeys(
        [*WORDS, *(form.replace("_", mark) for mark in MARKS for form in ("_", "a_b", "_a", "a_"))]
    )
)
FORMATS = (2, 3)
ROOT_KEYS = {"zarr.json", ".zgroup", ".zattrs", ".zmetadata"}
VALUES = np.arange(7, dtype="i4")


def twins(name: str) -> list[str]:
    """Return other names that a name could be taken for."""
    plain = "".join(c if c.isalnum() else "z" for c in name)
    without = "".join(c for c in name if c.isalnum())
    quoted = quote(name, errors="replace")
    found = [plain, without, "x1", "acb", name.replace("\\", "/"), unquote(name), quoted]
    found += [name.strip(), name.rstrip(". "), name.casefold(), name.swapcase(), name[:255]]
    found += [unicodedata.normalize(form, name) for form in ("NFC", "NFD", "NFKC")]
    taken = paths_of(name)
    return [each for each in dict.fromkeys(found) if each.strip("/") and paths_of(each) != taken]


def paths_of(name: str) -> list[str]:
    return [part for part in name.split("/") if part]


def contents(store: Any) -> dict[str, bytes | None]:
    """Return all keys and values; those of locks and leases aside."""
    return {key: store.get(key) for key in store.list() if ".__omnizarr_lock__" not in key}


@dataclass
class Kinds:
    """Kinds of stores, each in a place of its own, with roots of any name."""

    folder: Path
    servers: ExitStack
    numbers: Iterator[int] = field(default_factory=itertools.count)
    started: dict[str, Any] = field(default_factory=dict)

    def place(self, kind: str) -> Callable[[str], Any]:
        """Return what opens the store with a root of a name, beside others of the place."""
        number = next(self.numbers)
        folder = self.folder / f"{kind.replace(' ', '-')}-{number}"
        made: dict[str, Any] = {}
        if kind not in ("memory", "redis", "s3", "gs", "az", "fsspec memory"):
            folder.mkdir()

        def once(root: str, make: Callable[[], Any]) -> Any:
            if root not in made:
                made[root] = make()
            return made[root]

        match kind:
            case "memory":
                values = MemoryStore()
                return lambda root: PrefixStore(values, root)
            case "directory":
                return lambda root: LocalStore(f"{folder}/{root}")
            case "zip":
                return lambda root: once(root, lambda: ZipStore(f"{folder}/{root}.zip", mode="a"))
            case "sqlite":
                return lambda root: SQLiteStore(f"{folder}/{root}.sqlite")
            case "lmdb":
                return lambda root: LMDBStore(f"{folder}/{root}", map_size=2**24)
            case "fsspec local":
                return lambda root: FsspecStore(LocalFileSystem(), path=f"{folder}/{root}")
            case "fsspec async":
                fs = AsyncFileSystemWrapper(LocalFileSystem(), asynchronous=False)
                return lambda root: FsspecStore(fs, path=f"{folder}/{root}")
            case "fsspec memory":
                return lambda root: FsspecStore(MemoryFileSystem(), path=f"/{folder}/{root}")
            case "redis":
                url = self._server(kind, lambda: redis_server(self.folder))
                return lambda root: RedisStore(url, prefix=f"{number}-{root}")
        bucket, options = self._bucket(kind, number)
        return lambda root: oz.stores.resolve(
            f"{kind}://{bucket}/{quote(root, errors='replace')}", storage_options=options
        )

    def _server(self, kind: str, start: Callable[[], Any]) -> Any:
        if kind not in self.started:
            self.started[kind] = self.servers.enter_context(start())
        return self.started[kind]

    def _bucket(self, kind: str, number: int) -> tuple[str, dict[str, Any]]:
        name = f"names-{number}"
        if kind == "s3":
            port = self._server(kind, moto)
            make_s3_bucket(port, name)
            keys = {"access_key_id": "key", "secret_access_key": "secret", "region": "us-east-1"}
            return name, {"endpoint": f"http://127.0.0.1:{port}", **keys}
        if kind == "az":
            port = self._server(kind, azurite)
            make_azure_container(port, name)
            account = {"account_name": ACCOUNT, "account_key": ACCOUNT_KEY}
            return name, {"endpoint": f"http://127.0.0.1:{port}/{ACCOUNT}", **account}
        server = self._server(kind, lambda: running(CloudStorage()))
        server.buckets[name] = {}
        return name, {"endpoint": server.url, "bearer_token": "token"}


LOCAL = ("memory", "directory", "zip", "sqlite", "lmdb", "fsspec memory", "fsspec local")
KINDS = (*LOCAL, "fsspec async", "redis", "s3", "gs", "az")


class Broken(AssertionError):
    """A name that was accepted does not work, or something else has changed."""


def check(truth: object, what: str) -> None:
    """Raise if something does not hold."""
    if not truth:
        raise Broken(what)


def try_node(store: Any, name: str, zarr_format: int, group: bool) -> None:
    """Use a name for a node, beside its twins; it is refused, or works."""
    root = oz.create_group(store, zarr_format=zarr_format)
    for number, twin in enumerate(twins(name)):
        try:
            root.create_array(twin, data=VALUES + number)
        except oz.OmnizarrError:
            continue
    before = contents(store)
    path = f"{name}/inside" if group else name
    try:
        if group:
            root.create_group(name)
        array = root.create_array(path, shape=7, chunks=3, dtype="i4")
    except oz.OmnizarrError:
        after = contents(store)
        check(after == before, f"refused, but {after.keys() ^ before.keys()} changed")
        return
    use(root, store, name, path, array)
    beside(store, before)


def beside(store: Any, before: dict[str, bytes | None]) -> None:
    """Raise unless everything is as before, but for the metadata of the root."""
    after = contents(store)
    changed = [key for key in before if after.get(key) != before[key]]
    check(not set(changed) - ROOT_KEYS, f"a twin has changed: {changed[:5]}")
    left = after.keys() - before.keys() - ROOT_KEYS
    check(not left, f"left behind: {sorted(left)[:5]}")


def use(root: oz.Group, store: Any, name: str, path: str, array: oz.Array) -> None:
    """Do everything with a new array; at the end it is deleted."""
    array[...] = VALUES
    check(root[path][2:5].tolist() == [2, 3, 4], "values are read")
    array = root.create_array(path, data=VALUES * 2, chunks=3, overwrite=True)
    array[1] = 9
    array.append([5, 6])
    array.resize(8, outside="erase")
    array.attrs["k"] = "v"
    wanted = [0, 9, 4, 6, 8, 10, 12, 5]
    check(oz.open(store, path=path)[...].tolist() == wanted, "values are changed")
    members = dict(root.members(max_depth=None))
    listed = [each for each in members if members[each].path == array.path]
    check(len(listed) == 1, f"{path!r} is listed {len(listed)} times")
    check(root[listed[0]].attrs["k"] == "v", "it is found by its listed name")
    oz.consolidate_metadata(store)
    check(oz.open(store, use_consolidated=True)[path][...].tolist() == wanted, "consolidated")
    found = oz.verify(store)
    check(found.ok, f"verify: {[str(each) for each in found.findings]}")
    leftovers = oz.repair(store)
    check(not leftovers, f"repair: {leftovers}")
    copied = MemoryStore()
    oz.copy(store, copied)
    check(oz.open(copied, path=path)[...].tolist() == wanted, "copied with the hierarchy")
    shown = oz.view_as(store, 2 if "zarr.json" in contents(store) else 3)
    try:
        check(oz.open(shown, path=path)[...].tolist() == wanted, "viewed in the other format")
    except oz.OmnizarrError as e:
        documents = {".zarray", ".zgroup", ".zattrs", ".zmetadata"}  # in version 3 plain names
        other = "\\" in path or not documents.isdisjoint(path.split("/"))
        check(other or _only_version_2(path), f"not viewed: {e}")
    root["copy of it"] = array
    check(root["copy of it"][...].tolist() == wanted, "copied")
    del root["copy of it"]
    root.move(path, "moved aside")
    check(path not in root, "moved away")
    root.move("moved aside", path)
    check(root[path][...].tolist() == wanted, "moved back")
    first = paths_of(array.path)[0]
    del root[first if first == array.path or "/" in name else name]
    check(path not in root, "deleted")
    for above in reversed(paths.ancestors(array.path)[1:]):
        if above in root:
            del root[above]
    oz.consolidate_metadata(store)


def _only_version_2(path: str) -> bool:
    return any(not part.strip(".") or part == "zarr.json" for part in path.split("/"))


def try_root(place: Callable[[str], Any], name: str, zarr_format: int) -> None:
    """Use a name for the root of a store, beside stores with the names of its twins."""
    if "/" in name.strip("/") or not name.strip("/."):
        return  # it is no name
    others: dict[str, Any] = {}
    for twin in twins(name):
        try:
            if "/" not in twin and "\0" not in twin and "\ud800" not in twin:
                oz.create_group(place(twin), zarr_format=zarr_format)["x"] = VALUES
                others[twin] = contents(place(twin))
        except oz.OmnizarrError:
            continue
    try:
        store = place(name)
        array = oz.create_group(store, zarr_format=zarr_format).create_array("x", data=VALUES)
    except oz.OmnizarrError:
        pass  # refused
    else:
        before = {key: value for key, value in contents(store).items() if key[:2] != "x/"}
        use(oz.open(store, "r+"), store, "x", "x", array)
        beside(store, before)
        oz.create_group(store, zarr_format=zarr_format, overwrite=True)
        check(sorted(oz.open(store)) == [], "the root is replaced")
    for twin, known in others.items():
        check(contents(place(twin)) == known, f"the store {twin!r} has changed")


Case: TypeAlias = tuple[str, str, int, str]  # kind of store, name, format, what gets the name


def shuffled(seed: int, kinds: tuple[str, ...] = KINDS) -> list[Case]:
    """Return all cases in an order of its own for each seed."""
    found = [*itertools.product(kinds, NAMES, FORMATS, ("array", "group", "root"))]
    random.Random(seed).shuffle(found)
    return found


def wrong(
    folder: Path, some: list[Case], seconds: float, **servers_there: Any
) -> list[tuple[Case, str]]:
    """Try cases until the time is over; return those that neither work nor are refused.

    Ports of servers that run already may be given.
    """
    end, found = time.monotonic() + seconds, []
    with ExitStack() as servers, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kinds = Kinds(folder, servers, started=servers_there)
        for case in some:
            kind, name, zarr_format, what = case
            try:
                place = kinds.place(kind)
                if what == "root":
                    try_root(place, name, zarr_format)
                else:
                    try_node(place("root"), name, zarr_format, what == "group")
            except Exception as e:  # of any class: that is what is looked for
                found.append((case, f"{type(e).__name__}: {e}"))
            if time.monotonic() > end:
                break
    return found
