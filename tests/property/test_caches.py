"""Caches return nothing that belongs to unequal input, and nothing that callers can change."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr import storage, stores
from omnizarr._json import freeze
from omnizarr.concurrency.cache import clear_all, typed_key
from omnizarr.data_types import value_key
from omnizarr.interop.zarr.zarr_python import from_zarr, to_zarr
from omnizarr.model import Named
from omnizarr.publish.publication import DeferredMetadataStore
from omnizarr.stores import LocalStore, MemoryStore
from omnizarr.stores.fsspec import FsspecStore
from omnizarr.stores.identity import key_digest, portable_key, unique_key
from omnizarr.testing import RecordingStore
from tests.property.strategies import FORMATS, bits, described, json_values, regular

# Keys


def spelled(value: Any) -> Any:
    """Return a value with all its types and bits, independent of the library's keys."""
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, Named):
        return [name, value.name, spelled(value.must_understand), spelled(value.configuration)]
    if isinstance(value, dict):
        return ["dict", [[spelled(k), spelled(v)] for k, v in value.items()]]
    if isinstance(value, (list, tuple)):
        return [
            "tuple" if isinstance(value, tuple) else "list",
            [spelled(item) for item in value],
        ]
    if isinstance(value, (np.generic, np.ndarray)):
        return [name, value.dtype.str, list(value.shape), value.tobytes().hex()]
    if isinstance(value, np.dtype):
        return ["dtype", value.str, str(value.descr)]
    if isinstance(value, float):
        return [name, np.float64(value).tobytes().hex()]
    if isinstance(value, complex):
        return [name, np.complex128(value).tobytes().hex()]
    return [name, repr(value)]


NUMBERS = st.sampled_from((0, 1, 2, 255, -1))
SCALARS = st.builds(
    lambda kind, number: np.array(number, "i8").astype(kind)[()],
    st.sampled_from(("i1", "u1", "i4", ">i4", "f4", "f8", "?", "M8[s]", "M8[D]", "m8[s]", "c8")),
    NUMBERS,
)
LEAVES = st.one_of(
    NUMBERS,
    st.booleans(),
    st.none(),
    NUMBERS.map(float),
    st.sampled_from((0.0, -0.0, float("nan"), -float("nan"), float("inf"), 1e300)),
    NUMBERS.map(complex),
    st.sampled_from(("", "1", "True", "None", "a", "b'a'", "nan")),
    st.sampled_from((b"", b"1", b"a")),
    SCALARS,
    SCALARS.map(lambda scalar: np.array([scalar])),
    st.sampled_from((int, float, bool, str, np.int8)),
    st.sampled_from([np.dtype(t) for t in ("i4", ">i4", "M8[s]", "M8[7D]", "M8[W]")]),
    st.sampled_from((timedelta(seconds=1), timedelta(days=1))),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.sampled_from(("a", "b", "1")), inner, max_size=3),
        st.builds(
            Named,
            st.sampled_from(("a", "a(b=1)", "bytes")),
            st.dictionaries(st.sampled_from(("a", "b")), inner, max_size=2),
            st.booleans(),
        ),
    ),
    max_leaves=6,
)


@given(VALUES, VALUES)
@example(1, True)
@example([1, 2], (1, 2))
@example([[1], 2], [[1, 2]])
@example({"a": 1, "b": 2}, {"a": {"b": 2}})
@example(Named("a", {}, False), Named("a"))
@example(np.int8(-1), np.uint8(255))
def test_keys_are_equal_exactly_if_values_are(one: Any, other: Any) -> None:
    """A2, A3: a key distinguishes types, signs, units and payloads at every depth."""
    same = spelled(one) == spelled(other)
    assert (value_key(one) == value_key(other)) == same
    assert value_key(copy.deepcopy(one)) == value_key(one)
    assert hash(value_key(one)) == hash(value_key(copy.deepcopy(one)))


def test_a_value_that_cannot_be_compared_has_no_key() -> None:
    class Number(int):
        pass

    loop: list[Any] = []
    loop.append(loop)
    objects = np.array([1], object), np.dtype("i4", metadata={"a": 1}), Number(1), object(), loop
    for value in (*objects, "x" * 10_000, [0] * 10_000, np.zeros(10_000), b"x" * 10_000):
        assert value_key(value) is None
        assert typed_key({"a": value}) is None


# Caches


def made(given: Any, *, alone: bool) -> tuple[Any, ...]:
    """Create an array from a description, with empty caches if `alone`."""
    if alone:
        clear_all()
    store: dict[str, bytes] = {}
    array = given.create(store)
    return store, bits(array[...]), bits(np.array(array.fill_value)), str(array.metadata)


@pytest.mark.filterwarnings("ignore::omnizarr.errors.OmnizarrWarning")
@pytest.mark.parametrize("format", FORMATS)
@given(data=st.data())
def test_an_array_does_not_depend_on_arrays_created_before(
    format: Any, data: st.DataObject
) -> None:
    """A2, A3: arrays share a model, pipeline or text only if these are equal."""
    one = data.draw(described(format, most=3))
    other = data.draw(described(format, most=3))
    expected = made(one, alone=True), made(other, alone=True)
    clear_all()
    for _ in range(2):
        assert made(one, alone=False) == expected[0]
        assert made(other, alone=False) == expected[1]


