"""Repositories of icechunk: read by URL, written through sessions."""

from __future__ import annotations

import pickle
from functools import partial
from pathlib import Path
from typing import Any

import icechunk
import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.errors import ReadOnly, StoreError
from omnizarr.interop.zarr.zarr_python import RepositoryStore, from_zarr
from omnizarr.storage import PrefixStore
from omnizarr.stores import resolve
from omnizarr.stores.identity import storage_identity
from omnizarr.stores.wrappers import WrapperStore
from tests.parallel import together
from tests.servers.fixtures import Cloud
from tests.stores.test_identity import same_storage

DATA = np.arange(60).reshape(6, 10)


def make(storage: icechunk.Storage) -> tuple[icechunk.Repository, list[str]]:
    """Return a repository and its snapshots: zeros, tagged, then `DATA`, both on main."""
    repository = icechunk.Repository.create(storage)
    session = repository.writable_session("main")
    oz.create_array(session.store, path="g/a", data=np.zeros_like(DATA), chunks=(4, 4))
    first = session.commit("zeros")
    repository.create_tag("v0", first)
    repository.create_branch("old", first)
    session = repository.writable_session("main")
    oz.open(session.store, mode="r+", path="g/a")[...] = DATA
    return repository, [first, session.commit("values")]


@pytest.fixture
def repository(tmp_path: Path) -> tuple[icechunk.Repository, list[str]]:
    return make(icechunk.local_filesystem_storage(str(tmp_path / "r")))


def test_a_url_reads_a_branch_a_tag_or_a_snapshot(
    repository: tuple[icechunk.Repository, list[str]], tmp_path: Path
) -> None:
    url, (first, second) = f"icechunk://{tmp_path}/r", repository[1]
    assert np.array_equal(oz.open(url)["g/a"][...], DATA)
    for options, sum_ in (
        ({"branch": "main"}, DATA.sum()),
        ({"branch": "old"}, 0),
        ({"tag": "v0"}, 0),
        ({"snapshot": first}, 0),
        ({"snapshot": second}, DATA.sum()),
    ):
        found = oz.open(url, path="g/a", storage_options=options)
        assert found[...].sum() == sum_
        assert found.store.snapshot in repr(found.store)
    group = oz.open(url)
    assert [name for name, _ in group.members(max_depth=None)] == ["g", "g/a"]
    assert oz.verify(url).ok


def test_a_relative_url_is_below_the_working_directory(
    repository: tuple[icechunk.Repository, list[str]], in_tmp: Path
) -> None:
    for url in ("icechunk://r", f"icechunk::file://{in_tmp}/r"):
        assert oz.open(url, path="g/a")[5, 9] == 59


def test_a_url_stays_at_its_snapshot(
    repository: tuple[icechunk.Repository, list[str]], tmp_path: Path
) -> None:
    url = f"icechunk://{tmp_path}/r"
    before = oz.open(url, path="g/a")
    session = repository[0].writable_session("main")
    oz.open(session.store, mode="r+", path="g/a")[0, 0] = 77
    session.commit("more")
    assert before[0, 0] == 0
    assert oz.open(url, path="g/a")[0, 0] == 77


def test_a_url_is_not_written_and_says_how_to_write(
    repository: tuple[icechunk.Repository, list[str]], tmp_path: Path
) -> None:
    url = f"icechunk://{tmp_path}/r"
    array = oz.open(url, mode="r+", path="g/a")
    with pytest.raises(ReadOnly, match="writable_session"):
        array[0, 0] = 1
    with pytest.raises(ReadOnly, match="writable_session"):
        oz.create_array(url, path="b", data=DATA)
    for change in (
        lambda: array.store.set("b/zarr.json", b"{}"),
        lambda: array.store.erase("g/a/zarr.json"),
        lambda: array.store.erase_prefix("g/"),
    ):
        with pytest.raises(ReadOnly, match="writable_session"):
            change()
    assert np.array_equal(oz.open(url, path="g/a")[...], DATA)


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        (
            "icechunk://r",
            {"branch": "main", "tag": "v0"},
            "Must provide one of branch, tag, or snapshot_id",
        ),
        ("icechunk://r", {"branch": "x"}, "with {'branch': 'x'}: .*not found"),
        ("icechunk://r", {"tag": "x"}, "with {'tag': 'x'}"),
        ("icechunk://r", {"snapshot": "x"}, "with {'snapshot': 'x'}"),
        ("icechunk://r", {"region": "x"}, "unknown storage, or options .'region'"),
        ("icechunk://missing", {}, "No such file or directory"),
        ("icechunk://empty", {}, "cannot open the icechunk repository 'icechunk://empty'"),
        ("icechunk::ftp://host/x", {}, "unknown storage"),
        ("icechunk::s3://bucket/x", {"colour": "red"}, "colour"),
    ],
)
def test_an_unusable_url_is_an_error(
    repository: tuple[icechunk.Repository, list[str]],
    in_tmp: Path,
    url: str,
    options: dict[str, Any],
    message: str,
) -> None:
    (in_tmp / "empty").mkdir()
    with pytest.raises(StoreError, match=message):
        oz.open(url, storage_options=options)
    assert {path.name for path in in_tmp.iterdir()} == {"r", "empty"}
    assert not list((in_tmp / "empty").iterdir())


