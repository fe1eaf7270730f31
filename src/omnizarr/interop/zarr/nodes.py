"""The common part of arrays and groups: the store that a program sees, attributes and metadata.

Metadata are instances of zarr-python's classes (`ArrayV2Metadata`, `ArrayV3Metadata`,
`GroupMetadata`), made from the node's documents; for what zarr-python cannot describe (versions 1
and 3-draft, codecs and data types that it does not know), they are omnizarr's.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

from omnizarr import Array, Group, extension, registry
from omnizarr.errors import InvalidMetadata
from omnizarr.extension import Attributes, GroupModel, Location, Node
from omnizarr.interop.zarr import library, stores
from omnizarr.interop.zarr.library import translated

# What `adopt` does not take over: it belongs to the class that it came from.
_OWN = ("_async", "_described")
_V2, _V3 = "zarr.core.metadata.v2", "zarr.core.metadata.v3"


class ZarrNode:
    """The common part of zarr-python's arrays and groups."""

    _given: Any = None  # the store as the program gave it
    _described: Any = None  # the model and the metadata made from it

    _location: Any
    _model: Any

    @classmethod
    def adopt(cls, node: Any, given: Any = None, **own: Any) -> Self:
        """Return a handle of this class for a node of omnizarr, with the program's store.

        `own` are attributes of the new handle.
        """
        made = cls.__new__(cls)
        kept = {name: value for name, value in vars(node).items() if name not in _OWN}
        vars(made).update(kept, **own)
        made._given = getattr(node, "_given", None) if given is None else given
        made._set_up()
        return made

    @classmethod
    def described(cls, data: Any, store_path: Any) -> Self:
        """Return the node that metadata describe, without reading any."""
        target = stores.locate(store_path)
        if isinstance(data, Mapping):
            data = parse(data)
        node, name = extension.node_from_description(target.path, data)
        location = Location(target.store, target.path, extension.by_name(name or 3))
        made: Self = cls.at(location, node)  # type: ignore[attr-defined]  # of NodeHandle
        made._given = target.given
        made._set_up()
        return made

    def _set_up(self) -> None:
        """Prepare a new handle."""

    @property
    def store(self) -> Any:
        """The store as the program gave it, or as zarr-python makes it from a path."""
        if self._given is None:
            self._given = stores.to_zarr(self._location.store)
        return self._given

    @property
    def store_path(self) -> Any:
        """The store and the path in it as one object."""
        return library.module("zarr.storage").StorePath(self.store, self._location.path)

    @property
    def read_only(self) -> bool:
        """True if the node cannot be changed."""
        return bool(self._location.read_only or self._location.store.read_only)

    @property
    def metadata(self) -> Any:
        """The metadata, as zarr-python shows them."""
        consolidated = self._location.consolidated
        state = None if consolidated is None else (consolidated.load(), consolidated.data)
        found = self._described
        if found is None or found[0] is not self._model or found[1] != state:
            found = self._described = (self._model, state, self._describe())
        return found[2]

    def _describe(self) -> Any:
        own = super().metadata  # type: ignore[misc]  # of NodeHandle
        document: dict[str, Any] = own.to_dict()
        if isinstance(self, Group):
            document = with_consolidated(self._location, document)
        if document.get("zarr_format") not in (2, 3):
            return own
        try:
            with _allowed_grids(document):
                return parse(document)
        except (ValueError, TypeError, KeyError, LookupError):
            return own  # a codec or data type that is unknown to zarr-python

    @property
    def _theirs(self) -> bool:
        """True if the metadata is an object of zarr-python."""
        return not library.is_ours(type(self.metadata))

    @property
    def attrs(self) -> Attributes:
        """The user attributes; changes are stored immediately."""
        return ZarrAttributes(lambda: self._model.attributes, self._change_attributes)

    @property
    def basename(self) -> str:
        """The last part of the path."""
        return str(self._location.path.rpartition("/")[2])

    def update_attributes(self, new_attributes: Any) -> Self:
        """Set several attributes with one write, and return this node."""
        self.attrs.update(new_attributes)
        return self

    @classmethod
    def __class_getitem__(cls, item: Any) -> type[Self]:
        """Return the class itself; annotations for zarr-python name metadata here."""
        return cls

    @translated()
    def _change_attributes(self, edit: Any) -> Any:
        return super()._change_attributes(edit)  # type: ignore[misc]  # of NodeHandle

    def _repr_html_(self) -> str:
        return f"<pre>{self.info!r}</pre>"  # type: ignore[attr-defined]  # of the subclasses

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()  # type: ignore[assignment]
        return {**state, "given": self._given}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if os.environ.get(library.IN_PLACE):  # in a process that was not forked
            later("installing:install")()
        super().__setstate__(state)  # type: ignore[misc]  # of NodeHandle
        self._given = state["given"]
        self._set_up()


