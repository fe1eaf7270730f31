"""Translate images and plates for `convert`: to the OME-Zarr version of another Zarr version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

from omnizarr import Group
from omnizarr.bulk.adaptation import cannot_convert
from omnizarr.conventions.ome import versions
from omnizarr.conventions.ome.image import Image
from omnizarr.conventions.ome.model import Metadata, to_json
from omnizarr.conventions.ome.rules import Loaded, check, load
from omnizarr.errors import CannotExpress, InvalidArgument, NodeNotFound, OmnizarrError
from omnizarr.extension import (
    ARRAY_DIMENSIONS,
    ArrayModel,
    Format,
    GroupModel,
    Location,
    Node,
    paths,
)

# Members of the groups that a hierarchy of OME-Zarr starts at.
_ROOTS = ("multiscales", "plate", "bioformats2raw.layout")


def for_format(
    start: Location, nodes: dict[str, Node], goal: Format, in_place: bool, separator: str | None
) -> tuple[dict[str, Node], str | None]:
    """Return the nodes for a conversion to another Zarr format, and the chunk key separator.

    Valid images and plates get the metadata of the OME-Zarr version for that Zarr format.
    """
    roots = dict(_roots(start, nodes))
    changed, failures = _translate_roots(start, nodes, roots, goal, in_place)
    target = versions.version_on(goal.name)
    for path, version in roots.items():
        if path in failures:
            continue
        wanted = version.separator
        if target is not None and not versions.stands_on(version, goal.name):
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
    roots = dict(_roots(start, several))
    changed, failures = _translate_roots(start, several, roots, goal, False, complete=False)
    return {path: changed[path] for path in nodes}, failures


def _translate_roots(
    start: Location,
    nodes: Mapping[str, Node],
    roots: Mapping[str, versions.Version],
    goal: Format,
    in_place: bool,
    complete: bool = True,
) -> tuple[dict[str, Node], dict[str, OmnizarrError]]:
    """Return the nodes with the OME-Zarr version for a Zarr format, and the errors by root."""
    target = versions.version_on(goal.name)
    changed = dict(nodes)
    failures: dict[str, OmnizarrError] = {}
    below: dict[str, dict[str, Node]] = {path: {} for path in roots}  # and the root itself
    for path, node in nodes.items():
        for root in below.keys() & {*paths.ancestors(path), path}:
            below[root][path] = node
    for path, inside in below.items():
        location, version = start.at(path), roots[path]
        if versions.stands_on(version, goal.name):
            continue
        if target is None:
            failures[path] = CannotExpress(
                f"{location} is OME-Zarr {version.name}, and no version of OME-Zarr is based on"
                f" zarr {goal.name}; convert to 2 or 3"
            )
            continue
        try:
            loaded = load(Group.at(location, nodes[path]))
            if loaded is not None:
                changed.update(translated(start, inside, loaded, target, in_place, complete))
        except OmnizarrError as e:
            failures[path] = e
    return changed, failures


def _with_levels(start: Location, nodes: Mapping[str, Node]) -> dict[str, Node]:
    """Return nodes together with the levels of all images among them, parents first."""
    found = dict(nodes)
    for path, node in nodes.items():
        raw = versions.find_metadata(node.attributes) if isinstance(node, GroupModel) else None
        if raw is None or any(p.level == "error" for p in check(raw, "")):
            continue
        for level, _ in _levels(path, raw.read()):
            with suppress(OmnizarrError):  # it is absent, or cannot be read
                there = found.get(level) or start.at(level).find([])
                if there is not None:
                    found[level] = there
    return {path: found[path] for path in sorted(found, key=paths.prefix)}


def _roots(start: Location, nodes: Mapping[str, Node]) -> Iterator[tuple[str, versions.Version]]:
    """Yield the paths and versions of valid images, plates and series not inside others."""
    last: str | None = None
    for path, node in nodes.items():  # parents come first
        if not isinstance(node, GroupModel) or (last is not None and path.startswith(last)):
            continue
        found = versions.find_metadata(node.attributes)
        if found is None or not any(name in found.members for name in _ROOTS):
            continue
        if any(p.level == "error" for p in check(found, "")):
            continue
        version = found.known_version
        stands = versions.stands_on(version, start.format.name)
        if stands and _is_image(path, nodes, found, version):
            last = paths.prefix(path)
            yield path, version


def _is_image(
    path: str, nodes: Mapping[str, Node], found: versions.RawMetadata, version: versions.Version
) -> bool:
    """Return True if levels have the axes of an image, implied before 0.3; maps resemble 0.1."""
    if version.name > "0.2":
        return True
    for inside, names in _levels(path, found.read()):
        level = nodes.get(inside)
        if not isinstance(level, ArrayModel) or len(level.shape) != len(names):
            return False
        if level.dimension_names not in (None, names):
            return False
    return True


def _levels(path: str, metadata: Metadata) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the path of every level of an image, and the names of its axes."""
    for multiscale in metadata.multiscales:
        names = tuple(axis.name for axis in multiscale.axes)
        for dataset in multiscale.datasets:
            yield paths.join(path, paths.normalize(dataset.path)), names


def translated(
    start: Location,
    nodes: Mapping[str, Node],
    root: Loaded,
    goal: versions.Version,
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
        several = []
        for i, multiscale in enumerate(loaded.metadata.multiscales):
            image = Image(loaded, i)
            datasets = (  # versions before 0.4 have no scales
                replace(d, transform=d.transform or image.transform(j))
                for j, d in enumerate(multiscale.datasets)
            )
            several.append(replace(multiscale, datasets=tuple(datasets)))
        metadata = replace(loaded.metadata, multiscales=tuple(several))
        attributes = versions.to_attributes(to_json(metadata), goal.name, node.attributes)
        changed[path] = node.with_(attributes=attributes, consolidated=None)
        for level, names in _levels(path, metadata):
            array = changed.get(level)
            if not isinstance(array, ArrayModel) and not complete:
                continue
            if not isinstance(array, ArrayModel):
                raise NodeNotFound(f"there is no level {paths.show(level)} in {start.store!r}")
            encoding = array.chunk_key_encoding
            separator = encoding.configuration.get("separator", ".")
            if in_place and encoding.name == "v2" and goal.separator not in (None, separator):
                raise CannotExpress(
                    f"cannot convert {start.at(level)} in place: its chunk keys have the separator"
                    f" {separator!r}, but OME-Zarr {goal.name} requires {goal.separator!r}; give a"
                    " destination"
                )
            # 0.4 has the names of axes only in the group.
            own = {k: v for k, v in array.attributes.items() if k != ARRAY_DIMENSIONS}
            own_names = names if goal.name == versions.NEWEST else None
            changed[level] = array.with_(dimension_names=own_names, attributes=own)
    return changed