def test_a_store_of_a_url_is_pickled(
    repository: tuple[icechunk.Repository, list[str]], tmp_path: Path
) -> None:
    store = resolve(f"icechunk://{tmp_path}/r")
    again = pickle.loads(pickle.dumps(store))
    assert type(again) is RepositoryStore
    assert oz.open(again, path="g/a")[5, 9] == 59
    assert same_storage(store, again)


def test_a_repository_in_a_bucket_is_read(s3: Cloud) -> None:
    options = {
        "endpoint_url": s3.server.url,
        "region": "us-east-1",
        "allow_http": True,
        "force_path_style": True,
        "access_key_id": "key",
        "secret_access_key": "secret",
    }
    bucket = s3.url.removeprefix("s3://")
    _, (first, _) = make(icechunk.s3_storage(bucket=bucket, prefix="in/side", **options))
    url = f"icechunk::{s3.url}/in/side"
    assert np.array_equal(oz.open(url, storage_options=options)["g/a"][...], DATA)
    options["snapshot"] = first
    assert not oz.open(url, storage_options=options)["g/a"][...].any()


def test_a_repository_is_copied_and_converted(
    repository: tuple[icechunk.Repository, list[str]], tmp_path: Path
) -> None:
    url = f"icechunk://{tmp_path}/r"
    oz.convert(url, tmp_path / "v2.zarr", zarr_format=2)
    assert np.array_equal(oz.open(tmp_path / "v2.zarr")["g/a"][...], DATA)
    session = repository[0].writable_session("main")
    target = oz.open(session.store, mode="r+")
    target["b"] = oz.open(tmp_path / "v2.zarr", path="g/a")
    session.commit("copied")
    assert np.array_equal(oz.open(url)["b"][...], DATA)
    with pytest.raises(StoreError, match="inside the other"):
        oz.copy(resolve(url), tmp_path / "r")


def test_stores_of_one_session_are_one_storage() -> None:
    repository, _ = make(icechunk.in_memory_storage())
    session = repository.writable_session("main")
    one, other = resolve(session.store), resolve(session.store)
    assert same_storage(one, other)
    assert storage_identity(one, "g/") == storage_identity(other, "g/")
    assert not same_storage(one, resolve(repository.writable_session("main").store))


def test_threads_change_parts_of_one_chunk() -> None:
    repository, _ = make(icechunk.in_memory_storage())
    session = repository.writable_session("main")
    oz.create_array(session.store, path="c", shape=64, chunks=64, dtype="i4")

    def fill(n: int) -> None:
        array = oz.open(session.store, mode="r+", path="c")
        for i in range(n * 8, n * 8 + 8):
            array[i] = i

    together(*(partial(fill, n) for n in range(8)))
    assert oz.open(session.store, path="c")[...].tolist() == list(range(64))


def test_a_dataset_is_written_and_appended_to(tmp_path: Path) -> None:
    import xarray as xr

    import omnizarr.xarray  # noqa: F401 - the accessor

    repository = icechunk.Repository.create(icechunk.local_filesystem_storage(str(tmp_path / "r")))
    data = xr.Dataset({"t": (("time", "x"), np.arange(20.0).reshape(5, 4))}, {"time": np.arange(5)})
    for part in (data.isel(time=slice(0, 2)), data.isel(time=slice(2, 5))):
        session = repository.writable_session("main")
        first = "t" not in oz.open(session.store, mode="a")
        part.omnizarr.to(session.store, **({"mode": "w"} if first else {"append_dim": "time"}))
        session.commit("part")
    found = xr.open_dataset(f"icechunk://{tmp_path}/r", engine="omnizarr")
    xr.testing.assert_equal(found.load(), data)


