"""Export Zarr to files of other formats: `export_file`, and the job `Export`.

The file's name decides the format. A file is written under a temporary name and renamed when it
is complete; an export that fails leaves no file. Values are written as they are stored; the CF
encodings of times and packed numbers, and attributes and dimension names, are carried over where
the format has a place for them.

A `FileWriter` makes an empty file of a format, and tasks that fill it. Where tasks can write
anywhere in the file, they run in parallel; the other formats are written from the first to the last
byte by one task.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from omnizarr import Array, Group, errors, extension, registry
from omnizarr import open as open_zarr
from omnizarr.bulk.job import Job, Phase, Plan, launch, memory_of
from omnizarr.bulk.journal import Task
from omnizarr.bulk.options import SOURCE, MemoryOptions, RunOptions, option, takes, told
from omnizarr.bulk.output import Output
from omnizarr.bulk.tiles import item_bytes
from omnizarr.bulk.transfer import Filled, check_cast, check_sign
from omnizarr.errors import InvalidArgument
from omnizarr.extension import Begun, Store, paths
from omnizarr.interop.files.contents import format_of_name, is_below_any, raise_if_skipped

Format: TypeAlias = Literal["netcdf", "hdf5", "tiff", "ome-tiff"]
AUTO = "auto"
NUMBERS = "biufc"
WRITERS = {
    "hdf5": "omnizarr.interop.files.hdf5_writer:Hdf5Writer",
    "netcdf": "omnizarr.interop.files.hdf5_writer:NetcdfWriter",
    "tiff": "omnizarr.interop.files.tiff_writer:TiffWriter",
    "ome-tiff": "omnizarr.interop.files.tiff_writer:OmeTiffWriter",
}


@dataclass
class FileWriter(ABC):
    """A file to be written: arrays and attributes of groups, by path; a single array has ""."""

    arrays: dict[str, Array]
    groups: dict[str, Mapping[str, Any]]
    dtype: Any = None  # of the arrays of numbers
    compression: str | None = AUTO
    memory: int = 2**26  # of one task
    skipped: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    node: Any = None  # the array or group that is exported

    @abstractmethod
    def check(self) -> None:
        """Leave out what the format cannot express; raise if it can hold one array only."""

    @abstractmethod
    def prepare(self, file: str) -> None:
        """Make an empty file, or one without values."""

    @abstractmethod
    def tasks(self, file: str) -> Iterator[Task[Filled]]:
        """Yield the tasks that write the values."""

    @property
    def count(self) -> int | None:
        """The number of tasks, if it is known."""
        return 1

    @property
    def size(self) -> int:
        """The bytes of all values in memory."""
        return sum(math.prod(a.shape) * item_bytes(a.dtype) for a in self.arrays.values())

    def type_of(self, array: Array) -> np.dtype[Any]:
        """Return the type in which an array is written; coordinates keep theirs."""
        if self.dtype is None or array.dimension_names == (paths.name(array.path),):
            return array.dtype
        wanted = np.dtype(self.dtype)
        same = (wanted.kind in NUMBERS) == (array.dtype.kind in NUMBERS)
        return wanted if same else array.dtype

    def attributes_of(self, array: Array) -> dict[str, Any]:
        """Return the attributes of an array, except its dimension names."""
        return {k: v for k, v in array.attrs.asdict().items() if k != extension.ARRAY_DIMENSIONS}

    def leave_out(self, path: str, reason: str) -> None:
        """Take note of an array or attribute that is not written."""
        self.skipped[path or "/"] = reason
        self.arrays.pop(path, None)

    def one_array(self, suffix: str) -> Array:
        """Return the array of a format that holds only one."""
        if list(self.arrays) == [""]:
            return self.arrays[""]
        names = ", ".join(sorted(self.arrays)[:8]) or "none"
        raise errors.CannotExpress(
            f"a {suffix} file can hold one array only; give the path of one: {names}"
        )


class FileOutput(Output):
    """One file: complete under its name, or not there."""

    def __init__(self, file: str, writer: FileWriter, overwrite: bool) -> None:
        self.file, self.writer, self.overwrite = os.path.abspath(file), writer, overwrite
        self.folder, self.name = os.path.split(self.file)
        self.temporary = os.path.join(
            self.folder, f".{self.name}.{extension.key_digest(self.file)[:12]}.part"
        )
        self.store = extension.LocalStore(self.folder)

    @property
    def place(self) -> tuple[Store, str]:
        """The folder, which must exist, and the name of the file."""
        if not os.path.isdir(self.folder):
            raise errors.NodeNotFound(f"there is no directory {self.folder!r} to write to")
        return self.store, self.name

    def begin(self, resume: bool, shared: bool) -> Begun:
        """Make the file under its temporary name."""
        self._check_free()
        if shared:
            raise InvalidArgument(f"{self.name!r} cannot be written in parts; leave part out")
        if resume:
            errors.warn(f"{self.name!r} cannot be resumed: it is written from the start")
        self.abandon()  # what a process that was killed has left
        try:
            self.writer.prepare(self.temporary)
        except BaseException:
            self.abandon()
            raise
        return "new"

    def _check_free(self) -> None:
        if os.path.isdir(self.file):
            raise errors.NodeExists(f"{self.file!r} is a directory; give the name of a file")
        if os.path.exists(self.file) and not self.overwrite:
            raise errors.NodeExists(f"{self.file!r} exists; give overwrite=True to replace it")

    def finish(self) -> None:
        """Give the file its name."""
        self._check_free()
        descriptor = os.open(self.temporary, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(self.temporary, self.file)

    def abandon(self) -> None:
        """Remove the unfinished file."""
        with suppress(OSError):  # if there was an error, it is the one to raise
            os.unlink(self.temporary)

    def _keys(self) -> Iterator[str]:
        return iter([self.name])


@dataclass
class ExportOptions(MemoryOptions):
    """The options of `export_file`."""

    source: Any = field(metadata=SOURCE)
    file: str | os.PathLike[str] = field(
        metadata=told("The path of the file, whose name says the format unless `format` does.")
    )
    _: KW_ONLY
    path: str | None = option(None, "The path of the node in the source.")
    format: Format | None = option(None, "The format of the file, if its name does not say it.")
    dtype: Any = option(
        None, "The data type of arrays of numbers, such as ``f4``; values must fit it."
    )
    compression: str | None = option(
        AUTO, 'None for none; ``"auto"`` and ``"deflate"`` for Deflate, which all readers know.'
    )
    exclude: Sequence[str] = option((), "Patterns of paths to leave out.")
    strict: bool = option(False, "Fail if anything would be left out, instead of listing it.")
    overwrite: bool = option(False, "Replace an existing file.")


@dataclass
class ExportArguments(ExportOptions, RunOptions):
    """The arguments of `export_file`."""


@dataclass
class Export(ExportOptions, Job[Filled]):
    """The job of `export_file`, which explains the options.

    Examples:
        >>> oz.save("a.zarr", np.arange(6))
        >>> oz.run(oz.jobs.Export("a.zarr", "a.h5")).arrays
        1
    """

    def plan(self, tasks_at_once: int = 1) -> Plan[Filled]:
        """Read the metadata and decide what to do; nothing is written."""
        file = os.fspath(self.file)
        kind = self.format or format_of_name(file)
        if kind not in WRITERS:
            raise InvalidArgument(f"unknown format {kind!r}; {errors.known_names(kind, WRITERS)}")
        if self.compression not in (None, AUTO, "deflate", "gzip", "zlib"):
            raise InvalidArgument(
                f"compression must be None, 'auto' or 'deflate', got {self.compression!r}"
            )
        node = open_zarr(self.source, path=self.path, storage_options=self.storage_options)
        extension.check_whole(node.store, node.path)
        arrays, groups = self._contents(node)
        memory = memory_of(self.memory, tasks_at_once)
        make: Callable[..., FileWriter] = registry.load(WRITERS[kind])
        writer = make(arrays, groups, self.dtype, self.compression, memory)
        writer.node = node
        for array in arrays.values():
            wanted = writer.type_of(array)
            if wanted != array.dtype and wanted.kind in NUMBERS:
                check_cast(array.dtype, wanted, array.name)
                check_sign(array.attrs, array.dtype, wanted, array.name)
        writer.check()
        if self.strict:
            raise_if_skipped(writer.skipped, "exported")
        if not writer.arrays and writer.skipped:
            reasons = "; ".join(f"{k}: {v}" for k, v in writer.skipped.items())
            raise errors.CannotExpress(
                f"nothing of {node.name} can be written to {file!r}: {reasons}"
            )
        output = FileOutput(file, writer, self.overwrite)
        phase: Phase[Filled] = Phase(
            "write the file",
            lambda: writer.tasks(output.temporary),
            writer.count,
            writer.size,
            bytes_written=writer.size,
        )
        decisions = [f"{kind}: {len(writer.arrays)} arrays", *writer.notes]
        decisions.append("an interrupted export leaves no file and starts again")
        decisions += [f"left out: {k}: {v}" for k, v in writer.skipped.items()]
        return Plan(
            f"export {node.name} of {node.store!r} to {file}",
            extension.key_digest("export", os.path.abspath(file)),
            [phase],
            Filled(len(writer.arrays), len(groups), 0, writer.skipped, writer.notes),
            output,
            decisions,
            memory_of(self.memory, 1),
        )

    def _contents(self, node: Array | Group) -> tuple[dict[str, Array], dict[str, Any]]:
        """Return the arrays and the attributes of groups, by path below the node."""
        if isinstance(node, Array):
            return {"": node}, {}
        arrays: dict[str, Array] = {}
        groups: dict[str, Any] = {"": node.attrs.asdict()}
        for path, member in node.members(max_depth=None):
            if is_below_any(path, self.exclude):
                continue
            if isinstance(member, Array):
                arrays[path] = member
            else:
                groups[path] = member.attrs.asdict()
        return arrays, groups


@takes(ExportArguments)
def export_file(given: ExportArguments) -> Filled:
    """Write an array, a group or an image to a file of another format.

    The name of the file says the format: ``.nc`` (NetCDF4), ``.h5``, ``.tif`` or ``.ome.tif``.

    Returns:
        The numbers of arrays and bytes, and what was left out.

    Raises:
        NodeNotFound: If there is nothing at the source.
        NodeExists: If the file exists.
        CannotExpress: If the format cannot express the source.

    Examples:
        >>> oz.save("a.zarr", np.arange(6))
        >>> oz.export_file("a.zarr", "a.h5").arrays
        1
        >>> import h5py
        >>> h5py.File("a.h5")["data"][...]
        array([0, 1, 2, 3, 4, 5])
    """
    return launch(Export, given)
