"""Imports: options, memory, kill -9 and resume; all of random files is imported or named."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tifffile
import xarray as xr
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import omnizarr as oz
from omnizarr.interop.files.importing import Import
from tests.interop.files.comparison import TEXT, TYPES, assert_same
from tests.memory import peak


def _h5(path: Path, **arrays: Any) -> Path:
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file[name] = values
            for axis, label in enumerate(
                ("t", "y", "x")[-np.ndim(values) :] if np.ndim(values) else ()
            ):
                file[name].dims[axis].label = label
    return path


def test_options_apply_to_all_arrays(tmp_path: Path) -> None:
    values = np.arange(60.0).reshape(3, 4, 5)
    text = np.array(["a"], object)
    file = _h5(tmp_path / "a.h5", one=values, text=text, x=np.arange(5.0))
    oz.import_file(
        file, tmp_path / "a.zarr", chunks={"y": 2, "t": -1}, shards={"y": 4},
        compressors=[{"name": "zstd", "configuration": {"level": 3}}], dtype="f4",
    )  # fmt: skip
    group = oz.open(tmp_path / "a.zarr")
    one = group["one"]
    assert (one.chunks, one.shards, one.dtype) == ((3, 2, 5), (3, 4, 5), np.dtype("f4"))
    assert one.codecs[-1].configuration["codecs"][-1]["name"] == "zstd"
    assert group["x"].dtype == "f8"  # a coordinate
    assert one.dimension_names == ("t", "y", "x")
    np.testing.assert_array_equal(one[...], np.arange(60).reshape(3, 4, 5))
    with pytest.raises(
        oz.InvalidArgument, match=r"chunks: no dimension 'lat'; dimensions: t, x, y"
    ):
        oz.import_file(file, tmp_path / "b.zarr", chunks={"lat": 1})


def test_values_that_do_not_fit_a_type_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([1, 300]))
    with pytest.raises(oz.InvalidArgument, match=r"^300 at index \(1,\) .* uint8 in /\[0:2\]: "):
        oz.import_file(tmp_path / "a.npy", tmp_path / "a.zarr", dtype="u1")
    np.save(tmp_path / "b.npy", np.array([1.5]))
    with pytest.raises(oz.InvalidArgument, match="which cannot be cast to int64"):
        oz.import_file(tmp_path / "b.npy", tmp_path / "b.zarr", dtype="i8")
    with pytest.raises(oz.NodeNotFound):
        oz.open(tmp_path / "a.zarr")


def test_an_existing_node_is_replaced_only_on_demand_and_at_the_end(tmp_path: Path) -> None:
    oz.create_array(tmp_path / "a.zarr", data=np.zeros(3))
    np.save(tmp_path / "a.npy", np.arange(5))
    with pytest.raises(oz.NodeExists, match="overwrite=True"):
        oz.import_file(tmp_path / "a.npy", tmp_path / "a.zarr")
    np.savez_compressed(tmp_path / "b.npz", x=np.random.default_rng(0).random(9999))
    data = bytearray((tmp_path / "b.npz").read_bytes())
    data[40_000] ^= 1
    (tmp_path / "b.npz").write_bytes(data)
    said = "damaged or no NumPy file: member 'x"
    with pytest.raises(oz.InvalidArgument, match=said):
        oz.import_file(tmp_path / "b.npz", tmp_path / "a.zarr", overwrite=True)
    with pytest.raises(oz.InvalidArgument, match=said):
        oz.import_file(tmp_path / "b.npz", tmp_path / "new.zarr")
    with pytest.raises(oz.NodeNotFound):
        oz.open(tmp_path / "new.zarr")
    assert oz.open(tmp_path / "a.zarr")[:].tolist() == [0, 0, 0]
    oz.import_file(tmp_path / "a.npy", tmp_path / "a.zarr", overwrite=True)
    assert oz.open(tmp_path / "a.zarr")[:].tolist() == [0, 1, 2, 3, 4]


def test_several_files_become_members_with_their_names(tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", np.arange(3))
    _h5(tmp_path / "two.h5", x=np.arange(4))
    oz.create_group(tmp_path / "a.zarr")
    report = oz.import_file(
        [tmp_path / "one.npy", tmp_path / "two.h5"], tmp_path / "a.zarr", path="in/side"
    )
    assert (report.arrays, report.groups) == (2, 2)
    group = oz.open(tmp_path / "a.zarr")
    assert group["in/side/one"][:].tolist() == [0, 1, 2]
    assert group["in/side/two/x"][:].tolist() == [0, 1, 2, 3]
    with pytest.raises(oz.InvalidArgument, match="would both become 'one'"):
        oz.import_file([tmp_path / "one.npy"] * 2, tmp_path / "b.zarr")


def test_names_that_the_format_forbids_are_reported(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["zarr.json/x"] = 1
        file["fine"] = 1
    report = oz.import_file(tmp_path / "a.h5", tmp_path / "a.zarr")
    assert set(report.skipped) == {"zarr.json", "zarr.json/x"}
    assert list(oz.open(tmp_path / "a.zarr")) == ["fine"]


def test_a_plan_says_what_will_be_done_and_writes_nothing(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.zeros((1000, 1000))
        file["empty"] = h5py.Empty("f4")
    job = Import(tmp_path / "a.h5", tmp_path / "a.zarr")
    text = str(job.plan())
    assert "left out: empty: it is empty" in text
    assert "read 7.6 MiB" in text
    assert not (tmp_path / "a.zarr").exists()
    again = pickle.loads(pickle.dumps(job))
    assert again == job
    assert again.plan().digest == job.plan().digest
    old = job.plan().digest
    os.utime(tmp_path / "a.h5", ns=(1, 1))
    assert job.plan().digest != old


FILES: dict[str, tuple[Callable[[Path], Any], tuple[int, ...]]] = {
    "a.npy": (lambda path: np.save(path, np.arange(100.0)), (5, 9, 40, 127, 200, 500)),
    "a.npz": (lambda path: np.savez(path, np.arange(100.0)), (5, 9, 40, 127, 200, 500)),
    "a.h5": (lambda path: _h5(path, x=np.arange(1000.0)), (100, 1000, 5000)),
    "a.tif": (lambda path: tifffile.imwrite(path, np.zeros((100, 100), "u2")), (6, 40, 200, 3000)),
}


@pytest.mark.parametrize(("name", "size"), [(n, size) for n in FILES for size in FILES[n][1]])
def test_a_truncated_file_is_damaged_and_nothing_is_visible(
    tmp_path: Path, name: str, size: int
) -> None:
    FILES[name][0](tmp_path / name)
    os.truncate(tmp_path / name, size)
    with pytest.raises(oz.InvalidArgument, match=r"damaged or no \w+ file|not a NumPy|no images"):
        oz.import_file(tmp_path / name, tmp_path / "out.zarr")
    with pytest.raises(oz.NodeNotFound):
        oz.open(tmp_path / "out.zarr")


@pytest.mark.parametrize("on", ["threads", "processes"])
def test_tasks_run_on_threads_and_processes(tmp_path: Path, on: str) -> None:
    values = np.random.default_rng(0).random((40, 100, 100))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=values, chunks=(10, 50, 50), compression="gzip")
    oz.import_file(tmp_path / "a.h5", tmp_path / "a.zarr", on=on, workers=2, memory="2MB")
    np.testing.assert_array_equal(oz.open(tmp_path / "a.zarr")["x"][...], values)


def test_memory_stays_within_the_bound(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        data = file.create_dataset("x", (64, 512, 512), "f4", chunks=(1, 256, 256))
        for i in range(64):
            data[i] = i
    options: Any = {"memory": "12MB", "workers": 1}
    assert peak(lambda: oz.import_file(tmp_path / "a.h5", tmp_path / "a.zarr", **options)) < 14e6
    assert oz.open(tmp_path / "a.zarr")["x"][63, 0, 0] == 63


SOME = """
import sys
from omnizarr.bulk import journal
from omnizarr.bulk import transfer as fill
from omnizarr.interop.files.importing import import_file
call = fill.FillBox.__call__
begun = []
def some(self):
    begun.append(self)
    if len(begun) > 3:
        sys.stdin.read()  # until it is killed
    return call(self)
