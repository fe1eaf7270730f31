"""Import files of other formats as Zarr: `import_file`, and the job `Import`.

A file becomes an array or a group at the destination, several files become groups and arrays with
their names. Images of OME-TIFF become OME-Zarr images with levels. The result is visible when it is
complete; an import that was interrupted is resumed if the files have not changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Any

import numpy as np

from omnizarr import extension
from omnizarr.bulk.job import Job, Phase, Plan, memory_of, run
from omnizarr.bulk.journal import Task
from omnizarr.bulk.options import MemoryOptions, RunOptions, option, told
from omnizarr.bulk.tiles import item_bytes
from omnizarr.bulk.transfer import (
    Filled,
    check_cast,
    check_sign,
    cut,
    fill_tasks,
    items_for,
    target_array,
)
from omnizarr.conventions.cf.packing import FILL, NAMES, find_word, mark_missing
from omnizarr.conventions.ome.levels import NewImage, image_name, new_metadata, plan_levels
from omnizarr.conventions.ome.model import Metadata, to_json
from omnizarr.conventions.ome.pyramid import (
    ImageOutput,
    describe_image,
    level_phases,
    node_documents,
)
from omnizarr.conventions.ome.versions import to_attributes, version_on
from omnizarr.errors import CannotExpress, InvalidArgument, InvalidName, MissingModule, warn
from omnizarr.extension import DEFAULT_FILL, ArrayModel, GroupModel, Location, Node, paths, stores
from omnizarr.interop.files.contents import (
    ArrayEntry,
    Contents,
    ImageEntry,
    fingerprint,
    is_below_any,
    raise_if_skipped,
    read_contents,
)

Lengths = int | str | Sequence[int] | Mapping[str, int] | None
# Attributes of the numbers of an image, which each of its levels has.
_OF_VALUES = (
    FILL, "missing_value", *NAMES, "_Unsigned", "scale_factor", "add_offset", "units",
)  # fmt: skip
_VARIABLE = ("filters", "serializer")  # options of codecs that text of any length cannot have


@dataclass
class Import(MemoryOptions, Job[Filled]):
    """The job of `import_file`.

    Examples:
        >>> np.save("a.npy", np.arange(6))
        >>> oz.run(oz.jobs.Import("a.npy", "a.zarr")).arrays
        1
    """

    files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = field(
        metadata=told("The path of a file, or several.")
    )
    destination: Any = field(metadata=told("A path, URL or store."))
    _: KW_ONLY
    path: str | None = option(None, "The path of the new node inside the destination.")
    zarr_format: int | str | None = option(
        None, "The Zarr version to write; by default as in the hierarchy, or 3."
    )
    chunks: Lengths = option(
        None,
        "The chunk shape of all arrays, as in `create_array`, or lengths by dimension name, such as"
        ' ``{"time": 100, "lat": -1}``. By default, the chunks of the file.',
    )
    shards: Lengths = option(None, "The shard shape, in the same forms.")
    dtype: Any = option(
        None, "The data type of arrays of numbers, such as ``f4``; values must fit it."
    )
    image: bool | None = option(
        None, "Write images with levels, or plain arrays; by default images for OME-TIFF."
    )
    levels: int | None = option(None, "Number of levels, including full resolution.")
    method: str = option("mean", "Downsampling method of images.")
    exclude: Sequence[str] = option((), "Patterns of paths to leave out.")
    strict: bool = option(False, "Fail if anything would be left out, instead of listing it.")
    overwrite: bool = option(False, "Replace existing data at the destination.")
    options: Mapping[str, Any] = field(
        default_factory=dict,
        metadata=told('Options of `create_array`, such as ``{"compressors": "zstd"}``.'),
    )

    def plan(self, tasks_at_once: int = 1) -> Plan[Filled]:
        """Read what the files hold and decide what to do; nothing is written."""
        given = self.files
        files = [given] if isinstance(given, (str, os.PathLike)) else list(given)
        names = [os.fspath(file) for file in files]
        store = stores.resolve(self.destination, storage_options=self.storage_options)
        location = extension.new_location(store, self.path, self.zarr_format)
        contents = self._chosen(_joined(names))
        planned = _Nodes(self, location, contents)
        planned.prepare()
        if self.strict:
            raise_if_skipped(contents.skipped, "imported")
        _warn_of_uninstalled(contents)
        what = names[0] if len(names) == 1 else f"{len(names)} files"
        operation = f"import {what} to {location}"
        digest = extension.key_digest(
            "import",
            [list(fingerprint(name)) for name in names],
            self.method,
            node_documents(location, planned.nodes),
        )
        output = ImageOutput(
            location, planned.nodes, operation=operation, digest=digest, overwrite=self.overwrite
        )
        output.images = planned.images
        memory = memory_of(self.memory, tasks_at_once)
        groups = sum(isinstance(node, GroupModel) for node in planned.nodes.values())
        return Plan(
            operation,
            digest,
            [planned.first_phase(output, memory), *level_phases(planned.images, output, memory)],
            Filled(len(planned.nodes) - groups, groups, 0, contents.skipped, contents.notes),
            output,
            planned.decisions(),
            memory_of(self.memory, 1),
        )

    def _chosen(self, contents: Contents) -> Contents:
        """Return the contents without what is excluded."""
        everything = (*contents.arrays, *contents.groups, *contents.skipped)
        for pattern in self.exclude:
            gone = [path for path in everything if path and is_below_any(path, [pattern])]
            if not gone:
                raise InvalidArgument(f"exclude: nothing in the files matches {pattern!r}")
            for path in gone:
                for members in (
                    contents.arrays, contents.groups, contents.skipped, contents.uninstalled,
                ):  # fmt: skip
                    members.pop(path, None)
        return contents


def _warn_of_uninstalled(contents: Contents) -> None:
    """Warn of arrays that need a package; raise if there are no others."""
    lines = [f"{path}: {reason}" for path, reason in contents.uninstalled.items()]
    if lines and not contents.arrays:
        raise MissingModule(f"nothing can be imported; {'; '.join(lines)}")
    for line in lines:
        warn(f"left out: {line}")


def _joined(files: list[str]) -> Contents:
    """Return the contents of all files; if there are several, below the name of each file."""
    if not files:
        raise InvalidArgument("give at least one file to import")
    if len(files) == 1:
        return read_contents(files[0])
    joined = Contents(groups={"": {}})
    used: dict[str, str] = {}
    for file in files:
        name = os.path.basename(file).partition(".")[0] or os.path.basename(file)
        if name in used:
            raise InvalidArgument(f"{used[name]!r} and {file!r} would both become {name!r}")
        used[name] = file
        found = read_contents(file)
        joined.arrays.update({paths.join(name, p): e for p, e in found.arrays.items()})
        joined.groups.update({paths.join(name, p): a for p, a in found.groups.items()})
        joined.skipped.update({f"{name}/{p}": r for p, r in found.skipped.items()})
        joined.uninstalled.update({f"{name}/{p}": r for p, r in found.uninstalled.items()})
        joined.notes.extend(f"{name}: {note}" for note in found.notes)
    return joined


@dataclass
class _Nodes:
    """The nodes to write, and where the values of each array come from."""

    job: Import
    location: Location
    contents: Contents
    nodes: dict[str, Node] = field(default_factory=dict)
    sources: dict[str, ArrayEntry] = field(default_factory=dict)
    images: list[NewImage] = field(default_factory=list)

    def prepare(self) -> None:
        """Decide about all arrays and groups; what the format cannot express is left out."""
        _check_dimensions(self.job, self.contents)
        for path, attributes in self.contents.groups.items():
            self._try(path, lambda p=path, a=attributes: self._add_group(p, a))  # type: ignore[misc]
        for path, entry in self.contents.arrays.items():
            self._try(path, lambda p=path, e=entry: self._add_array(p, e))  # type: ignore[misc]
        if not self.sources and not self.nodes:
            skipped = self.contents.skipped.items()
            reasons = "; ".join(f"{k}: {v}" if k else v for k, v in skipped)
            raise CannotExpress(f"nothing can be imported to {self.location}: {reasons}")
        if self.job.levels is not None and not self.images:
            self.contents.notes.append("there are no levels: nothing is an image; give image=True")
        self._add_parents()
        self._add_layout()

    def _try(self, path: str, add: Callable[[], None]) -> None:
        try:
            add()
        except (CannotExpress, InvalidName) as e:
            self.contents.skipped[path] = str(e)
            full = paths.join(self.location.path, path)
            for each in [p for p in self.nodes if p == full or p.startswith(paths.prefix(full))]:
                del self.nodes[each]
                self.sources.pop(each, None)

    def _add_group(self, path: str, attributes: Mapping[str, Any]) -> None:
        full = paths.join(self.location.path, path)
        paths.check_new(full)
        self.location.format.check_name(full)
        node = GroupModel(_finite(attributes, path, self.contents.notes))
        self.location.format.write(full, node)
        self.nodes[full] = node

    def _add_array(self, path: str, entry: ArrayEntry) -> None:
        full = paths.join(self.location.path, path)
        format = self.location.format
        paths.check_new(full)
        format.check_name(full)
        if self.job.image and entry.as_image is not None:
            if entry.attributes.keys() & {"spatial:transform", "_CRS"}:
                self.contents.skipped["place on the Earth"] = "an image has none; import an array"
            entry = entry.as_image
        image = self._image(entry)
        if image is not None and np.dtype(entry.dtype).kind in "iufb":
            self._add_image(full, entry, image)
            return
        if entry.image is not None and (entry.image.scale or entry.image.channels):
            self.contents.skipped[f"{path or '/'}@image"] = (
                "a plain array has no pixel sizes and channels"
            )
        dtype = self._dtype(path, entry)
        options = self._options(path, entry, dtype)
        try:
            model = extension.array_model(format, entry.shape, dtype, options)
        except InvalidArgument as e:
            raise InvalidArgument(f"{paths.show(path)}: {e}") from e
        format.write(full, model)
        self.nodes[full] = model
        self.sources[full] = entry

    def _image(self, entry: ArrayEntry) -> ImageEntry | None:
        """Return the description of an image if the array is to become one."""
        if self.job.image is False:
            return None
        if entry.image is not None or not self.job.image:
            return entry.image
        axes = entry.stated_axes or "".join(n or "?" for n in entry.dimension_names or ())
        known = 2 <= len(axes) <= 5 and set(axes) <= set("tczyx")
        if (axes or entry.dimension_names is not None) and not known:
            raise CannotExpress(
                f"an image has the axes t, c, z, y and x, not {axes!r}; to name them, read the"
                " pixels and write them with omnizarr.ome.write(…, axes=…)"
            )
        return ImageEntry(axes) if known else ImageEntry("tczyx"[5 - len(entry.shape) :])

    def _add_image(self, full: str, entry: ArrayEntry, image: ImageEntry) -> None:
        dtype = np.dtype(self._dtype(full, entry))
        options: Any = {**self.job.options, **self._shapes(full, entry)}
        attributes, missing = self._attributes(full, entry)
        if missing is not None:
            mark_missing(attributes, missing, dtype)
        values = {k: v for k, v in attributes.items() if k in _OF_VALUES}
        options["attributes"] = {**values, **(options.get("attributes") or {})}
        described: dict[str, Any] = {
            "axes": image.axes,
            "scale": dict(image.scale) or None,
            "unit": dict(image.units) or None,
            "channels": image.channels or None,
            "levels": self.job.levels,
            "method": self.job.method,
            "name": image.name or image_name(self.job.destination, full),
        }
        try:
            metadata, steps = new_metadata(entry.shape, **described)
            pixels = np.broadcast_to(np.zeros((), dtype), entry.shape)  # which are not stored
            new = plan_levels(self.location, full, pixels, options, metadata, steps)
        except InvalidArgument as e:
            raise InvalidArgument(f"{paths.show(full)}: {e}") from e
        nodes = new.nodes()
        extra = {k: v for k, v in attributes.items() if k not in _OF_VALUES}
        group = nodes[full]
        nodes[full] = group.with_(attributes={**extra, **group.attributes})
        self.nodes.update(nodes)
        self.sources[next(iter(new.models))] = entry
        self.images.append(new)

    def _dtype(self, path: str, entry: ArrayEntry) -> Any:
        """Return the type of an array: the job's for numbers; coordinates keep their own."""
        own = entry.dtype
        if self.job.dtype is None or own is str or np.dtype(own).kind not in "iufc":
            return own
        if entry.dimension_names == (paths.name(path),):
            return own
        wanted = np.dtype(self.job.dtype)
        check_cast(np.dtype(own), wanted, paths.show(path))
        check_sign(entry.attributes, np.dtype(own), wanted, paths.show(path))
        return wanted

    def _options(self, path: str, entry: ArrayEntry, dtype: Any) -> Any:
        """Return the options of `create_array` for an array."""
        options: dict[str, Any] = {**self.job.options, **self._shapes(path, entry)}
        if dtype is str:
            options = {k: v for k, v in options.items() if k not in _VARIABLE}
        attributes, missing = self._attributes(path, entry)
        fill = entry.fill_value
        if self.location.format.undefined_fill:
            if entry.dimension_names is None and fill is not DEFAULT_FILL and missing is None:
                self.contents.notes.append(
                    f"{paths.show(path)}: the fill value {fill!r} is left out, as it would mark"
                    f" missing values in zarr {self.location.format.name}"
                )
            fill = missing  # in version 2, xarray takes the fill value for missing values
            if missing is None and "fill_value" in options:
                fill = DEFAULT_FILL
        elif missing is not None:
            kind = np.dtype(object if dtype is str else dtype)
            mark_missing(attributes, missing, kind)
            if kind.kind == "S":
                self.contents.notes.append(
                    f"{paths.show(path)}: xarray cannot open a {FILL} of bytes in zarr"
                    f" {self.location.format.name} with its own engine, only with 'omnizarr'"
                )
        if fill is not DEFAULT_FILL:
            options["fill_value"] = _fitting(fill, dtype)
        options["attributes"] = attributes
        if entry.dimension_names is not None:
            options["dimension_names"] = entry.dimension_names
        return options

    def _attributes(self, path: str, entry: ArrayEntry) -> tuple[dict[str, Any], Any]:
        """Return the attributes of an array as JSON, and the number for missing values."""
        given, missing = dict(entry.attributes), entry.missing
        if _is_nan(given.get("missing_value")) and (missing is None or _is_nan(missing)):
            missing = given.pop("missing_value")  # JSON has no NaN, but `_FillValue` can be one
        return _finite(given, path, self.contents.notes), missing

    def _shapes(self, path: str, entry: ArrayEntry) -> dict[str, Any]:
        found: dict[str, Any] = {}
        chunks = _lengths(self.job.chunks, entry, entry.chunks)
        if chunks is None and entry.chunks is not None:
            chunks = tuple(max(1, min(c, max(n, 1))) if n else c
                           for c, n in zip(entry.chunks, entry.shape, strict=True))  # fmt: skip
        if chunks is not None and entry.shape:
            found["chunks"] = chunks
        shards = _lengths(self.job.shards, entry, None)
        if shards is not None and entry.shape:
            found["shards"] = shards
        return found

    def _add_parents(self) -> None:
        """Add the groups above all nodes that the files do not name, down from the destination."""
        start = self.location.path
        for full in list(self.nodes):
            inside = full.removeprefix(paths.prefix(start)) if full != start else ""
            parts = inside.split("/")
            for i in range(len(parts)):
                self.nodes.setdefault(paths.join(start, "/".join(parts[:i])), GroupModel())

    def _add_layout(self) -> None:
        """Describe several images of one file as bioformats2raw does, so that readers find them."""
        start = self.location.path
        inner = [image.path.removeprefix(paths.prefix(start)) for image in self.images]
        version = version_on(self.location.format.name)
        if version is None or not inner or len(inner) != len(self.sources) or inner == [start]:
            return
        if inner != [str(i) for i in range(len(inner))]:
            return
        root = to_attributes(to_json(Metadata(bioformats2raw=3)), version.name, {})
        listed = to_attributes(to_json(Metadata(series=tuple(inner))), version.name, {})
        self.nodes[start] = GroupModel({**self.nodes[start].attributes, **root})
        self.nodes[paths.join(start, "OME")] = GroupModel(listed)

    def first_phase(self, output: ImageOutput, memory: int) -> Phase[Filled]:
        """Return the phase that reads the files."""
        models = {path: self.nodes[path] for path in self.sources}

        def tasks() -> Iterator[Task[Filled]]:
            for path, entry in self.sources.items():
                model = models[path]
                if isinstance(model, ArrayModel):
                    target = target_array(output, path, model)
                    yield from fill_tasks(entry.values, target, _items_per_task(entry, memory))

        count = size = 0
        for path, entry in self.sources.items():
            model = models[path]
            if isinstance(model, ArrayModel):
                target = extension.unpublished(output.location.at(path), model)
                count += cut(target, _items_per_task(entry, memory)).count
                size += int(np.prod(entry.shape, dtype=object)) * item_bytes(entry.dtype)
        return Phase("read the files", tasks, count, size, bytes_read=size)

    def decisions(self) -> list[str]:
        """Return lines about the chosen options."""
        lines = [f"zarr {self.location.format.name}: {len(self.sources)} arrays"]
        lines += [line for image in self.images for line in describe_image(image)]
        lines += self.contents.notes
        return lines + [f"left out: {k}: {v}" for k, v in self.contents.skipped.items()]