# Objects that callers get


def change_all(value: Any) -> None:
    """Change everything that a caller can change in returned objects."""
    if isinstance(value, dict):
        for inner in list(value.values()):
            change_all(inner)
        attempt(lambda: value.update(changed=True))
    elif isinstance(value, list):
        for inner in list(value):
            change_all(inner)
        attempt(lambda: value.append("changed"))
    elif isinstance(value, tuple):
        for inner in value:
            change_all(inner)
    elif isinstance(value, Named):
        change_all(value.configuration)
    elif isinstance(value, np.dtype):
        if value.names is not None:
            for name in value.names:
                change_all(value[name])
            value.names = tuple(f"changed{i}" for i in range(len(value.names)))
    elif isinstance(value, (np.ndarray, np.void)):
        if isinstance(value, np.ndarray) and value.dtype.hasobject:
            change_all(value.reshape(-1).tolist())
        elif value.dtype.names is not None or isinstance(value, np.ndarray):
            attempt(lambda: overwrite(value))
        change_all(value.dtype)


def overwrite(value: Any) -> None:
    """Replace every item by another one of its type."""
    if value.dtype.kind in "TO":
        return
    other = regular(np.full(value.nbytes, 1, np.uint8), value.dtype)
    if isinstance(value, np.void):
        for name in value.dtype.names or ():
            value[name] = other[0][name]
    else:
        value[...] = other.reshape(value.shape)


def attempt(change: Callable[[], None]) -> None:
    with suppress(TypeError, ValueError, AttributeError):  # refused, which is as good
        change()


def shown(store: dict[str, bytes]) -> tuple[Any, ...]:
    """Return everything that an opened array shows."""
    array = oz.open(store)
    assert isinstance(array, oz.Array)
    return (
        *(bits(array[...]), array.dtype, str(array.metadata), array.attrs.asdict()),
        *(array.metadata.to_dict(), repr(array.codecs), bits(np.array(array.fill_value))),
    )


HANDED_OUT: dict[str, Callable[[oz.Array], Any]] = {
    "dtype": lambda a: a.dtype,
    "fill_value": lambda a: a.fill_value,
    "attrs": lambda a: a.attrs.asdict(),
    "attrs.values": lambda a: list(a.attrs.values()),
    "codecs": lambda a: a.codecs,
    "metadata.attributes": lambda a: a.metadata.attributes,
    "metadata.to_dict": lambda a: a.metadata.to_dict(),
    "metadata.documents": lambda a: a.metadata.documents(),
    "metadata.codecs": lambda a: a.metadata.codecs,
    "metadata.extra": lambda a: a.metadata.extra,
    "metadata.chunk_grid": lambda a: a.metadata.chunk_grid,
    "metadata.data_type": lambda a: a.metadata.data_type,
    "metadata.fill_value": lambda a: a.metadata.fill_value.json,
    "metadata.model": lambda a: [
        *(a.metadata.model.attributes, a.metadata.model.extra, a.metadata.model.codecs),
        *(a.metadata.model.data_type, a.metadata.model.fill_value.json),
    ],
    "all values": lambda a: a[...],
    "a view": lambda a: a.lazy[...].read() if hasattr(a, "lazy") else None,
    "one value": lambda a: a[(0,) * a.ndim] if a.size else None,
    "settings": lambda a: a.config,
}


@pytest.mark.filterwarnings("ignore::omnizarr.errors.OmnizarrWarning")
@pytest.mark.parametrize("format", FORMATS)
@given(data=st.data())
def test_changing_returned_objects_changes_no_other_array(format: Any, data: st.DataObject) -> None:
    """A6, A7: callers own fill values, types, metadata, attributes and results."""
    made_from = data.draw(described(format, most=2))
    attributes = {"list": [1, {"deep": [2]}], "dict": {"a": {"b": 1}}, "text": "x"}
    stores: list[dict[str, bytes]] = [{}, {}]
    first, second = (made_from.create(s, attributes=copy.deepcopy(attributes)) for s in stores)
    before = shown(stores[1])
    for get in HANDED_OUT.values():
        for array in (first, oz.open(stores[0])):
            change_all(get(array))  # type: ignore[arg-type]
    assert repr(shown(stores[1])) == repr(before)
    assert repr(shown(stores[0])) == repr(before)
    assert bits(second[...]) == before[0]
    second.attrs["new"] = 1  # which stores the whole document
    assert oz.open(stores[1]).attrs == {**attributes, "new": 1}


