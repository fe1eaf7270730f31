"""Export Zarr to files of other formats: `export_file`, and the job `Export`.

The format is that of the file's name. A file is written under a temporary name and renamed when it
is complete. Values are written as they are stored; the CF encodings of times and packed numbers,
and attributes and dimension names, are carried over where the format has a place for them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from omnizarr import Array, Group, config, registry
from omnizarr import open as open_zarr
from omnizarr.bulk.fill import Filled, check_cast, check_sign
from omnizarr.bulk.job import MEMORY, Job, Plan, Stage, launch, memory_of
from omnizarr.bulk.source_keys import source_state
from omnizarr.errors import CannotExpress, InvalidArgument, known_names
from omnizarr.extension import check_whole, key_digest, paths, portable_key
from omnizarr.interop.files.contents import format_of_name
from omnizarr.interop.files.writing import AUTO, NUMBERS, FileOutput, FileWriter

WRITERS = {
    "numpy": "omnizarr.interop.files.numpy_writer:NpyWriter",
    "npz": "omnizarr.interop.files.numpy_writer:NpzWriter",
    "hdf5": "omnizarr.interop.files.hdf5_writer:Hdf5Writer",
    "netcdf": "omnizarr.interop.files.netcdf_writer:NetcdfWriter",
    "tiff": "omnizarr.interop.files.tiff_writer:TiffWriter",
    "ome-tiff": "omnizarr.interop.files.tiff_writer:OmeTiffWriter",
}


@dataclass(frozen=True)
class Export(Job[Filled]):
    """Write an array, a group or an image to a file.

    Attributes:
        source: A path, URL, store, array or group.
        file: The path of the file, whose name says the format (``.npy``, ``.npz``, ``.nc``,
            ``.h5``, ``.tif``, ``.ome.tif``), unless `format` does.
        path: The path of the node in the source.
        format: ``"numpy"``, ``"npz"``, ``"netcdf"``, ``"hdf5"``, ``"tiff"`` or ``"ome-tiff"``.
        dtype: The type of arrays of numbers; values must fit it. For text in NumPy files, its
            length.
        compression: None for none. By default, NetCDF, HDF5 and TIFF files are compressed by
            Deflate, which all readers know, and NumPy files are not; ``"deflate"`` compresses
            ``.npz`` files.
        exclude: Patterns of paths to leave out.
        strict: True to raise for anything else that is left out.
        overwrite: True to replace an existing file.
        memory: The bytes that may be held in memory at a time, such as ``"512MB"``.
        storage_options: Options for the store of a URL, such as credentials.

    Examples:
        >>> oz.save("a.zarr", np.arange(6))
        >>> oz.run(oz.jobs.Export("a.zarr", "a.npy")).arrays
        1
    """

    source: Any
    file: str | os.PathLike[str]
    path: str | None = None
    format: str | None = None
    dtype: Any = None
    compression: str | None = AUTO
    exclude: Sequence[str] = ()
    strict: bool = False
    overwrite: bool = False
    memory: int | str | None = None
    storage_options: Mapping[str, Any] | None = None

    def plan(self, tasks_at_once: int = 1) -> Plan[Filled]:
        """Read the metadata and decide what to do; nothing is written."""
        file = os.fspath(self.file)
        kind = self.format or format_of_name(file)
        if kind not in WRITERS:
            raise InvalidArgument(f"unknown format {kind!r}; {known_names(kind, WRITERS)}")
        if self.compression not in (None, AUTO, "deflate", "gzip", "zlib"):
            raise InvalidArgument(
                f"compression must be None, 'auto' or 'deflate', got {self.compression!r}"
            )
        node = open_zarr(self.source, path=self.path, storage_options=self.storage_options)
        check_whole(node.store, node.path)
        arrays, groups = self._contents(node)
        memory = memory_of(self.memory, tasks_at_once)
        make: Callable[..., FileWriter] = registry.load(WRITERS[kind])
        writer = make(arrays, groups, self.dtype, self.compression, memory)
        writer.node = node
        self._check_types(writer)
        writer.check()
        if self.strict and writer.skipped:
            lines = "".join(f"\n  - {k}: {v}" for k, v in writer.skipped.items())
            raise CannotExpress(f"{len(writer.skipped)} parts cannot be exported:{lines}")
        if not writer.arrays and writer.skipped:
            reasons = "; ".join(f"{k}: {v}" for k, v in writer.skipped.items())
            raise CannotExpress(f"nothing of {node.name} can be written to {file!r}: {reasons}")
        operation = f"export {node.name} of {node.store!r} to {file}"
        digest = key_digest(
            "export", os.path.abspath(file), kind, portable_key(node.store), node.path,
            source_state(node.store, node.path),
            str(np.dtype(self.dtype)) if self.dtype is not None else None, str(self.compression),
            [[p, repr(a._model.shape), str(a.dtype)] for p, a in sorted(writer.arrays.items())],
        )  # fmt: skip
        output = FileOutput(
            file, writer, operation=operation, digest=digest, overwrite=self.overwrite
        )
        stage: Stage[Filled] = Stage(
            "write the file",
            lambda: writer.tasks(output.temporary),
            writer.count,
            writer.size,
            bytes_written=writer.size,
        )
        decisions = [f"{kind}: {len(writer.arrays)} arrays", *writer.notes]
        if not writer.resumable:
            decisions.append("an interrupted export leaves no file and starts again")
        decisions += [f"left out: {k}: {v}" for k, v in writer.skipped.items()]
        return Plan(
            operation,
            digest,
            [stage],
            Filled(len(writer.arrays), len(groups), 0, writer.skipped, writer.notes),
            output,
            decisions,
            config.byte_size(self.memory or MEMORY, "memory"),
        )

    def _contents(self, node: Array | Group) -> tuple[dict[str, Array], dict[str, Any]]:
        """Return the arrays and the attributes of groups, by path below the node."""
        if isinstance(node, Array):
            return {"": node}, {}
        arrays: dict[str, Array] = {}
        groups: dict[str, Any] = {"": node.attrs.asdict()}
        for path, member in node.members(max_depth=None):
            if any(_matches(path, pattern) for pattern in self.exclude):
                continue
            if isinstance(member, Array):
                arrays[path] = member
            else:
                groups[path] = member.attrs.asdict()
        return arrays, groups

    def _check_types(self, writer: FileWriter) -> None:
        """Raise if an array cannot be cast to the requested type."""
        for array in writer.arrays.values():
            wanted = writer.type_of(array)
            if wanted != array.dtype and wanted.kind in NUMBERS:
                check_cast(array.dtype, wanted, array.name)
                check_sign(array.attrs, array.dtype, wanted, array.name)


def _matches(path: str, pattern: str) -> bool:
    pattern = pattern.strip("/")
    parts = path.split("/")
    return any(paths.matches("/".join(parts[: i + 1]), pattern) for i in range(len(parts)))


def export_file(source: Any, file: str | os.PathLike[str], **options: Any) -> Filled:
    """Write an array, a group or an image to a file of another format.

    The name of the file says the format: ``.npy``, ``.npz``, ``.nc`` (NetCDF4), ``.h5``, ``.tif``
    or ``.ome.tif``.

    Args:
        source: A path, URL, store, array or group.
        file: The path of the file.
        **options: Fields of `jobs.Export`, such as `dtype` and `compression`, and options of `run`.

    Returns:
        The numbers of arrays and bytes, and what was left out.

    Raises:
        NodeNotFound: If there is nothing at the source.
        NodeExists: If the file exists.
        CannotExpress: If the format cannot express the source.

    Examples:
        >>> oz.save("a.zarr", np.arange(6))
        >>> oz.export_file("a.zarr", "a.npy").arrays
        1
        >>> np.load("a.npy")
        array([0, 1, 2, 3, 4, 5])
    """
    return launch(Export, source, file, **options)
