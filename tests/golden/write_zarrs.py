"""Write ``v3-by-zarrista-0.1.0.zip``, for which the package zarrista must be installed.

>>> python write_zarrs.py
"""

from __future__ import annotations

import io
import itertools
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import zarrista
from zarrista.store import FilesystemStore

HERE = Path(__file__).parent
LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
GZIP = {"name": "gzip", "configuration": {"level": 5}}
ZSTD = {"name": "zstd", "configuration": {"level": 3, "checksum": False}}
BLOSC = {
    "name": "blosc",
    "configuration": {
        "cname": "zstd",
        "clevel": 5,
        "shuffle": "shuffle",
        "typesize": 4,
        "blocksize": 0,
    },
}
WORDS = ["", "a", "Größe", "漢字\U0001f600", "x" * 60, "end", "b", ""]


def vlen(index: list[Any], data: list[Any], type_: str, **members: str) -> dict[str, Any]:
    configuration = {"index_codecs": index, "data_codecs": data, "index_data_type": type_}
    return {"name": "zarrs.vlen", "configuration": {**configuration, **members}}


def optional(mask: list[Any], data: list[Any]) -> dict[str, Any]:
    return {"name": "zarrs.optional", "configuration": {"mask_codecs": mask, "data_codecs": data}}


def optional_type(name: str, **configuration: Any) -> dict[str, Any]:
    members = {"name": name, "configuration": configuration}
    return {"name": "zarrs.optional", "configuration": members}


def array_bytes(part: np.ndarray, mask: np.ndarray | None) -> zarrista.ArrayBytes:
    """Return a chunk as zarrista takes it; a mask is true where there is a value."""
    given = None if mask is None else mask.astype("u1").tobytes()
    if part.dtype != object:
        return zarrista.ArrayBytes(part.tobytes(), mask=given)
    items = [i if isinstance(i, bytes) else i.encode() for i in part.ravel()]
    offsets = [*itertools.accumulate(map(len, items), initial=0)]
    return zarrista.ArrayBytes(b"".join(items), mask=given, offsets=offsets)


def write(
    root: Path,
    name: str,
    dtype: Any,
    values: np.ndarray,
    codecs: list[Any],
    fill: Any,
    *,
    chunks: tuple[int, ...],
    present: np.ndarray | None = None,
    leave_out: tuple[tuple[int, ...], ...] = (),
) -> None:
    """Write an array, and the values that it must have."""
    metadata = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(values.shape),
        "data_type": dtype,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": fill,
        "codecs": codecs,
    }
    array = zarrista.Array.from_metadata(metadata, FilesystemStore(str(root / "store")), f"/{name}")
    array.store_metadata()
    expected = values.copy()
    kept = None if present is None else present.copy()
    counts = [range(n // c) for n, c in zip(values.shape, chunks, strict=True)]
    for index in itertools.product(*counts):
        box = tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, chunks, strict=True))
        if index not in leave_out:
            data = array_bytes(values[box], None if present is None else present[box])
            array.store_chunk(list(index), data)
        elif kept is not None:
            kept[box] = fill is not None
            expected[box] = 0 if fill is None else fill[0]
    if kept is not None:
        both = np.empty(values.shape, object)
        both[...] = expected
        both[~kept] = None
        expected = both
    file = root / "expected" / f"{name.replace('/', '__')}.npy"
    file.parent.mkdir(exist_ok=True)
    np.save(file, expected, allow_pickle=True)


def main() -> None:
    """Write all arrays into the archive."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        numbers = np.arange(24, dtype="<i2").reshape(4, 1, 6)
        squeeze = {"name": "zarrs.squeeze"}
        turned = {"name": "transpose", "configuration": {"order": [1, 0]}}
        write(
            root, "squeeze/axes", "int16", numbers, [squeeze, turned, LITTLE], 0, chunks=(2, 1, 3)
        )
        write(
            root,
            "squeeze/item",
            "int16",
            numbers[:1, :, :3],
            [squeeze, LITTLE, GZIP],
            0,
            chunks=(1, 1, 1),
        )
        for dtype in ("string", "bytes"):
            items = [w if dtype == "string" else w.encode() for w in WORDS]
            values = np.array(items, object).reshape(2, 4)
            blank = "" if dtype == "string" else []
            plain = {"name": "bytes"}
            for name, codec in {
                "plain": vlen([LITTLE], [plain], "uint32"),
                "end": vlen([LITTLE], [plain], "uint64", index_location="end"),
                "packed": vlen([LITTLE, BLOSC], [plain, ZSTD], "uint32", index_location="start"),
                "v2": {"name": "zarrs.vlen_v2"},
                "array": {"name": "vlen-array"},
            }.items():
                write(root, f"vlen/{dtype}_{name}", dtype, values, [codec], blank, chunks=(1, 2))
        grid = np.arange(24).reshape(4, 6)
        present = grid % 5 != 2
        packbits = {"name": "packbits"}
        for name, inner, codecs, fill in (
            ("int32", "int32", [optional([packbits], [LITTLE])], None),
            ("float64", "float64", [optional([packbits, GZIP], [LITTLE, ZSTD]), GZIP], [1.5]),
            ("bool", "bool", [optional([{"name": "bytes"}], [packbits])], [True]),
            ("uint8", "uint8", [optional([packbits], [{"name": "bytes"}])], [42]),
        ):
            data = (grid % 2 if inner == "bool" else grid).astype(inner)
            write(
                root,
                f"optional/{name}",
                optional_type(inner),
                data,
                codecs,
                fill,
                chunks=(2, 3),
                present=present,
                leave_out=((1, 0),),
            )
        inside = {
            "chunk_shape": [1, 3],
            "codecs": [optional([packbits], [LITTLE]), GZIP],
            "index_codecs": [LITTLE, {"name": "crc32c"}],
            "index_location": "end",
        }
        sharded = {"name": "sharding_indexed", "configuration": inside}
        write(
            root,
            "optional/sharded",
            optional_type("int16"),
            grid.astype("i2"),
            [sharded],
            None,
            chunks=(2, 6),
            present=present,
        )
        words = np.array(WORDS, object).reshape(2, 4)
        write(
            root,
            "optional/string",
            optional_type("string"),
            words,
            [optional([packbits], [{"name": "vlen-utf8"}])],
            None,
            chunks=(1, 2),
            present=np.arange(8).reshape(2, 4) % 3 != 1,
        )
        times = optional_type("numpy.datetime64", unit="s", scale_factor=1)
        write(
            root,
            "optional/datetime64",
            times,
            grid.astype("<i8"),
            [optional([packbits], [LITTLE])],
            None,
            chunks=(2, 3),
            present=present,
        )
        found = io.BytesIO()
        with zipfile.ZipFile(found, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted(root.rglob("*")):
                if file.is_file():
                    archive.write(file, file.relative_to(root))
        (HERE / f"v3-by-zarrista-{zarrista.__version__}.zip").write_bytes(found.getvalue())


if __name__ == "__main__":
    main()