def _check_dimensions(job: Import, contents: Contents) -> None:
    """Raise if chunks or shards name a dimension that no array has."""
    known = {n for e in contents.arrays.values() for n in e.dimension_names or () if n}
    for what, given in (("chunks", job.chunks), ("shards", job.shards)):
        if isinstance(given, Mapping):
            for name in given:
                if name not in known:
                    names = ", ".join(sorted(known)) or "none has a name"
                    raise InvalidArgument(f"{what}: no dimension {name!r}; dimensions: {names}")


def _lengths(given: Lengths, entry: ArrayEntry, default: tuple[int, ...] | None) -> Any:
    """Return chunks or shards as `create_array` takes them; None for the default."""
    if not isinstance(given, Mapping):
        return given
    names = entry.dimension_names or (None,) * len(entry.shape)
    if not set(names) & set(given):
        return None
    rest = default or entry.shape
    return tuple(
        max(1, n) if given.get(name, d) == -1 else given.get(name, d)  # type: ignore[arg-type]
        for name, d, n in zip(names, rest, entry.shape, strict=True)
    )


def _fitting(fill: Any, dtype: Any) -> Any:
    """Return a fill value in the type of the array."""
    if fill is None or dtype is str or np.dtype(dtype).kind in "SUVMm":
        return fill
    with np.errstate(all="ignore"):
        return np.asarray(fill).astype(np.dtype(dtype))[()]


