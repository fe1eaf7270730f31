"""The nodes of an OME-Zarr image or plate, with the metadata of another version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from omnizarr.conventions.ome import documents
from omnizarr.conventions.ome.check import check
from omnizarr.conventions.ome.image import Image
from omnizarr.conventions.ome.load import Loaded, load
from omnizarr.conventions.ome.model import Metadata
from omnizarr.conventions.ome.versions import (
    NEWEST,
    Stated,
    Version,
    attributes_of,
    known,
    newest,
    stated,
    version_on,
)
from omnizarr.errors import CannotExpress, InvalidMetadata, NodeNotFound
from omnizarr.formats import Format
from omnizarr.hierarchy.group import Group
from omnizarr.hierarchy.location import Location
from omnizarr.model import ArrayModel, GroupModel, Node, paths

_ROOTS = ("multiscales", "plate", "bioformats2raw.layout")  # others stand below one of these


def for_format(
    start: Location, nodes: dict[str, Node], goal: Format, in_place: bool, separator: str | None
) -> tuple[dict[str, Node], str | None]:
    """Nodes as another version of Zarr has them, and the separator for chunk keys.

    Images and plates that are valid get the metadata of the version of OME-Zarr on that Zarr.
    """
    target = version_on(goal.name)
    for path, version in _roots(start, nodes):
        place = start.at(path)
        if version.stands_on(goal.name):
            wanted = version.separator
        elif target is None:
            raise CannotExpress(
                f"{place} is OME-Zarr {version.name}, which no version of OME-Zarr"
                f" has on zarr {goal.name}; convert to 2 or 3"
            )
        else:
            inside = {p: n for p, n in nodes.items() if p == path or _is_below(p, path)}
            root = load(Group.at(place, nodes[path]))
            if root is not None:
                nodes = {**nodes, **translated(start, inside, root, target, in_place)}
            wanted = target.separator
            separator = separator or wanted
        if wanted is not None and separator not in (None, wanted):
            raise InvalidMetadata(
                f"{place} is OME-Zarr, whose chunk keys have {wanted!r} in version 2,"
                f" not {separator!r}; leave dimension_separator out"
            )
    return nodes, separator


def _roots(start: Location, nodes: Mapping[str, Node]) -> Iterator[tuple[str, Version]]:
    """The paths of valid images, plates and series that are not parts of others."""
    last: str | None = None
    for path, node in nodes.items():  # parents come first
        if not isinstance(node, GroupModel) or (last is not None and _is_below(path, last)):
            continue
        found = stated(node.attributes)
        if found is None or not any(name in found.members for name in _ROOTS):
            continue
        if any(p.level == "error" for p in check(found, "")):
            continue
        version = known(found.version or (NEWEST if found.namespaced else "0.4"))
        if version.stands_on(start.format.name) and _is_image(path, nodes, found, version):
            last = path
            yield path, version


def _is_image(path: str, nodes: Mapping[str, Node], found: Stated, version: Version) -> bool:
    """Whether levels have the axes of images, where a version does not state them: maps have the
    metadata of 0.1 too, from which it came."""
    if version.name > "0.2":
        return True
    for multiscale in documents.read(newest(found.members, version)).multiscales:
        names = tuple(a.name for a in multiscale.axes)
        for dataset in multiscale.datasets:
            level = nodes.get(paths.join(path, paths.normalize(dataset.path)))
            stated_names = level.dimension_names if isinstance(level, ArrayModel) else None
            if not isinstance(level, ArrayModel) or len(level.shape) != len(names):
                return False
            if stated_names is not None and stated_names != names:
                return False
    return True


def _is_below(path: str, other: str) -> bool:
    return path != other and path.startswith(paths.prefix(other))


def translated(
    start: Location, nodes: Mapping[str, Node], root: Loaded, goal: Version, in_place: bool
) -> dict[str, Node]:
    """The nodes of an image or plate with the metadata of another version."""
    changed: dict[str, Node] = dict(nodes)
    for path, node in nodes.items():
        if isinstance(node, ArrayModel):
            continue
        group = Group.at(start.at(path), node)
        loaded = load(group, root if group.path != root.group.path else None)
        if loaded is None:
            continue
        metadata = _with_scales(loaded)
        attributes = attributes_of(documents.write(metadata), goal.name, node.attributes)
        changed[path] = node.with_(attributes=attributes, consolidated=None)
        for multiscale in metadata.multiscales:
            names = tuple(a.name for a in multiscale.axes)
            for dataset in multiscale.datasets:
                level = paths.join(path, paths.normalize(dataset.path))
                array = changed.get(level)
                if not isinstance(array, ArrayModel):
                    raise NodeNotFound(f"there is no level {paths.show(level)} in {start.store!r}")
                if in_place:
                    _check_keys(start.at(level), array, goal)
                changed[level] = _named(array, names, goal)
    return changed


def _check_keys(place: Location, array: ArrayModel, goal: Version) -> None:
    """Raise where a level that stays as it is has keys that the version does not."""
    encoding = array.chunk_key_encoding
    separator = encoding.configuration.get("separator", ".")
    if goal.separator is not None and encoding.name == "v2" and separator != goal.separator:
        raise CannotExpress(
            f"{place} cannot stay as it is: its chunk keys have {separator!r}, and those of"
            f" OME-Zarr {goal.name} have {goal.separator!r}; give a destination"
        )


def _named(array: ArrayModel, names: tuple[str, ...], goal: Version) -> ArrayModel:
    """The array with the axes' names where the version wants them; 0.4 has them in the group."""
    attributes = {k: v for k, v in array.attributes.items() if k != "_ARRAY_DIMENSIONS"}
    stated_names = names if goal.name == NEWEST else None
    return array.with_(dimension_names=stated_names, attributes=attributes)


def _with_scales(loaded: Loaded) -> Metadata:
    """The metadata, with the scales of versions that did not state them."""
    several = []
    for i, multiscale in enumerate(loaded.metadata.multiscales):
        image = Image(loaded, i)
        datasets = tuple(
            d if d.transform is not None else replace(d, transform=image.transform(j))
            for j, d in enumerate(multiscale.datasets)
        )
        several.append(replace(multiscale, datasets=datasets))
    return replace(loaded.metadata, multiscales=tuple(several))
