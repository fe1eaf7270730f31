"""Random files: all that h5py and tifffile find in them is imported, or named in the report."""

from __future__ import annotations

import tempfile
from typing import Any

import h5py
import numpy as np
import tifffile
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import omnizarr as oz
from tests.interop.files.comparison import assert_same
from tests.interop.files.strategies import TEXT, TYPES

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
