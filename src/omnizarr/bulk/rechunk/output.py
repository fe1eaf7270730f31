"""Outputs of rechunking: a new hierarchy, arrays of an existing one, or longer arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from omnizarr.bulk.job import Output
from omnizarr.bulk.output import Begun, ChangeOutput, HierarchyOutput, SeveralNodes
from omnizarr.errors import Conflict, StoreError
from omnizarr.extension import INTERMEDIATE as INTERMEDIATE
from omnizarr.extension import (
    ArrayModel,
    GroupModel,
    Location,
    Node,
    Store,
    can_list,
    erase_prefix,
    existing_node,
    get_existing,
    is_process_local,
    list_prefix,
    lock_shape,
    update_metadata,
    with_shape,
)


class ArrayOutput(Output, Protocol):
    """An output that knows the store for the chunks of each array."""

    def store_of(self, path: str) -> Store:
        """Return the store that takes the chunks of the array at a path."""


class NewHierarchy(HierarchyOutput):
    """All nodes, visible at once when they are complete."""

    def store_of(self, path: str) -> Store:
        """Return the store that takes the chunks."""
        return self.chunk_store


class EachArray(SeveralNodes):
    """Arrays of an existing hierarchy, each of which is added or replaced when all are complete."""

    def __init__(
        self,
        root: Location,
        nodes: Mapping[str, Node],
        digests: Mapping[str, str],
        *,
        operation: str,
        digest: str,
        overwrite: bool,
    ) -> None:
        outputs = (
            HierarchyOutput(
                root.at(path),
                {path: node},
                operation=operation,
                digest=digests[path],
                overwrite=overwrite,
            )
            for path, node in nodes.items()
            if isinstance(node, ArrayModel)
        )
        super().__init__(root, outputs, operation=operation, digest=digest)
        self.groups = {p: node for p, node in nodes.items() if isinstance(node, GroupModel)}

    def begin(self, resume: bool, shared: bool) -> Begun:
        """Begin to write all arrays beside those that they replace."""
        if shared:
            raise StoreError(
                "parts of a job need a destination of their own; give one that does not exist"
            )
        return super().begin(resume, shared)

    def finish(self) -> None:
        """Add the groups that are missing, then swap one array after the other."""
        for path, group in sorted(self.groups.items()):
            where = self.location.at(path)
            if existing_node(where.store, path) is None:
                where.create(group)
        super().finish()


@dataclass(frozen=True)
class Growth:
    """An array that gets longer."""

    location: Location
    old: tuple[int, ...]
    new: tuple[int, ...]
    # The keys of the chunks that are written, at the border of the old shape or beyond it.
    keys: Callable[[], Iterator[str]]


class LongerArrays(ChangeOutput):
    """Arrays whose new chunks are outside their shape until all of them are stored."""

    def __init__(self, root: Location, grown: list[Growth], *, operation: str, digest: str) -> None:
        super().__init__(root, operation=operation, digest=digest)
        self.grown = grown

    def store_of(self, path: str) -> Store:
        """Return the store of the arrays."""
        return self.store

    def change(self) -> None:
        """Store the new shapes, of all arrays one right after the other."""
        with lock_shape(*(each.location for each in self.grown)) as held:
            for each in self.grown:
                found = each.location.shape()
                if found not in (each.old, each.new):
                    raise Conflict(
                        f"{each.location} has the shape {found} now, not {each.old} as when this"
                        " began; its shape was not changed; append again"
                    )
            for each, location in zip(self.grown, held, strict=True):
                update_metadata(each.location, partial(_longer, shape=each.new), held=location)

    def _keys(self) -> Iterator[str]:
        """Yield the keys of the new chunks and of the changed metadata."""
        for each in self.grown:
            where = each.location
            yield from get_existing(where.store, where.format.keys(where.path))
            yield from each.keys()


def _longer(node: Node, *, shape: tuple[int, ...]) -> Node:
    if isinstance(node, ArrayModel) and node.shape != shape:
        return with_shape(node, shape)
    return node


class WithIntermediate:
    """An output that also erases intermediate chunks: before a new job, and after the end."""

    def __init__(self, inner: ArrayOutput, temp: Store, prefix: str) -> None:
        self.inner, self.temp, self.prefix = inner, temp, prefix

    @property
    def store(self) -> Store:
        """The store of the output, or that of intermediate chunks if only this process has it."""
        return self.temp if is_process_local(self.temp) else self.inner.store

    @property
    def place(self) -> tuple[Store, str]:
        """The store and path of the output."""
        return self.inner.place

    @property
    def journal(self) -> tuple[Store, str]:
        """The journal of the output."""
        return self.inner.journal

    def store_of(self, path: str) -> Store:
        """Return the store that takes the chunks of the array at a path."""
        return self.inner.store_of(path)

    def begin(self, resume: bool, shared: bool) -> Begun:
        """Begin, without what an earlier job may have left."""
        if not can_list(self.temp):
            raise StoreError(
                f"{self.temp!r} cannot list its keys, so that intermediate chunks could not be"
                " erased; give temp"
            )
        state = self.inner.begin(resume, shared)
        left = next(iter(list_prefix(self.temp, self.prefix)), None)
        if state == "new" and left is not None:
            erase_prefix(self.temp, self.prefix)
        return state

    def finish(self) -> None:
        """Make the result visible."""
        self.inner.finish()

    def written(self) -> tuple[Store, Iterator[str]]:
        """Return the store of the result, and its keys."""
        return self.inner.written()

    def clear(self) -> None:
        """Erase the intermediate chunks, then what else is left."""
        erase_prefix(self.temp, self.prefix)
        self.inner.clear()

    def is_cleared(self) -> bool:
        """Return True if another process has cleared the output."""
        return self.inner.is_cleared()

    def abandon(self) -> None:
        """Keep everything for a job that resumes this one."""
        self.inner.abandon()
