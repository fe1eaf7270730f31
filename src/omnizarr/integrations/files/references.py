"""Write kerchunk references to the chunks of an HDF5, NetCDF4 or TIFF file: `reference`.

Specification: https://fsspec.github.io/kerchunk/spec.html, version 1, with metadata of Zarr version
2, which all readers of references know. Nothing of the file is copied but small values that cannot
be referred to: text of variable length, and chunks that are stored in another way than the others.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from omnizarr import registry
from omnizarr.codecs.codec import BytesBytes
from omnizarr.codecs.pipeline import bind_codec
from omnizarr.errors import InvalidArgument, MissingPackage, NodeExists
from omnizarr.formats.format import ARRAY_DIMENSIONS
from omnizarr.hierarchy.create import create_array
from omnizarr.integrations.files.contents import NAMES, detect
from omnizarr.model import Named
from omnizarr.model.node import PREFIX

INLINE = 2**16  # bytes of an array that is stored in the references themselves
WRITERS = {
    "hdf5": "omnizarr.integrations.files.hdf5_references:add_arrays",
    "tiff": "omnizarr.integrations.files.tiff_references:add_arrays",
}
_PLAIN = "biufcSUV"


@dataclass
class Referenced:
    """The result of `reference`: how much was written, and what was left out and why."""

    arrays: int = 0
    references: int = 0  # to parts of the file
    inline: int = 0  # chunks that are in the references themselves
    skipped: dict[str, str] = field(default_factory=dict)


class Unreferable(Exception):
    """An array whose chunks cannot be referred to, with the reason."""


@dataclass
class ReferenceWriter:
    """References to one file, by key."""

    url: str
    inline: int = INLINE
    refs: dict[str, Any] = field(default_factory=dict)
    done: Referenced = field(default_factory=Referenced)

    def add_group(self, path: str, attributes: Mapping[str, Any]) -> None:
        """Add a group."""
        self.refs[_key(path, ".zgroup")] = _json({"zarr_format": 2})
        if attributes:
            self.refs[_key(path, ".zattrs")] = _json(attributes)

    def add_array(
        self,
        path: str,
        document: Mapping[str, Any],
        attributes: Mapping[str, Any],
        names: tuple[str | None, ...] | None,
    ) -> None:
        """Add the metadata of an array."""
        whole = {"zarr_format": 2, "order": "C", "filters": None, "compressor": None, **document}
        self.refs[_key(path, ".zarray")] = _json(whole)
        if names is not None and all(names):
            attributes = {**attributes, ARRAY_DIMENSIONS: list(names)}
        if attributes:
            self.refs[_key(path, ".zattrs")] = _json(attributes)
        self.done.arrays += 1

    def add_target(self, path: str, chunk: tuple[int, ...], offset: int, size: int) -> None:
        """Add a chunk that is a part of the file."""
        self.refs[_key(path, chunk_name(chunk))] = [self.url, int(offset), int(size)]
        self.done.references += 1

    def add_value(self, path: str, chunk: tuple[int, ...], data: bytes) -> None:
        """Add a chunk that is in the references themselves."""
        text = f"base64:{base64.b64encode(data).decode()}"
        self.refs[_key(path, chunk_name(chunk))] = text
        self.done.inline += 1

    def add_copy(
        self,
        path: str,
        values: npt.NDArray[Any],
        attributes: Mapping[str, Any],
        names: tuple[str | None, ...] | None,
        fill_value: Any = None,
    ) -> None:
        """Add a small array with all its values."""
        store: dict[str, bytes] = {}
        options: dict[str, Any] = {"fill_value": fill_value, "compressors": None}
        create_array(
            store, data=values, chunks=tuple(max(1, n) for n in values.shape), zarr_format=2,
            write_empty_chunks=True, **options,
        )  # fmt: skip
        self.add_array(path, json.loads(store.pop(".zarray")), attributes, names)
        store.pop(".zattrs", None)
        for name, data in store.items():
            self.refs[_key(path, name)] = f"base64:{base64.b64encode(data).decode()}"
            self.done.inline += 1

    def skip(self, path: str, reason: str) -> None:
        """Take note of something that is left out."""
        self.done.skipped[path or "/"] = reason

    def text(self) -> bytes:
        """Return the references as a document."""
        return json.dumps({"version": 1, "refs": self.refs}, ensure_ascii=False).encode()


def reference(
    file: str | os.PathLike[str],
    references: str | os.PathLike[str],
    *,
    url: str | None = None,
    inline: int = INLINE,
    overwrite: bool = False,
) -> Referenced:
    """Write a file with references to the chunks of an HDF5, NetCDF4 or TIFF file.

    The result is read by `open`, and by other readers of kerchunk references, as a Zarr hierarchy
    of version 2.

    Args:
        file: The path of the file.
        references: The path of the JSON or Parquet file to write.
        url: The path or URL of the file as it is written in the references, by default its full
            path; readers other than this library take a relative one from their working directory.
        inline: The bytes up to which arrays whose chunks cannot be referred to are stored in the
            references; larger ones are left out, and reported with the reason.
        overwrite: True to replace existing references.

    Returns:
        The numbers of arrays and references, and what was left out.

    Raises:
        InvalidArgument: If the file has another format.
        NodeExists: If the references exist.

    Examples:
        >>> import h5py
        >>> with h5py.File("ocean.nc", "w") as file:
        ...     file["temperature"] = np.arange(6.0).reshape(2, 3)
        >>> oz.reference("ocean.nc", "ocean.json").arrays
        1
        >>> oz.open("ocean.json")["temperature"][0]
        array([0., 1., 2.])
    """
    source, target = os.fspath(file), os.path.abspath(os.fspath(references))
    kind = detect(source)
    if kind not in WRITERS:
        raise InvalidArgument(
            f"{source!r} is a {NAMES[kind]} file; references are written for HDF5, NetCDF4 and TIFF"
        )
    if os.path.isdir(target):
        raise NodeExists(f"{target!r} is a directory; give the name of a file")
    if os.path.exists(target) and not overwrite:
        raise NodeExists(f"{target!r} exists; give overwrite=True to replace it")
    if os.path.exists(target) and os.path.samefile(source, target):
        raise InvalidArgument(f"file and references are both {source!r}")
    add_arrays: Callable[[str, ReferenceWriter], None] = registry.load(WRITERS[kind])
    writer = ReferenceWriter(os.path.abspath(source) if url is None else url, inline)
    add_arrays(source, writer)
    if not writer.done.arrays and writer.done.skipped:
        path, reason = next(iter(writer.done.skipped.items()))
        raise InvalidArgument(f"nothing in {source!r} can be referred to; {path}: {reason}")
    _write(target, writer.text())
    return writer.done


def _write(target: str, data: bytes) -> None:
    """Write a file under a temporary name, and give it its name when it is complete."""
    temporary = f"{target}.{os.getpid()}.part"
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def bytes_codec(config: Mapping[str, Any]) -> BytesBytes:
    """Return the codec on bytes that version 2 metadata describe so."""
    members = {name: value for name, value in config.items() if name != "id"}
    try:
        return cast(BytesBytes, bind_codec(Named(PREFIX + config["id"], members), "codecs"))
    except MissingPackage as e:
        raise Unreferable(f"some of its chunks have to be encoded again, and the {e}") from e


def stored_dtype(dtype: np.dtype[Any]) -> Any:
    """Return the type of a version 2 array whose chunks have this type in memory, or raise."""
    if dtype.names is None:
        if dtype.kind not in _PLAIN:
            raise Unreferable(f"elements of type {dtype} cannot be referred to")
        return dtype.str
    fields: list[Any] = []
    place = 0
    for name in dtype.names:
        inner, offset = dtype.fields[name][:2]  # type: ignore[index]  # it has fields
        if offset != place:
            break
        base, shape = inner.subdtype if inner.subdtype is not None else (inner, ())
        fields.append([name, stored_dtype(base), *([list(shape)] if shape else [])])
        place += inner.itemsize
    if place != dtype.itemsize:
        raise Unreferable("its records have gaps between their fields")
    return fields


def stored_fill(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a fill value as version 2 writes it in JSON."""
    scalar = np.asarray(value, dtype)
    if dtype.kind in "SV" or dtype.names is not None:
        return base64.b64encode(scalar.tobytes()).decode()
    if dtype.kind == "c":
        return [_float(float(scalar.real)), _float(float(scalar.imag))]
    if dtype.kind == "f":
        return _float(float(scalar))
    return scalar.item()


def _float(value: float) -> Any:
    if np.isnan(value):
        return "NaN"
    return value if np.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")


def chunk_name(chunk: tuple[int, ...]) -> str:
    """Return the name of a chunk of a version 2 array."""
    return ".".join(map(str, chunk)) or "0"


def _key(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)
