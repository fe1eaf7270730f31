"""Add another format's metadata beside a hierarchy's own, and remove either of them again.

No chunk is touched: the metadata of both formats describe the same chunks under the same keys. The
metadata of the root is stored last and erased first, since it makes the rest visible.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from omnizarr import registry
from omnizarr.bulk.adaptation import Options, adapt_nodes
from omnizarr.bulk.output import ChangeOutput
from omnizarr.errors import NodeExists, NodeNotFound, StoreError
from omnizarr.extension import (
    NAMES,
    Begun,
    Format,
    GroupModel,
    Location,
    Mark,
    Node,
    Publication,
    Store,
    by_name,
    consolidated,
    find_node,
    hierarchies_above,
    makes_node,
    mark_changed,
    marker,
    paths,
    readable_nodes,
    stores,
)


class InPlaceOutput(ChangeOutput):
    """Metadata that are stored beside the old ones."""

    def __init__(
        self,
        start: Location,
        target: Location,
        nodes: Mapping[str, Node],
        documents: Mapping[str, bytes],
        remove_old: bool,
        digest: str,
    ) -> None:
        super().__init__(target, operation=_operation(start, target.format), digest=digest)
        self.start, self.target, self.nodes = start, target, nodes
        self.documents, self.remove_old = documents, remove_old

    def begin(self, resume: bool, shared: bool) -> Begun:
        """Raise if other metadata of the format exist than will be stored."""
        target = self.target
        target.check_writable()
        there = stores.get_existing(target.store, self.documents)
        root = [key for key in target.format.keys("") if key in there]
        same = all(self.documents[key] == text for key, text in there.items())
        complete = same and len(there) == len(self.documents)
        again = resume or _attempt(self.start, target.format) is not None
        if (root and not (complete and again)) or not same:
            other = next((k for k, text in there.items() if self.documents[k] != text), *root[:1])
            erase = f"erase them with undo_conversion(…, zarr_format={target.format.name})"
            keep = "; or keep them and erase the old ones with remove_old=True" if root else ""
            raise NodeExists(
                f"{target.store!r} already has zarr {target.format.name} metadata, in {other!r};"
                f" to convert again, {erase} first{keep}"
            )
        return super().begin(resume, shared)

    def change(self) -> None:
        """Store the new metadata, all or none; then erase the old ones if requested.

        The old root is erased last, so that the same call finds what an interrupted one has left.
        """
        store_metadata(self.target.store, self.documents)
        if self.remove_old:
            kept = self.target.format
            new = [key for path in self.nodes for key in kept.keys(path)]
            others = [*new, *kept.root_documents()]
            removed = metadata_keys(self.start, self.nodes, others)
            # After an interruption when all were erased, the source has the new format.
            removed = [] if self.start.format.name == kept.name else removed
            removed.sort(key=_erasing_order)
            for _, keys in itertools.groupby(removed, key=_erasing_order):
                stores.erase_values(self.start.store, [*keys])
        mark_changed()


def _operation(start: Location, goal: Format) -> str:
    return f"the conversion of {start.store!r} to zarr {goal.name}"


def _attempt(start: Location, goal: Format) -> Publication | None:
    """Return the mark that an interrupted conversion in place has left, or None."""
    text = start.store.get(marker(""))
    mark = None if text is None else Mark.read(text)
    if mark is None or mark.operation != _operation(start, goal):
        return None
    return Publication.at(start.store, "", mark)


def _erasing_order(key: str) -> tuple[int, bool]:
    """Return a sort key: inner nodes first; in each, the document that makes it a node last."""
    return -key.count("/"), makes_node(key)


def check_still_listed(start: Location, kept: Format) -> None:
    """Raise if an outer hierarchy finds the store only by the metadata that are to be erased.

    The metadata of the format of `start` are erased; the metadata of `kept` stay.
    """
    for outer, formats in hierarchies_above(start.store):
        names = [format.name for format in formats]
        if start.format.name in names and kept.name not in names:
            raise StoreError(
                f"{start.store!r} is a part of {outer!r}, which is zarr {start.format.name} and"
                f" would not list it by its metadata of zarr {kept.name} alone; nothing was"
                f" erased. Keep both metadata, or convert {outer!r} as a whole"
            )
        return


def store_metadata(store: Store, documents: Mapping[str, bytes]) -> None:
    """Store metadata, all or none, the innermost first and the root's last."""
    done: list[str] = []
    try:
        ordered = sorted(documents, key=lambda key: (-key.count("/"), key))
        for _, keys in itertools.groupby(ordered, key=lambda key: key.count("/")):
            some = [*keys]
            done += some
            stores.set_many(store, [(key, documents[key]) for key in some])
    except BaseException:
        stores.erase_values(store, reversed(done))
        raise


def metadata_keys(start: Location, nodes: Iterable[str], others: Iterable[str] = ()) -> list[str]:
    """Return the keys of all existing metadata of a format, the root's first.

    Those among `others` belong to another format, too, and are left out.
    """
    wanted = dict.fromkeys(start.format.root_documents())
    for path in nodes:
        wanted |= dict.fromkeys(start.format.keys(path))
        combined = consolidated.key(start.format, path)
        if combined is not None:
            wanted[combined] = None
    found = stores.get_existing(start.store, wanted.keys() - {*others})
    return sorted(found, key=lambda key: (key.count("/"), key))


