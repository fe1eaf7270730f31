"""Migrate OME-Zarr between versions, and translate its metadata for `convert`.

A migration is a conversion whose nodes get the metadata of the other version: only metadata is
written if the chunks can be kept, and new chunks otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from omnizarr import Group
from omnizarr.bulk.adaptation import cannot_convert
from omnizarr.bulk.convert import ChunkProgress, Convert, ConvertReport, show_chunks
from omnizarr.bulk.in_place import (
    InPlaceOutput,
    find_source,
    has_root,
    old_metadata,
    undo_conversion,
)
from omnizarr.bulk.job import run
from omnizarr.conventions.ome.image import Image
from omnizarr.conventions.ome.model import Metadata, to_json
from omnizarr.conventions.ome.rules import Loaded, check, load
from omnizarr.conventions.ome.versions import (
    NEWEST,
    RawMetadata,
    Version,
    find_metadata,
    to_attributes,
    version_on,
    writable_version,
)
from omnizarr.errors import (
    CannotExpress,
    InvalidArgument,
    InvalidMetadata,
    NodeNotFound,
    OmnizarrError,
)
from omnizarr.extension import (
    ARRAY_DIMENSIONS,
    ArrayModel,
    Format,
    GroupModel,
    Location,
    MemoryStore,
    Node,
    by_name,
    find_node,
    marker,
    options_for_two,
    paths,
    stores,
)

# Members of the groups that a hierarchy of OME-Zarr starts at.
_ROOTS = ("multiscales", "plate", "bioformats2raw.layout")


@dataclass
class MigrateImage(Convert):
    """A conversion of an image or plate to a version of OME-Zarr."""

    version: str = NEWEST

    def translate(
        self, start: Location, nodes: dict[str, Node], goal: Format, separator: str | None
    ) -> tuple[dict[str, Node], str | None]:
        """Return the nodes with the metadata of the version."""
        root, version = _loaded_root(start, nodes[start.path]), writable_version(self.version)
        return translated(start, nodes, root, version, self.in_place), separator


@dataclass(frozen=True)
class Migration:
    """The result of a migration, or of its dry run."""

    source: str  # the version before
    target: str  # the version after
    documents: tuple[str, ...]  # keys of the new metadata, if chunks were kept in place
    removed: tuple[str, ...]  # keys of old metadata that were erased
    report: ConvertReport
    dry_run: bool


def migrate(
    store: Any,
    destination: Any = None,
    *,
    to: str = NEWEST,
    in_place: bool = False,
    remove_old: bool = False,
    overwrite: bool = False,
    dry_run: bool = False,
    checksum: bool = False,
    progress: ChunkProgress | None = None,
    storage_options: Mapping[str, Any] | None = None,
    destination_options: Mapping[str, Any] | None = None,
) -> Migration:
    """Migrate an image or plate, with labels, wells and fields, to another version of OME-Zarr.

    In place, only metadata is written, beside the old metadata, and no chunk is touched; if chunks
    cannot be kept, it fails before anything is written. With a destination, everything is copied,
    and chunks are re-encoded where necessary.

    Args:
        store: A path, URL, dict or store.
        destination: A path, URL or store; None with `in_place`.
        to: The version of OME-Zarr.
        in_place: True to add metadata of the other version; `undo_migration` removes them again.
        remove_old: With `in_place`, True to erase the old metadata.
        overwrite: True to replace what is at the destination.
        dry_run: True to report the result without writing anything.
        checksum: True to keep checksums in 0.4, too, as in `convert`.
        progress: A function of the number of chunks done, their total number, and the array's path.
        storage_options: Options for the stores of URLs, such as credentials.
        destination_options: Options for the store of the destination, instead of `storage_options`.

    Returns:
        The versions, and the keys that were written and erased.

    Raises:
        InvalidMetadata: If the image is not valid, or there is no such version.
        InvalidArgument: If the image has that version already.
        TypeError: If there is neither a destination nor `in_place`.
        CannotExpress: If chunks cannot be kept in place, or both versions have the same keys.

    Examples:
        >>> image = oz.ome.write("old.zarr", np.ones((8, 8)), axes="yx", version="0.4")
        >>> oz.ome.migrate("old.zarr", "new.zarr").target
        '0.5'
    """
    if in_place != (destination is None):
        raise TypeError("give a destination, or in_place=True")
    if remove_old and not in_place:
        raise TypeError("remove_old requires in_place=True; a copy does not change the source")
    goal = writable_version(to)
    here, there = options_for_two(store, destination, storage_options, destination_options)
    inner = stores.resolve(store, read_only=not in_place or dry_run, storage_options=here)
    if not in_place:
        destination = MemoryStore() if dry_run else stores.resolve(
            destination, storage_options=there
        )  # fmt: skip
    added = by_name(goal.zarr_format)
    start, node = find_source(inner, added) if remove_old else find_node(inner, "")
    left = start.format.name != added.name or inner.get(marker("")) is not None
    again = remove_old and left and has_root(inner, added)
    if again:  # after a call that was interrupted, or without remove_old
        name = next(v for v in ("0.4", "0.5") if v != to)
    else:
        root = _loaded_root(start, node)
        name = root.version_name
        if root.version == goal:
            raise InvalidArgument(f"{start} is already OME-Zarr {to}")
        if in_place and root.version.stands_on(goal.zarr_format):
            raise CannotExpress(
                f"cannot migrate {start} in place: OME-Zarr {name} and {to} keep their metadata"
                " under the same keys; give a destination"
            )
    job = MigrateImage(
        inner, destination, zarr_format=goal.zarr_format, overwrite=overwrite, in_place=in_place,
        remove_old=remove_old, dimension_separator=None if in_place else "/",
        checksum=checksum or again, measure=progress is not None, version=to,
    )  # fmt: skip
    plan = job.plan()
    documents: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    if isinstance(plan.output, InPlaceOutput):
        documents = tuple(sorted(plan.output.documents, key=lambda key: (-key.count("/"), key)))
        removed = tuple(old_metadata(start, plan.output.nodes, added)) if remove_old else ()
    show = None if progress is None else partial(show_chunks, progress)
    report = plan.outcome if dry_run else run(job, progress=show)
    return Migration(name, to, documents, removed, report, dry_run)


def _loaded_root(start: Location, node: Node) -> Loaded:
    loaded = load(Group.at(start, node))
    if loaded is None:
        raise InvalidMetadata(f"{start} has no OME-Zarr metadata; use convert for plain Zarr")
    return loaded


def undo_migration(
    store: Any, *, to: str = NEWEST, storage_options: Mapping[str, Any] | None = None
) -> tuple[str, ...]:
    """Erase the metadata of a version that a migration in place added.

    Args:
        store: A path, URL, dict or store.
        to: The version of OME-Zarr whose metadata are erased.
        storage_options: Options for the store of a URL, such as credentials.

    Returns:
        The keys of the metadata.

    Raises:
        NodeNotFound: If a node has no metadata of another version.
        StoreError: If something would be lost: a node has only the new metadata, or the shape or
            attributes of a node were changed since the migration. Nothing is erased then.

    Examples:
        >>> image = oz.ome.write("cell.zarr", np.ones((8, 8)), axes="yx", version="0.4", levels=1)
        >>> migration = oz.ome.migrate("cell.zarr", in_place=True)
        >>> sorted(oz.ome.undo_migration("cell.zarr"))
        ['0/zarr.json', 'zarr.json']
    """
    zarr_format = writable_version(to).zarr_format
    return undo_conversion(store, zarr_format=zarr_format, storage_options=storage_options)


def for_format(
    start: Location, nodes: dict[str, Node], goal: Format, in_place: bool, separator: str | None
) -> tuple[dict[str, Node], str | None]:
    """Return the nodes for a conversion to another Zarr format, and the chunk key separator.

    Valid images and plates get the metadata of the OME-Zarr version for that Zarr format.
    """
    roots = dict(_roots(start, nodes))
    changed, failures = _translate_roots(start, nodes, roots, goal, in_place)
    target = version_on(goal.name)
    for path, version in roots.items():
        if path in failures:
            continue
        wanted = version.separator
        if target is not None and not version.stands_on(goal.name):
            wanted = target.separator
            separator = separator or wanted
        if wanted is not None and separator not in (None, wanted):
            raise InvalidArgument(
                f"{start.at(path)} is OME-Zarr, which requires the separator {wanted!r} in version"
                f" 2, not {separator!r}; omit dimension_separator"
            )
    if len(failures) == 1:
        raise next(iter(failures.values()))
    if failures:
        raise cannot_convert(start, goal, failures)
    return changed, separator


def for_view(
    start: Location, nodes: Mapping[str, Node], goal: Format
) -> tuple[dict[str, Node], dict[str, OmnizarrError]]:
    """Return some nodes as `for_format` has them, and the errors of images that it cannot have.

    With a node come all groups above it. An image may lack a level, as the stored one does.
    """
    several = _with_levels(start, nodes)
    changed, failures = _translate_roots(
        start, several, dict(_roots(start, several)), goal, in_place=False, complete=False
    )
    return {path: changed[path] for path in nodes}, failures


def _translate_roots(
    start: Location,
    nodes: Mapping[str, Node],
    roots: Mapping[str, Version],
    goal: Format,
    in_place: bool,
    complete: bool = True,
) -> tuple[dict[str, Node], dict[str, OmnizarrError]]:
    """Return the nodes with the OME-Zarr version for a Zarr format, and the errors by root."""
    target = version_on(goal.name)
    changed = dict(nodes)
    failures: dict[str, OmnizarrError] = {}
    for path, inside in _subtrees(nodes, roots):
        location, version = start.at(path), roots[path]
        if version.stands_on(goal.name):
            continue
        if target is None:
            failures[path] = CannotExpress(
                f"{location} is OME-Zarr {version.name}, and no version of OME-Zarr is based on"
                f" zarr {goal.name}; convert to 2 or 3"
            )
            continue
        try:
            root = load(Group.at(location, nodes[path]))
            if root is not None:
                changed.update(translated(start, inside, root, target, in_place, complete))
        except OmnizarrError as e:
            failures[path] = e
    return changed, failures


def _with_levels(start: Location, nodes: Mapping[str, Node]) -> dict[str, Node]:
    """Return nodes together with the levels of all images among them, parents first."""
    found = dict(nodes)
    for path, node in nodes.items():
        raw = find_metadata(node.attributes) if isinstance(node, GroupModel) else None
        if raw is None or any(p.level == "error" for p in check(raw, "")):
            continue
        for multiscale in raw.read().multiscales:
            for dataset in multiscale.datasets:
                level = paths.join(path, paths.normalize(dataset.path))
                with suppress(OmnizarrError):  # it is absent, or cannot be read
                    there = found.get(level) or start.at(level).find([])
                    if there is not None:
                        found[level] = there
    return {path: found[path] for path in sorted(found, key=paths.prefix)}


def _subtrees(
    nodes: Mapping[str, Node], roots: Mapping[str, Version]
) -> Iterator[tuple[str, dict[str, Node]]]:
    """Yield each root with all nodes at and below it, which follow each other."""
    current, inside = None, dict[str, Node]()
    for path, node in nodes.items():
        if current is not None and not _is_below(path, current):
            yield current, inside
            current, inside = None, {}
        if path in roots:
            current = path
        if current is not None:
            inside[path] = node
    if current is not None:
        yield current, inside


def _roots(start: Location, nodes: Mapping[str, Node]) -> Iterator[tuple[str, Version]]:
    """Yield the paths and versions of valid images, plates and series not inside others."""
    last: str | None = None
    for path, node in nodes.items():  # parents come first
        if not isinstance(node, GroupModel) or (last is not None and _is_below(path, last)):
            continue
        found = find_metadata(node.attributes)
        if found is None or not any(name in found.members for name in _ROOTS):
            continue
        if any(p.level == "error" for p in check(found, "")):
            continue
        version = found.known_version
        if version.stands_on(start.format.name) and _is_image(path, nodes, found, version):
            last = path
            yield path, version


def _is_image(path: str, nodes: Mapping[str, Node], found: RawMetadata, version: Version) -> bool:
    """Return True if the levels have the axes of an image, which versions before 0.3 only imply.

    Maps may have the same metadata as OME-Zarr 0.1.
    """
    if version.name > "0.2":
        return True
    for multiscale in found.read().multiscales:
        names = tuple(a.name for a in multiscale.axes)
        for dataset in multiscale.datasets:
            level = nodes.get(paths.join(path, paths.normalize(dataset.path)))
            own_names = level.dimension_names if isinstance(level, ArrayModel) else None
            if not isinstance(level, ArrayModel) or len(level.shape) != len(names):
                return False
            if own_names is not None and own_names != names:
                return False
    return True


def _is_below(path: str, other: str) -> bool:
    return path != other and path.startswith(paths.prefix(other))


def translated(
    start: Location,
    nodes: Mapping[str, Node],
    root: Loaded,
    goal: Version,
    in_place: bool,
    complete: bool = True,
) -> dict[str, Node]:
    """Return the nodes of an image or plate with the metadata of another version.

    A level that is not there is an error if the nodes are `complete`.
    """
    changed: dict[str, Node] = dict(nodes)
    for path, node in nodes.items():
        if isinstance(node, ArrayModel):
            continue
        group = Group.at(start.at(path), node)
        loaded = load(group, root if group.path != root.group.path else None)
        if loaded is None:
            continue
        metadata = _with_scales(loaded)
        attributes = to_attributes(to_json(metadata), goal.name, node.attributes)
        changed[path] = node.with_(attributes=attributes, consolidated=None)
        for multiscale in metadata.multiscales:
            names = tuple(a.name for a in multiscale.axes)
            for dataset in multiscale.datasets:
                level = paths.join(path, paths.normalize(dataset.path))
                array = changed.get(level)
                if not isinstance(array, ArrayModel) and not complete:
                    continue
                if not isinstance(array, ArrayModel):
                    raise NodeNotFound(f"there is no level {paths.show(level)} in {start.store!r}")
                if in_place:
                    _check_keys(start.at(level), array, goal)
                changed[level] = _named(array, names, goal)
    return changed


def _check_keys(location: Location, array: ArrayModel, goal: Version) -> None:
    """Raise if a level that is kept in place has chunk keys that the version does not allow."""
    encoding = array.chunk_key_encoding
    separator = encoding.configuration.get("separator", ".")
    if goal.separator is not None and encoding.name == "v2" and separator != goal.separator:
        raise CannotExpress(
            f"cannot migrate {location} in place: its chunk keys have the separator {separator!r},"
            f" but OME-Zarr {goal.name} requires {goal.separator!r}; give a destination"
        )


def _named(array: ArrayModel, names: tuple[str, ...], goal: Version) -> ArrayModel:
    """Return the array with the axes' names as dimension names; 0.4 has them only in the group."""
    attributes = {k: v for k, v in array.attributes.items() if k != ARRAY_DIMENSIONS}
    own_names = names if goal.name == NEWEST else None
    return array.with_(dimension_names=own_names, attributes=attributes)


def _with_scales(loaded: Loaded) -> Metadata:
    """Return the metadata with the scales that versions before 0.4 do not have."""
    several = []
    for i, multiscale in enumerate(loaded.metadata.multiscales):
        image = Image(loaded, i)
        datasets = tuple(
            d if d.transform is not None else replace(d, transform=image.transform(j))
            for j, d in enumerate(multiscale.datasets)
        )
        several.append(replace(multiscale, datasets=datasets))
    return replace(loaded.metadata, multiscales=tuple(several))
