"""Zarr version 2: the worked examples on several stores, and conversion of version 1."""

from __future__ import annotations

import json
import os
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from tests.conformance.printed_examples import run_printed
from tests.conformance.test_v1 import example
from tests.files import files

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
# What it prints as the contents of .zarray and .zattrs.
ZARRAY, ZATTRS = re.findall(r"^\{$.*?^\}$", ONE_ARRAY, re.MULTILINE | re.DOTALL)


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


# The worked examples


@pytest.mark.shows("V2-58", "V2-59", "V2-60", "V2-61", "V2-62")
def test_the_example_of_one_array_runs_as_printed(in_tmp: Path) -> None:
    for _ in range(2):  # the second time over the first
        assert run_printed(ONE_ARRAY) == ONE_ARRAY.count(">>>")
    folder = in_tmp / "data" / "example.zarr"
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
    z = example(tmp_path)
    expected = z[:]
    chunks = {n: (tmp_path / n).stat() for n in os.listdir(tmp_path) if n[0].isdigit()}
    before = files(tmp_path)
    oz.convert(tmp_path, in_place=True, zarr_format=2)
    after = files(tmp_path)
    assert after.pop(".zarray").decode() == ZARRAY
    assert after.pop(".zattrs").decode() == ZATTRS
    assert after == before
    assert sorted(chunks) == ["0.0", "0.1", "1.0", "1.1"]
    for name, old in chunks.items():
        new = (tmp_path / name).stat()
        assert (new.st_mtime_ns, new.st_ino) == (old.st_mtime_ns, old.st_ino)
    np.testing.assert_array_equal(oz.open(tmp_path, zarr_format=2)[:], expected)


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
