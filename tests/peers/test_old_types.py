"""Types that only version 2 has are exchanged with zarr-python 2.18.

C5: floats of 80 bits, and structures with padding.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.data_types import numeric
from tests.peers.environments import ZarrPython2

ALIGNED: list[Any] = [
    [("a", "i1"), ("b", "f8"), ("c", "i2")],
    [("a", "f8"), ("b", "S3")],
    [("a", "i1"), ("n", np.dtype([("x", "i1"), ("y", "i4")], align=True)), ("z", "u1", (3,))],
]
TYPES = [np.dtype(t, align=True) for t in ALIGNED]
try:
    numeric.check_platform("numpy.longdouble")
except oz.UnknownExtension:
    pass
else:
    LONG = [("x", "i1"), ("y", "f16")]
    # Not in the other order, which the newest numcodecs for zarr-python 2 cannot compress.
    TYPES += [np.dtype(t) for t in ("<f16", "<c32", LONG)]
    TYPES.append(np.dtype(LONG, align=True))


def values(dtype: np.dtype[Any]) -> Any:
    """Return ten items without uninitialised bytes."""
    found = np.frombuffer(bytes(10 * dtype.itemsize), dtype).copy()
    if dtype.names is None:
        found[...] = np.arange(10) / np.longdouble(3)
    for name in dtype.names or ():
        if dtype[name].names is None and dtype[name].kind != "S":
            found[name] = np.arange(30).reshape(10, 3)[:, :1] if dtype[name].shape else range(10)
    return found


@pytest.mark.shows("V2-15", "V2-20", "V2-22")
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_types_of_version_2_agree_with_zarr_python_2(
    tmp_path: Path, zarr_python_2: ZarrPython2, dtype: np.dtype[Any]
) -> None:
    data = values(dtype)
    # To zarr-python 2 padding is a field of its own; NumPy pickles arrays in the native order.
    source = (
        "z = zarr.open(path, 'w', shape=10, chunks=3, dtype=kind, fill_value=0);"
        "z[:] = a.astype(kind).view(z.dtype); result = None"
    )
    zarr_python_2.run(source, path=str(tmp_path / "theirs"), a=data, kind=dtype)
    theirs = oz.open(tmp_path / "theirs")
    assert oz.validate(tmp_path / "theirs") == []
    assert theirs.dtype == dtype
    np.testing.assert_array_equal(theirs[...], data)
    np.testing.assert_array_equal(theirs[2:7], data[2:7])
    ours = oz.create_array(
        tmp_path / "ours", data=data, chunks=3, fill_value=0, compressors=None, zarr_format=2
    )
    ours[4:5] = data[4:5]
    read = zarr_python_2.run("result = zarr.open(path)[:].tobytes()", path=str(tmp_path / "ours"))
    assert read == data.tobytes()
    stated = "result = zarr.open(path, 'r')._meta['dtype'].descr"
    both = [zarr_python_2.run(stated, path=str(tmp_path / p)) for p in ("ours", "theirs")]
    assert both[0] == both[1]
    for version in (3, "3-draft"):
        with pytest.raises(oz.CannotExpress, match=r"80 bits|padding"):
            oz.convert(tmp_path / "ours", {}, zarr_format=version)
        with pytest.raises(oz.CannotExpress, match=r"80 bits|padding"):
            oz.create_array({}, data=data, zarr_format=version)


def test_a_machine_without_80_bit_floats_reports_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    store: dict[str, bytes] = {}
    oz.create_array(store, shape=3, dtype="f8", fill_value=1, zarr_format=2)
    store[".zarray"] = store[".zarray"].replace(b"<f8", b">f16")
    monkeypatch.setattr(numeric.np, "finfo", lambda kind: type("Quad", (), {"nmant": 112}))
    array = oz.open(store)
    assert array.shape == (3,)
    with pytest.raises(oz.UnknownExtension, match=r"80-bit floats.*x86-64"):
        array[...]
    assert [p.level for p in oz.validate(store)] == ["warning"]


@pytest.mark.skipif(len(TYPES) == len(ALIGNED), reason="NumPy has no such floats here")
@pytest.mark.parametrize("dtype", ["f16", "c32"])
def test_a_fill_value_that_metadata_cannot_express_is_refused(dtype: str) -> None:
    third = np.longdouble(1) / 3
    with pytest.raises(oz.CannotExpress, match="is no float64"):
        oz.create_array({}, shape=3, dtype=dtype, fill_value=third, zarr_format=2)
    for value in (0.1, np.nan, -np.inf):
        store: dict[str, bytes] = {}
        oz.create_array(store, shape=3, dtype=dtype, fill_value=value, zarr_format=2)
        assert oz.open(store)[:1].tobytes()[:10] == np.array([value], dtype).tobytes()[:10]
    bits = {".zarray": store[".zarray"].replace(b'"-Infinity"', b'"0x3f80"')}
    with pytest.raises(oz.InvalidMetadata, match="fill_value of numpy"):
        oz.open(bits, kind="array")