@given(json_values())
def test_fill_values_that_are_objects_cannot_be_changed(value: Any) -> None:
    """A6: all elements of missing chunks are the same object, the fill value."""
    assume(value is not None)
    stores: list[dict[str, bytes]] = [{}, {}]
    arrays = [
        oz.create_array(
            store,
            shape=(2,),
            dtype=object,
            fill_value=freeze(value),
            zarr_format=2,
            filters=[{"id": "json2"}],
        )
        for store in stores
    ]
    found: npt.NDArray[Any] = arrays[0][...]
    before = json.dumps(arrays[1][...].tolist())
    change_all(found.tolist())
    change_all(arrays[0].fill_value)
    assert json.dumps(arrays[1][...].tolist()) == before


# Stores


def stores_of(folder: Path) -> list[tuple[str, Callable[[], Any]]]:
    """Return stores with different contents; each can be created again."""
    files = fsspec.filesystem("file")
    other = {"endpoint": "http://127.0.0.1:1", "anonymous": True}
    account = {"endpoint": "http://127.0.0.1:2/a", "anonymous": True}
    web = "http://127.0.0.1:3/data"
    return [
        ("folder", lambda: LocalStore(folder / "a")),
        ("folder b", lambda: LocalStore(folder / "b")),
        ("nested", lambda: stores.NestedDirectoryStore(folder / "a")),
        ("inside", lambda: storage.PrefixStore(LocalStore(folder / "a"), "p")),
        ("archive", lambda: storage.ZipStore(folder / "a.zip")),
        ("in a store", lambda: storage.ZipStore.inside(LocalStore(folder / "a"), "x.zip")),
        ("in another", lambda: storage.ZipStore.inside(LocalStore(folder / "b"), "x.zip")),
        ("sqlite", lambda: stores.resolve(f"sqlite://{folder}/a.db")),
        ("sqlite b", lambda: stores.resolve(f"sqlite://{folder}/b.db")),
        ("web", lambda: stores.resolve(web)),
        ("query", lambda: stores.resolve(f"{web}?a=1")),
        ("query 2", lambda: stores.resolve(f"{web}?a=2")),
        ("headers", lambda: stores.resolve(web, storage_options={"headers": {"a": "1"}})),
        ("path", lambda: stores.resolve(f"{web}/p")),
        ("bucket", lambda: stores.resolve("s3://b/p", storage_options=other)),
        ("prefix", lambda: stores.resolve("s3://b/q", storage_options=other)),
        ("name", lambda: stores.resolve("s3://c/p", storage_options=other)),
        ("endpoint", lambda: stores.resolve("s3://b/p", storage_options=account)),
        ("fsspec", lambda: FsspecStore(files, path=str(folder / "a"))),
        ("one", lambda: stores.resolve("reference://", storage_options={"fo": {"k": "1"}})),
        ("two", lambda: stores.resolve("reference://", storage_options={"fo": {"k": "2"}})),
    ]


def in_memory() -> list[Any]:
    """Return stores of which each object has its own contents."""
    values: dict[str, bytes] = {}
    return [
        MemoryStore(),
        MemoryStore({}),
        storage.PrefixStore(MemoryStore(values), "a"),
        storage.ReadOnlyStore(MemoryStore(values)),
        from_zarr(to_zarr(MemoryStore())),
        DeferredMetadataStore(LocalStore("a"), lambda key: True, "hidden"),
        RecordingStore(LocalStore("a")),
        type("Own", (LocalStore,), {})("a"),
        type("Own", (LocalStore,), {})("a"),
    ]


def test_different_stores_have_different_identities(tmp_path: Path) -> None:
    """A5, A10: an identity is complete, and equal for all objects of one location."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / f"{name}.db").touch()
    made = {name: make() for name, make in stores_of(tmp_path)}
    found = {name: unique_key(store) for name, store in made.items()}
    assert len({*found.values()}) == len(found)
    assert {name: unique_key(make()) for name, make in stores_of(tmp_path)} == found
    assert {name: portable_key(pickle.loads(pickle.dumps(s))) for name, s in made.items()} == found
    living = in_memory()
    assert {portable_key(store) for store in living} == {None}
    assert len({unique_key(store) for store in living}) == len(living)
    assert [unique_key(s) for s in living] == [unique_key(s) for s in living]
    texts = [key_digest(key) for key in (*found.values(), *map(unique_key, living))]
    assert len({*texts}) == len(texts)


def test_an_object_at_a_reused_address_has_another_identity() -> None:
    """A5: Python uses the addresses of deleted objects again, also where no callback can run."""

    def delete(living: list[MemoryStore]) -> None:
        try:
            delete(living)
        except RecursionError:
            living.clear()

    seen = {unique_key(MemoryStore({})) for _ in range(100)}
    for _ in range(100):
        living = [MemoryStore({})]
        seen.add(unique_key(living[0]))
        delete(living)
    assert len(seen) == 200


@given(json_values())
def test_settings_cannot_be_changed_through_given_or_returned_lists(value: Any) -> None:
    """A7: the codecs of new arrays are a setting."""
    given = [{"name": "bytes", "configuration": {"some": value}}]
    before = json.dumps(given)
    with oz.configure(codecs=given):
        change_all(given)
        change_all(list(oz.config.get("codecs")))
        change_all(oz.config.get().codecs)
        assert json.dumps(list(oz.config.get("codecs"))) == before