class ZarrAttributes(Attributes):
    """Attributes whose keys become text, as zarr-python stores them."""

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, with_text_keys(value))

    def update(self, *args: Any, **named: Any) -> None:
        """Set several attributes with one write."""
        super().update(with_text_keys(dict(*args, **named)))

    def put(self, attributes: Mapping[str, Any]) -> None:
        """Replace all attributes with one write."""
        super().put(with_text_keys(attributes))


def with_text_keys(value: Any) -> Any:
    """Return attributes whose names are text, as JSON writes other keys."""
    if isinstance(value, Mapping):
        return {
            key if isinstance(key, str) else json.dumps(key): with_text_keys(item)
            for key, item in value.items()
        }
    return [with_text_keys(item) for item in value] if isinstance(value, list) else value


def facade(node: Any, given: Any = None) -> Any:
    """Return zarr-python's form of an array or group of omnizarr; other values as they are."""
    if isinstance(node, ZarrNode):
        return node
    if isinstance(node, Array):
        return later("arrays:ZarrArray").adopt(node, given)
    if isinstance(node, Group):
        return later("groups:ZarrGroup").adopt(node, given)
    return node


def later(target: str) -> Any:
    """Load an object from a module that imports this one, to avoid a circular import."""
    return registry.load(f"{__package__}.{target}")


def parse(document: Mapping[str, Any]) -> Any:
    """Return zarr-python's metadata for a document; pass on its errors."""
    if document.get("zarr_format") not in (2, 3):
        raise InvalidMetadata(
            f"Invalid zarr_format: {document.get('zarr_format')}. Expected 2 or 3"
        )
    kind = library.original("zarr.core.group", "GroupMetadata")
    if document["zarr_format"] == 2 and "shape" in document:
        kind = library.original(_V2, "ArrayV2Metadata")
    elif document.get("node_type") == "array":
        kind = library.original(_V3, "ArrayV3Metadata")
    return kind.from_dict(dict(document))


def consolidated_nodes(location: Location) -> dict[str, Node] | None:
    """Return the nodes in a group's consolidated metadata if it was opened with them, or None."""
    found = location.consolidated
    return found.all(location.path) if found is not None and found.requested else None


def with_consolidated(location: Location, document: dict[str, Any]) -> dict[str, Any]:
    """Return the document of a group with the consolidated metadata that it was opened with."""
    document.pop("consolidated_metadata", None)
    nodes = consolidated_nodes(location)
    if nodes is None:
        return document
    below = {}
    for path, node in sorted(nodes.items(), key=lambda item: item[0].count("/")):
        entry = below[path] = extension.open_node(location.child(path), node).metadata.to_dict()
        entry.pop("consolidated_metadata", None)
        if isinstance(node, GroupModel):  # which has all its nodes in those of the root
            entry["consolidated_metadata"] = _inline({})
    return {**document, "consolidated_metadata": _inline(below)}


def _inline(nodes: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "inline", "must_understand": False, "metadata": nodes}


@contextmanager
def _allowed_grids(document: Mapping[str, Any]) -> Iterator[None]:
    """Let zarr-python describe a rectilinear grid, which it refuses by default, in the block."""
    key = "array.rectilinear_chunks"
    if library.settings().get(key, True) or not _is_rectilinear(document):
        yield
        return
    with library.settings().set({key: True}):
        yield


def _is_rectilinear(document: Mapping[str, Any]) -> bool:
    below = (document.get("consolidated_metadata") or {}).get("metadata", {})
    grid = document.get("chunk_grid")
    own = isinstance(grid, Mapping) and grid.get("name") == "rectilinear"
    return own or any(map(_is_rectilinear, below.values()))