def differences(start: Location, target: Location, expected: Mapping[str, Node]) -> dict[str, str]:
    """Return the nodes whose new metadata say something else than the old ones.

    `target` is a hierarchy that was converted in place, and `expected` what a conversion would make
    of the old nodes now. Raise if a node would be lost with the old metadata.
    """
    found, old, new = dict[str, str](), start.format.name, target.format.name
    nodes = readable_nodes(*find_node(target.store, "", zarr_format=new), require=True)
    for path, before in expected.items():
        node = nodes.get(path)
        same = node is not None and all(
            getattr(before, name, None) == getattr(node, name, None)
            for name in ("kind", "data_type", "chunk_grid", "chunk_key_encoding")
        )
        if node is None or not same:
            state = "is not there" if node is None else "does not have the same chunks"
            raise NodeExists(
                f"{paths.show(path)} of zarr {old} {state} in zarr {new}, and would be lost with"
                f" the old metadata; nothing was erased. To convert {target.store!r} again, erase"
                f" the new metadata first: undo_conversion(…, zarr_format={new})"
            )
        kept = {n: node.attributes[n] for n in before.attributes if n in node.attributes}
        was, shape = getattr(before, "shape", None), getattr(node, "shape", None)
        if was != shape:
            found[paths.show(path)] = f"the shape is {shape} and was {was} in zarr {old}"
        elif _text(before.attributes, target.format) != _text(kept, target.format):
            found[paths.show(path)] = f"other attributes than in zarr {old}"
    return found


def undo_conversion(
    store: Any,
    *,
    zarr_format: int | str = 3,
    dry_run: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> tuple[str, ...]:
    """Erase the metadata of a format that a conversion in place added.

    What was written to chunks stays.

    Args:
        store: A path, URL, dict or store.
        zarr_format: The format whose metadata are erased.
        dry_run: True to erase nothing.
        storage_options: Options for the store of a URL, such as credentials.

    Returns:
        The keys of the metadata.

    Raises:
        NodeNotFound: If there are no metadata of the format, or none of another one.
        StoreError: If something would be lost: the shape or attributes of a node were changed
            since, or a hierarchy of that format around the store would no longer list it. Nothing
            is erased then.

    Examples:
        >>> oz.save("a.zarr", np.arange(6), zarr_format=2)
        >>> report = oz.convert("a.zarr", zarr_format=3, in_place=True)
        >>> oz.undo_conversion("a.zarr")
        ('zarr.json',)
    """
    where = stores.resolve(store, read_only=dry_run, storage_options=storage_options)
    goal = by_name(zarr_format)
    root = root_in(where, goal)  # none if an earlier call was interrupted
    new = {} if root is None else readable_nodes(*root, require=True)
    start, node = find_source(where, goal)
    if start.format.name == goal.name:
        raise NodeNotFound(
            f"{where!r} has no metadata but those of zarr {goal.name}; nothing was erased"
        )
    check_still_listed(Location(where, "", goal), start.format)
    old = readable_nodes(start, node, require=True)
    problems = [*_losses(start, old, new, goal)]
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise StoreError(f"{problems[0]}{more}; nothing was erased")
    keys = metadata_keys(Location(where, "", goal), {**old, **new}, metadata_keys(start, old))
    left = _attempt(start, goal)
    if not keys and left is None:
        raise NodeNotFound(f"{where!r} has no zarr {goal.name} metadata to erase")
    if not dry_run:
        stores.erase_values(where, keys)
        if left is not None:
            left.clear()
        mark_changed()
    return tuple(keys)


def find_source(store: Store, goal: Format) -> tuple[Location, Node]:
    """Return the root of a hierarchy in another format than `goal`, or any if there is no other."""
    for format in map(by_name, NAMES):
        found = None if format.name == goal.name else root_in(store, format)
        if found is not None:
            return found
    return find_node(store, "")


def root_in(store: Store, format: Format) -> tuple[Location, Node] | None:
    """Return the root in one format, or None if there is none."""
    try:
        start, node = find_node(store, "", zarr_format=format.name)
    except NodeNotFound:
        return None
    return None if isinstance(node, GroupModel) and node.implicit else (start, node)


def _losses(
    start: Location, old: dict[str, Node], new: Mapping[str, Node], goal: Format
) -> Iterator[str]:
    """Yield what would be lost if the new metadata were erased."""
    translate = registry.lookup("integration", "ome")
    nodes, separator = translate(start, old, goal, True, None)
    expected = adapt_nodes(start, nodes, goal, Options(True, separator, checksum=True)).models
    for path, node in new.items():
        before = expected.get(path)
        if before is None or before.kind != node.kind:
            yield f"{paths.show(path)} has no metadata of zarr {start.format.name}"
        elif getattr(node, "shape", None) != getattr(before, "shape", None):
            yield f"{paths.show(path)} was resized after the conversion"
        elif _text(node.attributes, goal) != _text(before.attributes, goal):
            yield f"the attributes of {paths.show(path)} were changed after the conversion"


def _text(attributes: Mapping[str, Any], format: Format) -> Mapping[str, bytes | None]:
    """Return attributes as stored, in which one NaN is like another."""
    return format.write("", GroupModel(attributes))