def _is_nan(value: Any) -> bool:
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))


def _finite(attributes: Mapping[str, Any], path: str, notes: list[str]) -> dict[str, Any]:
    """Return attributes with NaN and infinities as text, which JSON lacks; take note of them."""

    def plain(value: Any) -> Any:
        if isinstance(value, float) and not np.isfinite(value):
            notes.append(f"an attribute of {paths.show(path)} is {value}, stored as text")
            return "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        if isinstance(value, dict):
            return {k: plain(v) for k, v in value.items()}
        return [plain(v) for v in value] if isinstance(value, list) else value

    for name, value in attributes.items():
        word = find_word(value)
        if word is not None:
            notes.append(
                f"the attribute {name!r} of {paths.show(path)} has the text {word!r}, which xarray"
                " and exports take for a number"
            )
    return {name: plain(value) for name, value in attributes.items()}


def _items_per_task(entry: ArrayEntry, memory: int) -> int:
    """Return how many elements one task may handle."""
    size = int(np.prod(entry.shape, dtype=object))
    return max(1, size) if entry.whole else items_for(memory, entry.dtype)


def import_file(files: Any, destination: Any, **options: Any) -> Filled:
    """Write the contents of files of other formats as Zarr, and report the result.

    Formats are HDF5, NetCDF4, TIFF, OME-TIFF, ``.npy`` and ``.npz``.

    Args:
        files: The path of a file, or several.
        destination: A path, URL or store.
        **options: Fields of `jobs.Import`, such as `chunks`, options of `run`, and options of
            `create_array`, such as `compressors`.

    Returns:
        The numbers of arrays and bytes, and what was left out.

    Raises:
        NodeExists: If there is something at the destination.
        InvalidArgument: If a file is not of one of these formats.
        MissingPackage: If a package for the format is not installed.

    Examples:
        >>> np.save("a.npy", np.arange(6))
        >>> oz.import_file("a.npy", "a.zarr", chunks=3).arrays
        1
        >>> oz.open("a.zarr")[...]
        array([0, 1, 2, 3, 4, 5])
    """
    runs: Any = {
        each.name: options.pop(each.name) for each in fields(RunOptions) if each.name in options
    }
    own = {name: options.pop(name) for name in list(options) if name in Import.__dataclass_fields__}
    own["options"] = {**own.get("options", {}), **options}
    return run(Import(files, destination, **own), **runs)
