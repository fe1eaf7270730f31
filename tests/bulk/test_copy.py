"""Copies of hierarchies between stores: the same bytes, whatever happens on the way."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr import jobs, stores
from omnizarr.bulk import copy as module
from omnizarr.bulk import journal
from omnizarr.errors import InvalidArgument, NodeExists, NodeNotFound, StoreError
from omnizarr.publish.stage import JOURNAL, MARKER, Kind, Mark, marker
from omnizarr.storage import WrapperStore
from omnizarr.stores import LocalStore, MemoryStore, Store, _files, transfer
from omnizarr.stores.local.atomic_files import OURS
from omnizarr.stores.object.store import ObjectStore
from omnizarr.testing import FaultyStore
from tests.failing import interrupt_after
from tests.memory import peak
from tests.sampling import sample, some_of_each
from tests.servers.fixtures import Cloud
from tests.servers.web import Web

PLACES: dict[str, Callable[[Path], Any]] = {
    "memory": lambda folder: MemoryStore(),
    "directory": lambda folder: folder / "x.zarr",
    "zip": lambda folder: folder / "x.zip",
    "sqlite": lambda folder: f"sqlite://{folder}/x.db",
}


def values(where: Any) -> dict[str, bytes | None]:
    """Return all values, and nothing that a writer has left."""
    store = stores.resolve(where, read_only=True)
    found = {key: store.get(key) for key in stores.list_prefix(store, "")}
    assert not [key for key in found if OURS in key]
    return found


def fill(where: Any, seed: int) -> oz.Group:
    """Write a random hierarchy with other files in it."""
    rng = random.Random(seed)
    format = rng.choice([2, 3])
    group = oz.create_group(where, zarr_format=format, attributes={"seed": seed})
    for name in rng.sample(["temp", "temp2", "deep/salt", "deep/er/0", "1"], rng.randint(0, 4)):
        shape = tuple(rng.randint(1, 9) for _ in range(rng.randint(0, 2)))
        data = np.arange(int(np.prod(shape))).reshape(shape)
        group.create_array(name, data=data + 1, chunks=tuple(min(2, n) for n in shape) or "auto")
    if rng.random() < 0.5:
        oz.consolidate_metadata(group.store)
    if rng.random() < 0.5:
        group.store.set("README.md", b"not Zarr")
        group.store.set("deep/notes/a.txt", os.urandom(5))
    return group


@pytest.mark.parametrize(("old", "new"), some_of_each(PLACES, [*PLACES], 2))
def test_every_pair_of_stores_gives_the_same_bytes(tmp_path: Path, old: str, new: str) -> None:
    @settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
    @given(seed=st.integers(0, 10**6), verify=st.booleans(), changes=st.integers(0, 5))
    def check(seed: int, verify: bool, changes: int) -> None:
        shutil.rmtree(tmp_path / "from", ignore_errors=True)
        shutil.rmtree(tmp_path / "to", ignore_errors=True)
        (tmp_path / "from").mkdir()
        (tmp_path / "to").mkdir()
        source, target = PLACES[old](tmp_path / "from"), PLACES[new](tmp_path / "to")
        group = fill(source, seed)
        _close(group.store)
        result = oz.copy(source, target, verify=verify)
        wanted = values(source)
        assert values(target) == wanted
        assert (result.copied, result.same) == (len(wanted), 0)
        assert result.verified == (len(wanted) if verify else 0)
        assert result.bytes_copied == sum(len(v or b"") for v in wanted.values())
        assert oz.copy(source, target, update=True).copied == 0
        change(source, changes, seed)
        updated = oz.copy(source, target, update=True, delete=True)
        after = values(source)
        assert values(target) == after
        differ = [key for key in after if after[key] != wanted.get(key)]
        assert len(differ) <= updated.copied <= len(differ) + changes
        assert updated.erased == len(wanted.keys() - after.keys())

    check()


def _close(store: Any) -> None:
    if not isinstance(store, MemoryStore):
        store.close()


def change(where: Any, changes: int, seed: int) -> None:
    """Change, add and erase random values."""
    rng = random.Random(seed + 1)
    store = stores.resolve(where)
    keys = sorted(key for key in stores.list_prefix(store, "") if not module._is_document(key))
    for n in range(changes):
        key = rng.choice([*keys, "new/1", f"new/{n}"])
        if rng.random() < 0.3:
            store.erase(key)
        else:
            store.set(key, rng.randbytes(rng.choice([1, 8])))
    if store is not where:
        _close(store)


@pytest.mark.parametrize("name", ["copied", "touched", "resized", "missing"])
def test_what_each_comparison_notices(tmp_path: Path, name: str) -> None:
    source, target = LocalStore(tmp_path / "a"), LocalStore(tmp_path / "b")
    source.set("zarr.json", b"{}")
    source.set("x", b"12345")
    path = tmp_path / "a/x"
    os.utime(path, (10**9, 10**9))  # else its bytes are compared
    oz.copy(source, target)
    status = os.stat(path)
    if name == "copied":  # another value of the same size and time
        path.write_bytes(b"54321")
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    elif name == "touched":
        os.utime(path, ns=(1, 1))
    elif name == "resized":
        path.write_bytes(b"1234")
    else:
        target.erase("x")
    noticed = {
        compare: oz.copy(source, _copy(target, compare), update=True, compare=compare)
        for compare in ("time", "size", "checksum")
    }
    expected = {
        "copied": (0, 0, 1),
        "touched": (1, 0, 0),
        "resized": (1, 1, 1),
        "missing": (1, 1, 1),
    }[name]
    assert tuple(noticed[c].copied for c in ("time", "size", "checksum")) == expected


def _copy(store: LocalStore, name: str) -> LocalStore:
    root = f"{store.root}-{name}"
    subprocess.run(["cp", "-a", str(store.root), root], check=True)
    return LocalStore(root)


def test_chunks_that_are_gone_are_changes_of_values() -> None:
    source, target = MemoryStore(), MemoryStore()
    array = oz.create_group(source).create_array("a/b", data=np.arange(1, 7), chunks=2)
    oz.copy(source, target)
    array[2:4] = 0  # the fill value
    source.erase("a/b/c/1")
    target.set("a/mine", b"stays")
    target.set("a/b/c/mine", b"goes")
    assert oz.copy(source, target, update=True).erased == 2
    assert oz.open(target)["a/b"][...].tolist() == [1, 2, 0, 0, 5, 6]
    assert values(target) == {**values(source), "a/mine": b"stays"}
    assert oz.copy(source, target, update=True, delete=True).erased == 1
    assert values(target) == values(source)


# Sources that change


class Changes:
    """Changes values of a source just after it was read, while its bytes are on their way."""

    def __init__(self, store: Store, seed: int, patch: pytest.MonkeyPatch) -> None:
        self.store, self.rng, self.left = store, random.Random(seed), 0
        for kind, name in itertools.product(
            (LocalStore, MemoryStore, ObjectStore), ("get", "get_many")
        ):
            if hasattr(kind, name):
                patch.setattr(kind, name, self.after(getattr(kind, name)))
        if transfer._files is not None:
            patch.setattr(transfer, "_files", self)

    def __getattr__(self, name: str) -> Any:
        return getattr(_files, name)

    def copy_many(self, *given: Any) -> Any:
        done = _files.copy_many(*given)
        self.now()
        return done

    def after(self, read: Callable[..., Any]) -> Callable[..., Any]:
        def reads(store: Store, keys: Any, *given: Any) -> Any:
            keys = keys if isinstance(keys, str) else [*keys]
            found = read(store, keys, *given)
            if keys and str(keys if isinstance(keys, str) else keys[0][0]).startswith("s/x/c"):
                self.now()
            return found

        return reads

    def now(self) -> None:
        """Change a few values, none of them in size."""
        while self.left > 0 and self.rng.random() < 0.8:
            self.left -= 1
            self.store.set(f"s/x/c/{self.rng.randrange(3)}", self.rng.randbytes(3))


@pytest.mark.parametrize("new", ["directory", "memory", "bucket"])
@pytest.mark.parametrize("old", ["directory", "memory", "bucket"])
def test_an_update_sees_every_change(
    tmp_path: Path, request: pytest.FixtureRequest, old: str, new: str
) -> None:
    def place(kind: str, name: str) -> Any:
        if kind == "bucket":
            cloud: Cloud = request.getfixturevalue("s3")
            return stores.resolve(f"{cloud.url}/{name}", storage_options=cloud.options)
        return MemoryStore() if kind == "memory" else LocalStore(tmp_path / name)

    for seed in sample(range(4 if "bucket" in (old, new) else 12), 2):
        source, target = place(old, f"a{seed}"), place(new, f"b{seed}")
        array = oz.create_array(source, path="s/x", shape=9, chunks=3, dtype="u1", compressors=None)
        array[...] = range(1, 10)
        with pytest.MonkeyPatch.context() as patch:
            changes = Changes(source, seed, patch)
            for number in range(3):
                changes.left = changes.rng.randrange(4)
                oz.copy(source, target, path="s", update=number > 0)
                changes.left = changes.rng.randrange(3)
                changes.now()
            changes.left = 0
            oz.copy(source, target, path="s", update=True)
        wanted = {key[2:]: source.get(key) for key in stores.list_prefix(source, "s/")}
        assert values(target) == wanted
        again = oz.copy(source, target, path="s", update=True)
        assert again.copied == 0 or (old, new) == ("directory", "bucket")


@pytest.mark.parametrize("times", [1, 10**6])
def test_a_change_during_a_long_upload_is_copied_at_once(
    tmp_path: Path, s3: Cloud, times: int
) -> None:
    source = LocalStore(tmp_path / "a")
    oz.create_array(source, path="s/x", data=np.ones(3, "u1"), chunks=3, compressors=None)
    os.utime(tmp_path / "a/s/x/c/0", (10**9, 10**9))
    options: Any = {"path": "s", "destination_options": s3.options}
    with pytest.MonkeyPatch.context() as patch:
        changes = Changes(source, 0, patch)
        changes.left = times
        shares = itertools.cycle([0.0, 1.0])  # one change after each reading
        patch.setattr(changes.rng, "random", lambda: next(shares))
        patch.setattr(changes.rng, "randrange", lambda _: 0)
        patch.setattr(transfer, "CLOCKS", 0)
        if times > 1:
            with pytest.raises(StoreError, match="is changed faster than it can be copied"):
                oz.copy(source, s3.url, **options)
            return
        patch.setattr(ObjectStore, "set", _late(ObjectStore.set))
        oz.copy(source, s3.url, **options)
        oz.copy(source, s3.url, update=True, **options)
    bucket = stores.resolve(s3.url, storage_options=s3.options)
    assert bucket.get("x/c/0") == source.get("s/x/c/0")


def _late(store: Callable[..., Any]) -> Callable[..., Any]:
    def stores_late(*given: Any) -> None:
        time.sleep(1.1)  # moto's times are those of seconds
        store(*given)

    return stores_late


@pytest.mark.parametrize("files", [True, False])
def test_a_change_within_one_tick_of_the_clock_is_seen(tmp_path: Path, files: bool) -> None:
    source, target = LocalStore(tmp_path / "a"), LocalStore(tmp_path / "b")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transfer, "_files", _files if files else None)
        modified = time.time_ns()
        for value in (b"123", b"456", b"789"):
            source.set("x", value)

            os.utime(tmp_path / "a/x", ns=(modified, modified))
            oz.copy(source, target, update=True)
            assert target.get("x") == value


# Interrupted copies


class Failing(WrapperStore):
    """Fails when so many values were set."""

    left = 10**9

    def set(self, key: str, value: Any) -> None:
        if self.left == 0:
            raise StoreError(f"cannot write {key!r}: no space left on device")
        self.left -= 1
        super().set(key, value)


def test_a_copy_that_fails_is_not_visible_and_can_be_resumed(tmp_path: Path) -> None:
    source = MemoryStore()
    group = oz.create_group(source)
    group.create_array("a/b", data=np.arange(40), chunks=2)
    count = len(values(source))
    for left in range(count + 4):  # with the marker and the journal
        inner = MemoryStore()
        target = Failing(inner)
        target.left = left
        failed = _fails(source, target)
        assert failed or left > count
        if failed:
            with pytest.raises(NodeNotFound) if left <= count else suppress(NodeNotFound):
                oz.open(inner)  # nothing that looks complete, not even a part
            if any(inner.get(f"{path}/zarr.json") is not None for path in ("a", "a/b")):
                np.testing.assert_array_equal(oz.open(inner, path="a/b")[...], np.arange(40))
            if left:
                with pytest.raises(NodeExists, match="is incomplete: the copy of memory was"):
                    oz.copy(source, inner)
            target.left = 10**9
            oz.copy(source, target, resume=True)
        assert values(inner) == values(source)


def _fails(source: Store, target: Store) -> bool:
    """Return True if a copy fails, and says how to go on."""
    error = None
    try:
        oz.copy(source, target)
    except StoreError as e:
        error = e
    if error is None:
        return False
    assert "no space left" in str(error)
    begun = "__omnizarr_incomplete__" not in str(error)
    assert not begun or "resume=True goes on from here" in "".join(error.__notes__)
    return True


def test_an_incomplete_copy_is_completed_by_an_update_or_started_again() -> None:
    source, target = MemoryStore(), MemoryStore()
    fill(source, 7)
    broken = Failing(target)
    broken.left = 3
    with pytest.raises(StoreError, match="no space"):
        oz.copy(source, broken)
    half = dict(target.values)
    oz.copy(source, target, update=True)
    assert values(target) == values(source)
    target.values.clear()
    target.values.update(half)
    target.set("c/rest", b"of another plan")
    oz.copy(source, target, overwrite=True)
    assert values(target) == values(source)


def test_a_hierarchy_is_replaced_when_its_copy_is_complete(tmp_path: Path) -> None:
    source = MemoryStore()
    oz.create_group(source).create_array("a", data=np.arange(40), chunks=2)

    def lost(operation: str, key: str) -> Exception | None:
        wanted = operation.startswith("get") and key == "a/c/7"
        return StoreError("lost the connection") if wanted else None

    for place in (tmp_path / "b.zarr", f"sqlite://{tmp_path}/b.db"):
        oz.create_group(place, attributes={"old": 1}).create_array("b", data=np.ones(4))
        before = values(place)
        with pytest.raises(NodeExists, match=r"is not empty; update=True .* overwrite=True"):
            oz.copy(source, place)
        broken = FaultyStore(source, lost)
        with pytest.raises(StoreError, match="lost the connection") as caught:
            oz.copy(broken, place, overwrite=True)
        assert "is as it was" in "".join(caught.value.__notes__)
        left = stores.resolve(place)
        assert {k: left.get(k) for k in stores.list_prefix(left, "") if OURS not in k} == before
        oz.copy(source, place, overwrite=True)
        oz.repair(place, dry_run=False)
        found = stores.resolve(place)
        assert {k: found.get(k) for k in stores.list_prefix(found, "") if OURS not in k} == values(
            source
        )


def test_what_is_not_zarr_is_never_replaced(tmp_path: Path) -> None:
    fill(tmp_path / "a.zarr", 1)
    (tmp_path / "home").mkdir()
    (tmp_path / "home/letter.txt").write_text("dear")
    with pytest.raises(NodeExists, match="no Zarr node"):
        oz.copy(tmp_path / "a.zarr", tmp_path / "home", overwrite=True)
    oz.create_group(tmp_path / "home")
    with pytest.raises(StoreError, match=r"not Zarr: 'letter\.txt'; nothing was erased"):
        oz.copy(tmp_path / "a.zarr", tmp_path / "home", overwrite=True)
    assert (tmp_path / "home/letter.txt").read_text() == "dear"


# Arguments and places


def test_the_same_or_nested_places_are_refused(tmp_path: Path) -> None:
    fill(tmp_path / "a.zarr", 1)
    before = values(tmp_path / "a.zarr")
    for place in (tmp_path / "a.zarr", tmp_path / "a.zarr/copy", tmp_path):
        with pytest.raises(StoreError, match=r"are both|one is inside the other"):
            oz.copy(tmp_path / "a.zarr", place)
    assert values(tmp_path / "a.zarr") == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"update": True, "overwrite": True}, "not both"),
        ({"delete": True}, "needs update=True"),
        ({"delete": True, "update": True, "include": "a"}, "cannot be combined"),
        ({"compare": "hash"}, "compare must be one of time, size, checksum"),
        ({"include": ""}, "must not be empty"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    options: dict[str, Any], message: str
) -> None:
    source = MemoryStore()
    oz.create_group(source, zarr_format=2)
    with pytest.raises(InvalidArgument, match=message):
        oz.copy(source, {}, **options)


def test_a_place_without_keys_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NodeNotFound, match="nothing to copy"):
        oz.copy(tmp_path / "nothing", {})
    with pytest.raises(NodeNotFound, match="no array or group at /b"):
        oz.copy(fill({}, 1).store, {}, path="b")


def test_one_node_is_copied_alone() -> None:
    source: dict[str, bytes] = {}
    oz.create_group(source).create_array("a/b", data=np.arange(4), chunks=2)
    target: dict[str, bytes] = {}
    assert oz.copy(source, target, path="a/b").copied == 3
    assert oz.open(target)[...].tolist() == [0, 1, 2, 3]
    draft: dict[str, bytes] = {}
    oz.create_group(draft, zarr_format="3-draft").create_array("a", data=np.arange(4))
    with pytest.raises(InvalidArgument, match="copy the whole hierarchy"):
        oz.copy(draft, {}, path="a")
    whole: dict[str, bytes] = {}
    oz.copy(draft, whole)
    assert whole == draft


def test_a_web_server_without_listing_is_asked_chunk_by_chunk(web: Web) -> None:
    source = MemoryStore()
    group = oz.create_group(source)
    group.create_array("a", data=np.arange(6), chunks=2)
    group["a"][2:4] = 0
    group.create_array("b/c", shape=(4, 4), chunks=(2, 2), dtype="i2")
    oz.consolidate_metadata(source)
    assert source.get("a/c/1") is None or source.erase("a/c/1") is None
    web.values.update(source.values)
    target = MemoryStore()
    plan = jobs.Copy(web.url, target).plan()
    assert "does not list its keys" in str(plan)
    oz.copy(web.url, target)
    assert values(target) == values(source)


def test_a_store_of_one_process_is_not_copied_by_others(tmp_path: Path) -> None:
    fill(tmp_path / "a.zarr", 1)
    with pytest.raises(StoreError, match="can be used by one process only"):
        oz.copy(tmp_path / "a.zarr", tmp_path / "b.zip", on="processes", workers=1)


def test_a_faulty_disk_is_noticed_by_verifying() -> None:
    class Faulty(WrapperStore):
        def set(self, key: str, value: Any) -> None:
            super().set(key, value[:-1] + b"!" if key == "a/c/1" else value)

    source = MemoryStore()
    oz.create_group(source).create_array("a", data=np.arange(6), chunks=2)
    with pytest.raises(StoreError, match="a/c/1 in memory is not what was written"):
        oz.copy(source, Faulty(MemoryStore()), verify=True)
    inner = MemoryStore()
    oz.copy(source, Faulty(inner))
    assert oz.copy(source, inner, update=True, compare="size").copied == 0
    assert oz.copy(source, inner, update=True, compare="checksum").copied == 1


@pytest.mark.parametrize(("megabytes", "new"), some_of_each([1, 3, 12], [*PLACES], 2))
def test_a_verified_copy_keeps_to_its_memory(tmp_path: Path, new: str, megabytes: int) -> None:
    source = LocalStore(tmp_path / "source")
    for number in range(4):
        source.set(f"c/{number}", random.Random(number).randbytes(megabytes * 10**6))
    (tmp_path / "new").mkdir()
    target, limit = PLACES[new](tmp_path / "new"), 8
    job = oz.jobs.Copy(source, target, verify=True, memory=f"{limit}MB")
    reports: list[Any] = []
    taken = peak(lambda: reports.append(oz.run(job, workers=2))) / 10**6
    assert reports[0].verified == 4
    held = 4 * megabytes if new == "memory" else 0
    in_parts = new in ("directory", "memory")
    assert taken - held < (limit if in_parts else max(limit, 2 * megabytes)) + 2


@pytest.mark.filterwarnings("ignore:part . of 3 has done its share")
def test_parts_of_a_copy_run_on_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "BATCH", 4)
    oz.create_group(tmp_path / "a.zarr").create_array("a", data=np.arange(40), chunks=1)
    job = jobs.Copy(tmp_path / "a.zarr", tmp_path / "b.zarr")
    oz.run(job, part=(1, 3))
    with pytest.raises(NodeNotFound, match="is incomplete"):
        oz.open(tmp_path / "b.zarr")
    for part in (2, 3, 1, 2, 3):  # another round for the metadata
        oz.run(job, part=(part, 3))
    assert values(tmp_path / "b.zarr") == values(tmp_path / "a.zarr")
    assert [*(tmp_path / "b.zarr").glob(".__omnizarr*")] == []


def test_a_listing_that_does_not_fit_into_memory_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path / "a.zarr", 4)
    monkeypatch.setattr(module, "LISTED", 3)
    plan = jobs.Copy(tmp_path / "a.zarr", tmp_path / "b.zarr").plan()
    assert plan.phases[0].count is None
    oz.copy(tmp_path / "a.zarr", tmp_path / "b.zarr")
    assert values(tmp_path / "b.zarr") == values(tmp_path / "a.zarr")


def test_an_interrupted_update_that_is_overwritten_stays_until_the_swap(tmp_path: Path) -> None:
    for name in ("a", "b"):
        oz.create_group(tmp_path / name).create_array("x", data=np.arange(9), chunks=1)
    marker = tmp_path / "b" / MARKER
    marker.write_bytes(Mark("another copy", "another plan", kind=Kind.UPDATE).write())
    before = np.asarray(oz.open(tmp_path / "b")["x"])
    with pytest.raises(KeyboardInterrupt):
        oz.copy(tmp_path / "a", tmp_path / "b", overwrite=True, progress=interrupt_after(0))
    assert np.array_equal(oz.open(tmp_path / "b")["x"], before)
    oz.copy(tmp_path / "a", tmp_path / "b", overwrite=True)
    assert oz.diff(tmp_path / "a", tmp_path / "b").equal
    assert not marker.exists()


@pytest.mark.parametrize("delete", [False, True])
def test_a_bucket_is_compared_by_its_listing(delete: bool, tmp_path: Path, s3: Cloud) -> None:
    source, data = tmp_path / "x.zarr", np.arange(400).reshape(20, 20)
    oz.create_array(source, path="a", data=data, chunks=(2, 10))
    oz.create_array(source, path="b/c", data=data, chunks=(10, 2))
    for path in source.rglob("*"):
        os.utime(path, (1, 1))  # the server's clock has seconds
    oz.copy(source, s3.url, destination_options=s3.options)
    shutil.rmtree(source / "a/c/3")
    oz.open(source, path="b/c", mode="r+")[3:5, 7:9] = 0
    bucket = stores.resolve(s3.url, storage_options=s3.options)
    bucket.set("b/notes", b"1")
    s3.server.log.clear()
    result = oz.copy(source, s3.url, update=True, delete=delete, destination_options=s3.options)
    assert (result.copied, result.erased) == (2, 2 + delete)
    asked = [path for method, path, _ in s3.server.log if method == "HEAD"]
    assert not [path for path in asked if "/c/" in path]  # the listing has told
    assert values(bucket) == {**values(source), **({} if delete else {"b/notes": b"1"})}


def test_overwriting_an_interrupted_copy_leaves_nothing_of_it(tmp_path: Path) -> None:
    """The journal of the first copy stayed for good."""
    oz.save(tmp_path / "a", x=np.arange(6))
    to = stores.resolve(f"local://{tmp_path}/b")
    oz.copy(tmp_path / "a", to)
    mark = Mark("the copy", "plan", "0123", kind=Kind.COPY)
    to.set(marker(""), mark.write())
    to.set(f"{JOURNAL}/{mark.attempt}/1-00", b"{}")
    oz.copy(tmp_path / "a", to, overwrite=True)
    assert not [key for key in stores.list_prefix(to, "") if OURS in key]


def test_an_update_of_an_array_at_the_root_erases_its_chunks_only() -> None:
    source = oz.create_array({}, data=np.arange(6), chunks=2, fill_value=7)
    target: dict[str, bytes] = {}
    oz.copy(source.store, target)
    target |= {"README.txt": b"mine", "c/notes.txt": b"mine", "2024": b"mine"}
    source[2:4] = 7
    assert source.nchunks_initialized == 2
    found = oz.copy(source.store, target, update=True)
    assert found.erased == 1
    assert sorted(target) == ["2024", "README.txt", "c/0", "c/2", "c/notes.txt", "zarr.json"]


def test_a_dry_run_counts_each_document_that_it_would_erase_once() -> None:
    source, target = oz.create_group({}), oz.create_group({})
    target.create_array("a", data=np.arange(2), chunks=1)
    for dry_run in (True, False):
        job = jobs.Copy(source.store, target.store, update=True, delete=True, dry_run=dry_run)
        assert oz.run(job).erased == 2
