"""Zarr version 2: the worked examples on several stores, and conversion of version 1."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from tests.conformance.key_value import KeyValueStore
from tests.conformance.printed_examples import run_printed
from tests.conformance.v2_metadata import ZARRAY

ZATTRS = """\
{
    "bar": "apples",
    "baz": [
        1,
        2,
        3,
        4
    ],
    "foo": 42
}"""


def files(root: Path) -> dict[str, bytes]:
    """Return the keys and values of a directory."""
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def both_examples(array_store: Any, group_store: Any) -> None:
    """Run the two worked examples on any stores."""
    a = oz.create_array(
        array_store,
        shape=(20, 20),
        chunks=(10, 10),
        dtype="i4",
        fill_value=42,
        compressors=oz.codecs.Zlib(level=1),
        zarr_format=2,
    )
    a[0:10, 0:10] = 1
    a[0:10, 10:20] = 2
    a[10:20, :] = 3
    a.attrs["foo"] = 42
    a.attrs["bar"] = "apples"
    a.attrs["baz"] = [1, 2, 3, 4]
    root = oz.open(group_store, "a", zarr_format=2)
    b = root.create_group("foo").create_array("bar", shape=(20, 20), chunks=(10, 10))
    b[:] = 42
    b.attrs["comment"] = "answer to life, the universe and everything"


@pytest.mark.shows("V2-01", "V2-46", "V2-58", "V2-60", "V2-61", "V2-62", "V2-65")
def test_a_directory_a_dictionary_and_a_key_value_store_hold_the_same_bytes(
    tmp_path: Path,
) -> None:
    array: dict[str, bytes] = {}
    group: dict[str, bytes] = {}
    both_examples(array, group)
    both_examples(oz.storage.LocalStore(tmp_path / "a"), oz.storage.LocalStore(tmp_path / "g"))
    small_array, small_group = KeyValueStore(), KeyValueStore()
    both_examples(small_array, small_group)
    assert sorted(array) == [".zarray", ".zattrs", "0.0", "0.1", "1.0", "1.1"]
    assert array[".zarray"].decode() == ZARRAY
    assert array[".zattrs"].decode() == ZATTRS
    assert np.frombuffer(zlib.decompress(array["0.0"]), "<i4").tolist() == [1] * 100
    names = (".zarray", ".zattrs", "0.0", "0.1", "1.0", "1.1")
    assert sorted(group) == [".zgroup", "foo/.zgroup", *(f"foo/bar/{n}" for n in names)]
    assert files(tmp_path / "a") == small_array.values == array
    assert files(tmp_path / "g") == small_group.values == group


# The worked examples


@pytest.mark.shows("V2-58", "V2-59", "V2-60", "V2-61", "V2-62")
def test_the_example_of_one_array_runs_as_printed(in_tmp: Path) -> None:
    for _ in range(2):  # the second time over the first
        assert run_printed(ONE_ARRAY) == ONE_ARRAY.count(">>>")
    folder = in_tmp / "data" / "example.zarr"
    assert (folder / ".zarray").read_text() == ZARRAY
    assert (folder / ".zattrs").read_text() == ZATTRS
    raw = zlib.decompress((folder / "0.0").read_bytes())
    assert np.frombuffer(raw, "<i4").tolist() == [1] * 100
    expected = np.full((20, 20), 3)
    expected[:10] = np.repeat([1, 2], 10)
    np.testing.assert_array_equal(oz.open(folder)[:], expected)


@pytest.mark.shows("V2-63", "V2-64", "V2-65")
def test_the_example_of_a_hierarchy_in_a_directory_runs_as_printed(in_tmp: Path) -> None:
    for _ in range(2):
        assert run_printed(HIERARCHY) == HIERARCHY.count(">>>")
    root = oz.open("data/group.zarr")
    bar = root["foo/bar"]
    assert json.loads(Path("data/group.zarr/foo/bar/.zarray").read_text())["dtype"] == "<f8"
    assert (bar.dtype, bar.shape, bar.chunks) == (np.dtype("<f8"), (20, 20), (10, 10))
    np.testing.assert_array_equal(bar[:], np.full((20, 20), 42.0))
    assert dict(bar.attrs) == {"comment": "answer to life, the universe and everything"}


# From version 1


@pytest.mark.shows("V2-69")
def test_version_1_becomes_version_2_by_its_metadata_alone(tmp_path: Path) -> None:
    options: dict[str, Any] = {"zarr_format": 1, "compressors": oz.codecs.Zlib(level=1)}
    oz.create_array(tmp_path, shape=(20, 20), chunks=(10, 10), dtype="i4", fill_value=42, **options)
    z = oz.open(tmp_path, mode="r+")
    z[0:10, 0:10] = 1
    z[10:20, :] = 3
    z.attrs.update(foo=42, bar="apples", baz=[1, 2, 3, 4])
    expected = z[:]
    chunks = {n: (tmp_path / n).stat() for n in os.listdir(tmp_path) if n[0].isdigit()}
    before = files(tmp_path)
    oz.convert(tmp_path, in_place=True, zarr_format=2)
    after = files(tmp_path)
    assert after.pop(".zarray").decode() == ZARRAY
    assert after.pop(".zattrs").decode() == ZATTRS
    assert after == before
    assert sorted(chunks) == ["0.0", "1.0", "1.1"]
    for name, old in chunks.items():
        new = (tmp_path / name).stat()
        assert (new.st_mtime_ns, new.st_ino) == (old.st_mtime_ns, old.st_ino)
    np.testing.assert_array_equal(oz.open(tmp_path, zarr_format=2)[:], expected)
    # Once the old documents are gone, nothing is left of version 1.
    for name in ("meta", "attrs"):
        (tmp_path / name).unlink()
    assert oz.open(tmp_path).zarr_format == 2
    np.testing.assert_array_equal(oz.open(tmp_path)[:], expected)


ONE_ARRAY = """
>>> import zarr
>>> store = zarr.DirectoryStore('data/example.zarr')
>>> a = zarr.create(shape=(20, 20), chunks=(10, 10), dtype='i4',
... fill_value=42, compressor=zarr.Zlib(level=1),
... store=store, overwrite=True)
>>> import os
>>> sorted(os.listdir('data/example.zarr'))
['.zarray']
>>> print(open('data/example.zarr/.zarray').read())
{
    "chunks": [
        10,
        10
    ],
    "compressor": {
        "id": "zlib",
        "level": 1
    },
    "dtype": "<i4",
    "fill_value": 42,
    "filters": null,
    "order": "C",
    "shape": [
        20,
        20
    ],
    "zarr_format": 2
}
>>> a[0:10, 0:10] = 1
>>> sorted(os.listdir('data/example.zarr'))
['.zarray', '0.0']
>>> a[0:10, 10:20] = 2
>>> a[10:20, :] = 3
>>> sorted(os.listdir('data/example.zarr'))
['.zarray', '0.0', '0.1', '1.0', '1.1']
>>> a.attrs['foo'] = 42
>>> a.attrs['bar'] = 'apples'
>>> a.attrs['baz'] = [1, 2, 3, 4]
>>> sorted(os.listdir('data/example.zarr'))
['.zarray', '.zattrs', '0.0', '0.1', '1.0', '1.1']
>>> print(open('data/example.zarr/.zattrs').read())
{
    "bar": "apples",
    "baz": [
        1,
        2,
        3,
        4
    ],
    "foo": 42
}
"""

HIERARCHY = """
>>> import zarr
>>> store = zarr.DirectoryStore('data/group.zarr')
>>> root_grp = zarr.group(store, overwrite=True)
>>> import os
>>> sorted(os.listdir('data/group.zarr'))
['.zgroup']
>>> print(open('data/group.zarr/.zgroup').read())
{
    "zarr_format": 2
}
>>> sub_grp = root_grp.create_group('foo')
>>> sorted(os.listdir('data/group.zarr'))
['.zgroup', 'foo']
>>> sorted(os.listdir('data/group.zarr/foo'))
['.zgroup']
>>> a = sub_grp.create_dataset('bar', shape=(20, 20), chunks=(10, 10))
>>> a[:] = 42
>>> a.attrs['comment'] = 'answer to life, the universe and everything'
>>> sorted(os.listdir('data/group.zarr'))
['.zgroup', 'foo']
>>> sorted(os.listdir('data/group.zarr/foo'))
['.zgroup', 'bar']
>>> sorted(os.listdir('data/group.zarr/foo/bar'))
['.zarray', '.zattrs', '0.0', '0.1', '1.0', '1.1']
"""