fill.FillBox.__call__ = some
journal.FLUSH = 0  # every task that is done is entered in the journal
import_file(sys.argv[1], sys.argv[2], memory=300_000, workers=1, overwrite=len(sys.argv) > 3)
"""


def _journal(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if "journal" in str(path) and path.is_file()]


@pytest.mark.parametrize("replaced", [False, True])
def test_a_killed_import_is_invisible_and_is_resumed(tmp_path: Path, replaced: bool) -> None:
    values = np.arange(100 * 10_000, dtype="i4").reshape(100, 10_000)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=values, chunks=(1, 10_000))
    out = tmp_path / "a.zarr"
    if replaced:
        oz.create_group(out, attributes={"old": True})
    command = [sys.executable, "-c", SOME, str(tmp_path / "a.h5"), str(out), *(["x"] * replaced)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not _journal(out):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    if replaced:
        assert oz.open(out).attrs["old"]
    else:
        with pytest.raises(oz.NodeNotFound):
            oz.open(out)
        with pytest.raises(oz.NodeExists, match="interrupted"):
            oz.import_file(tmp_path / "a.h5", out, memory=300_000, workers=1)
    done: list[int] = []
    report = oz.import_file(
        tmp_path / "a.h5", out, memory=300_000, workers=1, resume=True, overwrite=replaced,
        progress=lambda state: done.append(state.tasks),
    )  # fmt: skip
    assert report.bytes_read == values.nbytes
    np.testing.assert_array_equal(oz.open(out)["x"][...], values)
    assert _journal(out) == []


def test_a_changed_file_is_not_mixed_with_what_was_imported_before(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(10))
    job = Import(str(tmp_path / "a.npy"), str(tmp_path / "a.zarr"))
    output = job.plan().output
    assert output is not None
    output.begin(False, False)
    np.save(tmp_path / "a.npy", np.ones(10))
    with pytest.raises(oz.NodeExists, match="was not the same"):
        oz.run(job, resume=True)


def _zeros() -> dict[str, Any]:
    """Return arrays of many types with values that are zero, false or empty."""
    random = np.random.default_rng(7)
    types = ("?", "u1", "i4", "f4", "f8", "c16", "S2")
    found: dict[str, Any] = {kind: random.integers(0, 2, 6).astype(kind) for kind in types}
    found["S2"][0] = b""
    return {kind.strip("?") or "b": values for kind, values in found.items()}


def test_no_value_of_a_plain_file_is_missing_in_version_2(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, values in _zeros().items():
            file[name] = values
        file["text"] = np.array(["", "b"], h5py.string_dtype())
        file.create_dataset("stated", data=np.array([5, 1], "i2"), fillvalue=5)
    report = oz.import_file(tmp_path / "a.h5", tmp_path / "a.zarr", zarr_format=2)
    assert [note for note in report.notes if "fill value" in note] == [
        "/stated: the fill value np.int16(5) is left out, as it would mark missing values in zarr 2"
    ]
    found = xr.load_dataset(tmp_path / "a.zarr", engine="omnizarr")
    for name, values in _zeros().items():
        np.testing.assert_array_equal(found[name].values, values)
        assert found[name].dtype.kind == values.dtype.kind
    assert found["text"].values.tolist() == ["", "b"]
    assert found["stated"].values.tolist() == [5, 1]
    for number, values in enumerate(_zeros().values()):
        np.save(tmp_path / f"{number}.npy", values)
        oz.import_file(tmp_path / f"{number}.npy", tmp_path / f"{number}.zarr", zarr_format=2)
        [read] = xr.load_dataset(tmp_path / f"{number}.zarr", engine="omnizarr").values()
        np.testing.assert_array_equal(read.values, values)
        assert read.dtype.kind == values.dtype.kind


def test_a_fill_value_of_the_caller_is_used_in_version_2(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(3))
    oz.import_file(tmp_path / "a.npy", tmp_path / "a.zarr", zarr_format=2, fill_value=7)
    assert oz.open(tmp_path / "a.zarr").fill_value == 7


NAMES = st.text("abcé", min_size=1, max_size=3)
COLOURS = h5py.enum_dtype({"red": 1, "green": 5}, "i2")
BLANKS = h5py.enum_dtype({"dark red": 1, "green": 5}, "i2")
VALUES = st.one_of(
    TYPES.flatmap(lambda t: hnp.arrays(t, hnp.array_shapes(min_dims=0, max_dims=2, max_side=4))),
    st.sampled_from([COLOURS, BLANKS]).map(lambda t: np.array([1, 5], t)),
    st.just(np.array([(1, 2.0)], [("a", COLOURS), ("b", "f4")])),
    st.lists(TEXT, min_size=1, max_size=3).map(lambda t: np.array(t, h5py.string_dtype())),
    st.just(np.ones(2, np.longdouble)),
    st.just(np.array([np.void(b"ab")])),
)
SPECIAL = st.sampled_from(["none", "empty", "ragged", "reference", "soft", "dangling", "virtual"])
ATTRIBUTES = st.one_of(
    VALUES,
    TEXT,
    st.binary(min_size=1, max_size=4).filter(lambda b: not b.endswith(b"\0")).map(np.bytes_),
    st.sampled_from([h5py.Empty("f4"), np.longdouble(1) / 3, 1j, np.bool_(True), np.float32(0.1)]),
)


def add_special(file: Any, kind: str) -> None:
    """Add something that Zarr has no place for."""
    if kind == "empty":
        file["special"] = h5py.Empty("f4")
    elif kind == "ragged":
        file.create_dataset("special", (2,), h5py.vlen_dtype("i4"))
    elif kind == "reference":
        file.create_dataset("special", (1,), h5py.ref_dtype)
    elif kind in ("soft", "dangling"):
        file["special"] = h5py.SoftLink("/group" if kind == "soft" else "/nowhere")
    elif kind == "virtual":
        layout = h5py.VirtualLayout((3,), "i8")
        layout[:] = h5py.VirtualSource(".", "nowhere", (3,))
        file.create_virtual_dataset("special", layout)


def check_attribute(value: Any, name: str, found: oz.Group | oz.Array, report: Any) -> None:
    """Raise if an attribute of h5py is neither kept nor named."""
    path = found.path or "/"
    words = [text for text in (*report.skipped, *report.notes) if f"{path}@{name}" in text]
    words += [text for text in report.notes if text.startswith(f"an attribute of {found.name} is")]
    if name not in found.attrs:
        assert words, (path, name, value)
        return
    kept = found.attrs[name]
    if isinstance(value, h5py.Empty):
        assert kept in ([], "")
    elif isinstance(value, bytes) or np.asarray(value).dtype.kind == "S":
        flat = [np.ravel(np.array(v, object)).tolist() for v in (value, kept)]
        same = all(a.decode("utf-8", "replace") == b for a, b in zip(*flat, strict=True))
        assert same or words, (value, kept)
    elif np.asarray(value).dtype.names is not None:
        records = [tuple(each.values()) for each in np.ravel(kept)]
        assert records == np.ravel(value).tolist() or words, (value, kept)
    else:
        expected = np.asarray(value).tolist()
        assert kept == expected or words, (value, kept)


@settings(max_examples=60, deadline=None)
@given(
    arrays=st.dictionaries(NAMES, VALUES, max_size=3),
    attributes=st.dictionaries(NAMES, ATTRIBUTES, max_size=3),
    special=SPECIAL,
    block=st.sampled_from([0, 512]),
)
@example({"a": np.zeros(2)}, {"a": np.array([[b"x"]])}, "none", 0)
def test_all_of_an_hdf5_file_is_imported_or_named_and_exported_again(
    arrays: dict[str, Any], attributes: dict[str, Any], special: str, block: int
) -> None:
    out: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory() as folder:
        with h5py.File(f"{folder}/a.h5", "w", userblock_size=block) as file:
            group = file.create_group("group")
            for name, values in arrays.items():
                group[name] = values
            for name, value in attributes.items():
                file.attrs[name] = value
                for array in group.values():
                    array.attrs[name] = value
            add_special(file, special)
        report = oz.import_file(f"{folder}/a.h5", out)
        again = oz.export_file(out, f"{folder}/b.h5")
        with h5py.File(f"{folder}/a.h5") as old, h5py.File(f"{folder}/b.h5") as new:
            root = oz.open(out)
            assert ("user block" in report.skipped) == bool(block)
            assert ("special" in report.skipped) == (special != "none")
            for name, value in old.attrs.items():
                check_attribute(value, name, root, report)
            for name, dataset in old["group"].items():
                path = f"group/{name}"
                if path in report.skipped:
                    assert path not in root
                    continue
                text = h5py.check_string_dtype(dataset.dtype) is not None
                is_text = text and dataset.dtype.kind == "O"
                assert_same(root[path][...], dataset.asstr()[...] if is_text else dataset[...])
                names = h5py.check_enum_dtype(dataset.dtype) or {}
                named = root[path].attrs.get("flag_meanings", "").split()
                assert [*names] == named or f"{path}@names of values" in report.skipped
                for attribute, value in dataset.attrs.items():
                    check_attribute(value, attribute, root[path], report)
                if path not in again.skipped:
                    written = new[path].asstr() if is_text else new[path]
                    assert_same(written[...], root[path][...])
                    assert new[path].attrs.keys() >= root[path].attrs.keys()


PIXELS = st.sampled_from(["u1", "u2", "i2", "f4"])
LENGTHS = {"T": 2, "C": 3, "Z": 4, "Y": 20, "X": 33}
AXES = st.sampled_from(["YX", "ZYX", "CYX", "TYX", "ZCYX", "TZCYX"])
XML = {
    "PhysicalSizeX": 0.5, "PhysicalSizeXUnit": "ft", "PhysicalSizeY": 2.0, "PhysicalSizeZ": 3.0,
    "PhysicalSizeZUnit": "reference frame", "TimeIncrement": 4.0, "TimeIncrementUnit": "min",
    "Name": "cells", "Description": "living", "SignificantBits": 7,
}  # fmt: skip
CHANNEL = {"Name": ["a", "b", "c"], "Color": [-1, 255, -256], "EmissionWavelength": [400, 500, 600]}
PLANE = ("DeltaT", "PositionX", "ExposureTime")
IMAGEJ = {
    "unit": "mm", "yunit": "inch", "zunit": "um", "tunit": "min", "spacing": 3.0, "finterval": 4.0,
    "fps": 0.25, "Info": "living", "LUTs": [np.zeros((3, 256), "u1")] * 3, "ROI": b"Iout",
    "Labels": ["a"],
}  # fmt: skip
UNITS = {"ft": "foot", "min": "minute", "mm": "millimeter", "um": "micrometer", "inch": "inch"}


def pixels(axes: str, dtype: str) -> Any:
    """Return values of an image with these axes."""
    return np.random.default_rng(0).integers(0, 99, [LENGTHS[a] for a in axes]).astype(dtype)


def some(names: Any) -> st.SearchStrategy[set[Any]]:
    """Return any subset of names."""
    return st.sets(st.sampled_from(sorted(names)))


def check_image(image: oz.ome.Image, values: Any, axes: str) -> None:
    """Raise if an image has other axes or pixels than a file."""
    order = [axes.index(a) for a in "TCZYX" if a in axes]
    assert "".join(a.name for a in image.axes) == "".join(axes[i] for i in order).lower()
    np.testing.assert_array_equal(image.read(), values.transpose(order))


@settings(max_examples=40, deadline=None)
@given(axes=AXES, dtype=PIXELS, keys=some(XML), channel=some(CHANNEL), plane=some(PLANE))
def test_all_of_an_ome_tiff_file_is_imported_or_named_and_exported_again(
    axes: str, dtype: str, keys: set[str], channel: set[str], plane: set[str]
) -> None:
    stated: dict[str, Any] = {k: v for k, v in XML.items() if k in keys}
    values = pixels(axes, dtype)
    if "C" in axes:
        stated["Channel"] = {k: v for k, v in CHANNEL.items() if k in channel}
    count = values.size // (LENGTHS["X"] * LENGTHS["Y"])
    stated["Plane"] = {name: [1.5] * count for name in plane}
    out: dict[str, bytes] = {}
    once_more: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory() as folder:
        with tifffile.TiffWriter(f"{folder}/a.ome.tif", ome=True) as file:
            file.write(values, metadata={"axes": axes, **stated}, photometric="minisblack")
        report = oz.import_file(f"{folder}/a.ome.tif", out)
        exported = oz.export_file(out, f"{folder}/b.ome.tif")
        again = oz.import_file(f"{folder}/b.ome.tif", once_more)
        written = tifffile.imread(f"{folder}/b.ome.tif")
    image = oz.ome.open(out)
    check_image(image, values, axes)
    lost = " ".join(f"{k}: {v}" for k, v in report.skipped.items())
    scales = dict(zip((a.name for a in image.axes), image.scale, strict=True))
    units = {a.name: a.unit for a in image.axes}
    for axis, key, default in (
        ("x", "PhysicalSizeX", "micrometer"), ("y", "PhysicalSizeY", "micrometer"),
        ("z", "PhysicalSizeZ", "micrometer"), ("t", "TimeIncrement", "second"),
    ):  # fmt: skip
        if key in stated and axis not in scales:
            assert f"no axis {axis}" in lost or f" {axis}" in lost
        elif key in stated:
            unit = stated.get(f"{key}Unit")
            assert scales[axis] == stated[key]
            assert units[axis] == (default if unit is None else UNITS.get(unit))
    if "Name" in stated:
        assert image.name == "cells"
    for key in ("Description", "SignificantBits"):
        assert (key in lost) == (key in stated)
    for key in ("EmissionWavelength", *PLANE):
        assert (key in lost) == (key in stated.get("Channel", ()) or key in plane)
    named = stated.get("Channel", {})
    if "Name" in named:
        assert [c.label for c in image.channels] == named["Name"]
    if "Color" in named:
        assert [c.color for c in image.channels] == ["FFFFFF", "000000", "FFFFFF"]
        assert "Channel Color" in lost  # of which one is transparent
    # What was imported is in the file that is exported, in the order of OME-Zarr.
    assert exported.skipped == again.skipped == {}
    np.testing.assert_array_equal(written, image.read())
    copy = oz.ome.open(once_more)
    assert (copy.axes, copy.scale, copy.name) == (image.axes, image.scale, image.name)
    assert [(c.label, c.color) for c in copy.channels] == [
        (c.label, c.color) for c in image.channels
    ]


@settings(max_examples=40, deadline=None)
@given(axes=AXES, dtype=st.sampled_from(["u1", "u2", "f4"]), keys=some(IMAGEJ), image=st.booleans())
def test_all_of_an_imagej_file_is_imported_or_named(
    axes: str, dtype: str, keys: set[str], image: bool
) -> None:
    stated = {k: v for k, v in IMAGEJ.items() if k in keys}
    values = pixels(axes, dtype)
    out: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory() as folder:
        tifffile.imwrite(
            f"{folder}/a.tif", values, imagej=True, resolution=(2, 4),
            metadata={"axes": axes, **stated},
        )  # fmt: skip
        with tifffile.TiffFile(f"{folder}/a.tif") as file:
            found: dict[str, Any] = file.imagej_metadata or {}
        report = oz.import_file(f"{folder}/a.tif", out, image=image)
    kept = oz.open(out).attrs["imagej"]
    for name, value in found.items():
        if f"ImageJ {name} of series 0" not in report.skipped:
            assert np.array_equal(kept[name], value), name
    assert (kept["pixel size x"], kept["pixel size y"]) == (0.5, 0.25)
    if not image:
        np.testing.assert_array_equal(oz.open(out)[...], values)
        return
    made = oz.ome.open(out)
    check_image(made, values, axes)
    scales = dict(zip((a.name for a in made.axes), made.scale, strict=True))
    units = {a.name: a.unit for a in made.axes}
    common = stated.get("unit")
    for axis, size in {"x": 0.5, "y": 0.25, "z": 3.0, "t": 4.0}.items():
        own: Any = stated.get(f"{axis}unit", common if axis != "t" else None)
        stating = {"z": {"spacing"}, "t": {"finterval", "fps"}}
        known = axis in "xy" or not keys.isdisjoint(stating[axis])
        if axis in scales and known and (own or axis == "t"):
            assert (scales[axis], units[axis]) == (size, UNITS[own] if own else "second")
        elif axis in scales:
            assert (scales[axis], units[axis]) == (1, None)


TAGS: dict[str, Any] = {
    "DateTime": {"datetime": "2020:01:01 00:00:00"},
    "ImageDescription": {"description": "living"},
    "XResolution": {"resolution": (300, 200)},
    "65000": {"extratags": [(65000, "s", 0, "own", True)]},
}


@settings(max_examples=30, deadline=None)
@given(
    axes=AXES, dtype=PIXELS, tags=some(TAGS), tiled=st.booleans(), own=st.booleans(),
    attributes=st.dictionaries(NAMES, TEXT, max_size=2),
)  # fmt: skip
def test_all_of_a_plain_tiff_file_is_imported_or_named_and_exported_again(
    axes: str, dtype: str, tags: set[str], tiled: bool, own: bool, attributes: dict[str, str]
) -> None:
    values = pixels(axes, dtype)
    options: dict[str, Any] = {"tile": (16, 16)} if tiled else {}
    for tag in tags:
        options |= TAGS[tag]
    metadata = {"axes": axes, **attributes} if own else None
    out: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory() as folder:
        tifffile.imwrite(
            f"{folder}/a.tif", values, photometric="minisblack", metadata=metadata, **options
        )
        read = tifffile.imread(f"{folder}/a.tif")
        report = oz.import_file(f"{folder}/a.tif", out)
        exported = oz.export_file(out, f"{folder}/b.tif")
        again = oz.import_file(f"{folder}/b.tif", copy := dict[str, bytes]())
        written = tifffile.imread(f"{folder}/b.tif")
    array = oz.open(out)
    np.testing.assert_array_equal(array[...], read)
    np.testing.assert_array_equal(written, read)
    lost = report.skipped.get("tags of series 0", "")
    assert all(tag in lost for tag in tags)
    assert [*report.skipped] == (["tags of series 0"] if tags else [])
    if own:
        assert array.attrs.asdict() == attributes
        assert array.dimension_names == tuple(axes.lower())
    assert exported.skipped == again.skipped == {}
    other = oz.open(copy)
    assert other.attrs == array.attrs
    assert other.dimension_names == array.dimension_names
    np.testing.assert_array_equal(other[...], read)