def test_a_session_behind_another_store_is_written() -> None:
    repository, _ = make(icechunk.in_memory_storage())
    session = repository.writable_session("main")
    whole = from_zarr(session.store)
    before = {*whole.list_prefix("")}
    for part in (PrefixStore(whole, "g"), WrapperStore(PrefixStore(whole, "g"))):
        for size in (5, 7):
            oz.create_array(part, path="b", data=np.arange(size), chunks=4, overwrite=True)
        assert oz.open(session.store, path="g/b")[...].tolist() == [*range(7)]
    new = {"g/b/zarr.json", "g/b/c/0", "g/b/c/1"}
    assert {*whole.list_prefix("")} - {"g/zarr.json"} == {*before, *new} - {"g/zarr.json"}


def test_a_listing_of_what_is_no_node_is_empty_and_other_failures_are_errors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    repository, _ = make(icechunk.in_memory_storage())
    store: Any = from_zarr(repository.readonly_session("main").store)
    assert [*store.list_prefix("none/")] == []
    assert store.list_dir("none/") == ([], [])

    def fails(prefix: str) -> Any:
        raise icechunk.IcechunkError("the network is down")

    monkeypatch.setattr(store._lists, "list_prefix", fails)
    with pytest.raises(oz.StoreError, match="the network is down"):
        [*store.list_prefix("")]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.integers(0, 11), st.integers(0, 11), st.integers(-99, 99)),
        st.tuples(st.just("resize"), st.integers(1, 12)),
        st.tuples(st.just("append"), st.integers(1, 5)),
        st.tuples(st.just("replace"), st.integers(1, 12)),
        st.tuples(st.just("attribute"), st.integers()),
        st.tuples(st.just("commit")),
        st.tuples(st.just("discard")),
    ),
    max_size=12,
)


@given(STEPS, st.booleans())
def test_a_session_agrees_with_numpy(steps: list[tuple[Any, ...]], sharded: bool) -> None:
    """What is committed is there for both libraries, what is discarded is not."""
    repository = icechunk.Repository.create(icechunk.in_memory_storage())
    session = repository.writable_session("main")
    options: dict[str, Any] = {"chunks": 2, "shards": 4} if sharded else {"chunks": 3}
    expected, attributes = np.arange(7), {}
    array = oz.create_array(session.store, path="g/a", data=expected, **options)
    session.commit("start")
    kept = expected.copy(), {}
    session = repository.writable_session("main")
    array = oz.open(session.store, mode="r+", path="g/a")
    for step in steps:
        match step:
            case ("set", start, stop, value):
                expected[start:stop] = value
                array[start:stop] = value
            case ("resize", size):
                grown = np.zeros(size, expected.dtype)
                grown[: len(expected)] = expected[:size]
                expected = grown
                array.resize(size, outside="erase")
            case ("append", size):
                array.append(np.arange(size))
                expected = np.concatenate([expected, np.arange(size)])
            case ("replace", size):
                expected, attributes = np.arange(size) * 3, {}
                array = oz.create_array(
                    session.store, path="g/a", data=expected, overwrite=True, **options
                )
                expected = expected.copy()
            case ("attribute", value):
                array.attrs["n"] = value
                attributes = {"n": value}
            case ("commit",):
                if session.has_uncommitted_changes:
                    session.commit("step")
                kept = expected.copy(), attributes
                session = repository.writable_session("main")
                array = oz.open(session.store, mode="r+", path="g/a")
            case _:
                session = repository.writable_session("main")  # `discard_changes` breaks it
                expected, attributes = kept[0].copy(), kept[1]
                array = oz.open(session.store, mode="r+", path="g/a")
        assert np.array_equal(array[...], expected)
    reading = repository.readonly_session("main").store
    ours, theirs = oz.open(reading, path="g/a"), zarr.open_array(reading, path="g/a")
    assert np.array_equal(ours[...], kept[0])
    assert np.array_equal(theirs[...], kept[0])
    assert dict(ours.attrs) == kept[1] == dict(theirs.attrs)
