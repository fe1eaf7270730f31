"""`omnizarr.zarr`: the names of zarr-python, and where those are that `omnizarr` had."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr as zarr_python

import omnizarr as oz
import omnizarr.zarr as zarr


def sample() -> Any:
    root = zarr.create_group({})
    root.create_array("a", data=np.arange(6).reshape(2, 3), chunks=(2, 2))
    root.create_group("b", attributes={"x": 1})
    root["b"].create_array("c", data=np.arange(4.0))
    return root


def test_it_has_the_names_of_zarr_python() -> None:
    names = {*zarr_python.__all__, "api", "codecs", "core", "errors", "storage"}
    assert {n for n in names if not hasattr(zarr, n)} == {"copy", "copy_all", "copy_store"}
    assert set(zarr.__all__) <= set(dir(zarr))
    assert zarr.config is zarr_python.config
    with pytest.raises(AttributeError, match="no attribute 'zero'"):
        _ = zarr.zero


@pytest.mark.parametrize("name", ["open_array", "ZipStore", "Blosc"])
def test_a_name_that_is_elsewhere_says_where(name: str) -> None:
    with pytest.raises(AttributeError, match=r"omnizarr\.storage, .*omnizarr\.zarr"):
        getattr(oz, name)


def test_methods_of_zarr_python_are_named_where_they_are_missed() -> None:
    node: Any = oz.create_group()
    with pytest.raises(AttributeError, match=r"nodes of omnizarr\.zarr have the methods"):
        node.create_dataset("a", shape=3)
    array: Any = oz.create_array(shape=2)
    with pytest.raises(AttributeError, match=r"nodes of omnizarr\.zarr have the methods"):
        array.get_orthogonal_selection([0])


def test_a_forgotten_value_is_not_stored_as_none() -> None:
    array = zarr.array(np.arange(3))
    with pytest.raises(TypeError, match="missing"):
        array.set_orthogonal_selection([0])
    assert array[:].tolist() == [0, 1, 2]


def test_selections_by_method_agree_with_brackets() -> None:
    values = np.arange(60).reshape(10, 6)
    array = zarr.array(values, chunks=(3, 4))
    mask = values % 7 == 0
    picked = ([1, 4], [0, 5])
    for found, wanted in (
        (array.get_basic_selection((slice(2, 8, 2), 1)), values[2:8:2, 1]),
        (array.get_orthogonal_selection(picked), values[np.ix_(*picked)]),
        (array.get_coordinate_selection(picked), values[picked]),
        (array.get_mask_selection(mask), values[mask]),
        (array.get_block_selection((1, 0)), values[3:6, 0:4]),
    ):
        assert np.array_equal(found, wanted)
    with pytest.raises(IndexError, match="basic"):
        array.get_basic_selection([1, 2])
    array.set_basic_selection((0, 0), -1)
    array.set_orthogonal_selection(([1], [1]), -2)
    array.set_coordinate_selection(([2], [2]), -3)
    array.set_mask_selection(mask, -4)
    array.set_block_selection((3, 1), -5)
    values[0, 0], values[1, 1], values[2, 2] = -1, -2, -3
    values[mask] = -4
    values[9:, 4:] = -5
    assert np.array_equal(array[...], values)


def test_fields_are_selected_by_name() -> None:
    values = np.array([(1, 2.5), (3, 4.5)], [("a", "i4"), ("b", "f8")])
    array = zarr.array(values, zarr_format=2)
    assert array.get_basic_selection(0, fields=["a", "b"]).tolist() == (1, 2.5)
    out = np.zeros(2)
    assert array.get_basic_selection(..., fields="b", out=out) is out
    assert out.tolist() == [2.5, 4.5]


def test_members_are_counted_and_got_by_kind() -> None:
    root = sample()
    assert (root.nmembers(), root.nmembers(None)) == (2, 3)
    assert (list(root.array_keys()), list(root.group_keys())) == (["a"], ["b"])
    assert [a.basename for a in root.array_values()] == ["a"]
    assert [g.attrs["x"] for g in root.group_values()] == [1]
    assert root.get_array("b/c").read_chunk_sizes == ((4,),)
    assert [g.path for g in root.create_groups("g1", "g2/h")] == ["g1", "g2/h"]
    assert [g.path for g in root.require_groups("b", "new")] == ["b", "new"]


def test_arrays_are_created_in_all_the_usual_ways() -> None:
    root = sample()
    model = root["a"]
    for array, wanted in (
        (root.empty(name="e", shape=(2, 2)), np.zeros((2, 2))),
        (root.zeros(name="z", shape=3, dtype="i4"), np.zeros(3)),
        (root.ones(name="o", shape=(1, 2)), np.ones((1, 2))),
        (root.full(name="f", shape=2, fill_value=7.5), np.full(2, 7.5)),
        (root.zeros_like(name="zl", data=model), np.zeros((2, 3))),
        (root.full_like(name="fl", data=model, fill_value=4), np.full((2, 3), 4)),
        (zarr.ones_like(np.zeros((2, 2))), np.ones((2, 2))),
        (zarr.zeros(2, dtype="M8[s]"), np.zeros(2, "M8[s]")),
    ):
        assert np.array_equal(array[...], wanted)
    assert root["zl"].chunks == model.chunks


def test_names_of_zarr_python_2_say_what_to_use() -> None:
    for name, other in (("Blosc", "numcodecs"), ("SQLiteStore", r"omnizarr\.storage")):
        with pytest.raises(AttributeError, match=f"no {name}; use {other}"):
            getattr(zarr, name)


def test_an_array_is_compared_by_elements_and_is_true() -> None:
    array = zarr.array(np.arange(3))
    assert (array == np.arange(3)).all()
    assert (np.arange(3) == array).all()
    assert (array == None) is False  # noqa: E711
    assert array == zarr.open_array(array.store)
    assert bool(zarr.zeros(0))
    assert bool(zarr.zeros(()))


def test_keys_of_attributes_become_text() -> None:
    group = zarr.create_group({}, attributes={"a": {1: "red", None: 0}})
    group.attrs.update({"colors": {2: [{3: "x"}]}})
    assert dict(group.attrs) == {"a": {"1": "red", "null": 0}, "colors": {"2": [{"3": "x"}]}}


def test_a_spawned_process_has_the_same_names_when_it_gets_an_array(tmp_path: Path) -> None:
    program = (
        "import omnizarr, pickle, subprocess, sys\n"
        "omnizarr.as_zarr()\n"
        "import zarr\n"
        f"data = pickle.dumps(zarr.open_group({str(tmp_path)!r}))\n"
        "child = 'import sys, pickle; node = pickle.load(sys.stdin.buffer); import zarr;'\n"
        "child += 'print(type(node) is zarr.Group)'\n"
        "subprocess.run([sys.executable, '-c', child], input=data, check=True)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "True"


def test_awaitable_methods_are_described() -> None:
    for kind in (zarr.AsyncArray, zarr.AsyncGroup):
        named = [n for n in vars(kind) if not n.startswith("_")]
        assert [n for n in named if not getattr(kind, n).__doc__] == []


def test_a_dictionary_holds_bytes() -> None:
    values: dict[str, bytes] = {}
    zarr.open_group(values)["x"] = np.arange(4)
    assert {type(value) for value in values.values()} == {bytes}
    assert oz.open(values)["x"][:].tolist() == zarr.open_group(values)["x"][:].tolist()
    theirs: dict[str, Any] = {}
    zarr_python.create_array(theirs, data=np.arange(4))  # which stores buffers
    assert zarr.open_array(theirs, mode="r")[:].tolist() == [0, 1, 2, 3]
