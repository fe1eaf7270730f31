"""The common part of arrays and groups: location, model, attributes, metadata."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from omnizarr._json import dumps, freeze, loads
from omnizarr.concurrency.cache import typed_key
from omnizarr.errors import InvalidArgument, InvalidMetadata, NodeChanged, NodeNotFound
from omnizarr.formats import Format, detect, title
from omnizarr.formats.format import ARRAY_DIMENSIONS
from omnizarr.hierarchy.attributes import Attributes, json_attributes, update_metadata
from omnizarr.hierarchy.info import Info
from omnizarr.hierarchy.location import Location
from omnizarr.hierarchy.lookup import find_node, resolve_store_path
from omnizarr.model import ArrayModel, GroupModel, Node, paths
from omnizarr.stores import Store

M = TypeVar("M", ArrayModel, GroupModel)
T = TypeVar("T")


class NodeHandle(Generic[M]):
    """The handle of a node: its location and its model."""

    _location: Location
    _model: M
    _from_consolidated = False  # True if the model was read from consolidated metadata

    def __init__(
        self,
        store: Any,
        path: str | None = None,
        *,
        read_only: bool = False,
        zarr_format: Any = None,
    ) -> None:
        where, node_path = resolve_store_path(store, path, "r" if read_only else "r+")
        location, node = find_node(where, node_path, zarr_format=zarr_format, read_only=read_only)
        self._set_model(location, node)
        self._warn_of_skipped()

    @classmethod
    def at(cls, location: Location, model: Node) -> Self:
        """Return the handle for a model that was just read or written.

        Args:
            location: The store, path and format of the node.
            model: The metadata of the node.
        """
        handle = cls.__new__(cls)
        handle._set_model(location, model)
        found = location.consolidated
        if found is not None:
            provided = found.provided(location.path, model)
            handle._from_consolidated = provided and not found.trusted
        handle._warn_of_skipped()
        return handle

    def _warn_of_skipped(self) -> None:
        """Warn of anything that a user should know about the node."""

    @property
    def store(self) -> Store:
        """The store of the node."""
        return self._location.store

    @property
    def path(self) -> str:
        """The path in the store, without outer slashes; empty for the root."""
        return self._location.path

    @property
    def name(self) -> str:
        """The path with a leading slash."""
        return paths.show(self.path)

    @property
    def info(self) -> Info:
        """A summary of the metadata; the store is not accessed."""
        raise NotImplementedError

    @property
    def read_only(self) -> bool:
        """True if the node cannot be changed."""
        return self._location.read_only or self._location.store.read_only

    @property
    def zarr_format(self) -> int | str:
        """1, 2, 3 or ``"3-draft"``."""
        return self.metadata.zarr_format

    @property
    def metadata(self) -> NodeMetadata:
        """The node's metadata: its model, and the JSON as it is stored."""
        return NodeMetadata(self._model, self._location.format, self.path)

    @property
    def attrs(self) -> Attributes:
        """The user attributes; changes are stored immediately."""
        return Attributes(lambda: self._model.attributes, self._change_attributes)

    def _change_attributes(self, edit: Callable[[dict[str, Any]], T]) -> T:
        results = []

        def changed(model: M) -> M:
            attributes = copy.deepcopy(dict(model.attributes))
            before = typed_key(attributes, max_size=None)
            results.append(edit(attributes))
            same = before is not None and before == typed_key(attributes, max_size=None)
            return model if same else self._with_attributes(model, json_attributes(attributes))

        self._change(changed)
        return results[-1]

    def _with_attributes(self, model: M, attributes: dict[str, Any]) -> M:
        return model.with_(attributes=attributes)

    def _set_model(self, location: Location, model: Node) -> None:
        """Use a model that was just read or written; raise if it is of another kind of node."""
        raise NotImplementedError

    def _change(self, edit: Callable[[M], M], **options: Any) -> None:
        """Store and use the model that `edit` makes of the stored one; see `update_metadata`."""

        def changed(model: Node) -> Node:
            self._take(model)
            return edit(self._model)

        try:
            self._replace_model(update_metadata(self._location, changed, **options))
        except NodeNotFound as e:
            raise self._gone(e) from e
        self._from_consolidated = False

    def _follow(self) -> None:
        """Read the metadata again; raise NodeChanged if they belong to another node."""
        try:
            model = self._location.load()
        except NodeNotFound as e:
            raise self._gone(e) from e
        self._take(model)
        self._from_consolidated = False

    def _take(self, model: Node) -> None:
        if model is not self._model:
            self._check_same(model)
            self._replace_model(model)

    def _check_same(self, model: Node) -> None:
        """Raise NodeChanged if an array was replaced by a group, or a group by an array."""
        if model.kind != self._model.kind:
            raise NodeChanged(f"{self._location} was replaced by an {model.kind}; open it again")

    def _gone(self, error: NodeNotFound) -> NodeChanged:
        if isinstance(error, NodeChanged):
            return error
        kind = self._model.kind
        return NodeChanged(
            f"{self._location} was deleted or moved since this {kind} was opened; open it again"
        )

    def refresh(self) -> None:
        """Read the metadata again, in case another handle or process changed them.

        Raises:
            NodeNotFound: If the node was deleted.

        Examples:
            >>> a = oz.create_array("a.zarr", shape=3)
            >>> other = oz.open("a.zarr", "r+")
            >>> other.resize(5)
            >>> a.refresh()
            >>> a.shape
            (5,)
        """
        self._replace_model(self._location.load())
        self._from_consolidated = False

    def _replace_model(self, model: Node) -> None:
        """Use a model that was just read or written, unless it is the current one."""
        if model is not self._model:
            self._set_model(self._location, model)

    def __getstate__(self) -> dict[str, Any]:
        location = self._location
        return {"location": location, "model": self._model, "copied": self._from_consolidated}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._set_model(state["location"], state["model"])
        self._from_consolidated = state["copied"]

    def _repr_html_(self) -> str:
        return self.info._repr_html_()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented  # so that NumPy compares the elements of an array with its own
        same_place = other._location.store == self._location.store and other.path == self.path
        return same_place and other._model == self._model

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # two handles of a changing node

    if not TYPE_CHECKING:  # a misspelt name is an error for type checkers

        def __getattr__(self, name: str) -> Any:
            message = f"{type(self).__name__!r} object has no attribute {name!r}"
            if not name.startswith("_"):
                array = hasattr(type(self), "shape")
                own = "np.asarray(array) has NumPy's" if array else f"a member is group[{name!r}]"
                message += f"; {own}; nodes of omnizarr.zarr have the methods of zarr-python"
            raise AttributeError(message, name=name, obj=self)


def location_of(node: NodeHandle[Any]) -> Location:
    """Return the store, path and format of a node, and how it was opened."""
    return node._location


def model_of(node: NodeHandle[M]) -> M:
    """Return the metadata of a node as they were last read, independent of the format."""
    return node._model


class NodeMetadata:
    """A node's model, with its fields as attributes, and the metadata as they are stored.

    Changes here do not change the node: the dictionaries of `attributes`, `documents` and
    `to_dict` are copies, everything else is read-only.
    """

    def __init__(self, model: Node, format: Format, path: str) -> None:
        self._model = model
        self._format = format
        self._path = path

    @property
    def zarr_format(self) -> int | str:
        """1, 2, 3 or ``"3-draft"``."""
        return int(self._format.name) if self._format.name.isdigit() else self._format.name

    @property
    def node_type(self) -> str:
        """``"array"`` or ``"group"``."""
        return self._model.kind

    @property
    def model(self) -> Node:
        """The model of the node, independent of the format."""
        return frozen(self._model)

    @property
    def attributes(self) -> dict[str, Any]:
        """A copy of the user attributes."""
        return copy.deepcopy(dict(self._model.attributes))

    def documents(self) -> dict[str, Any]:
        """Return the stored metadata by key, as JSON."""
        written = self._format.write(self._path, self._model)
        return {k: loads(v, k, allow_nan=True) for k, v in written.items() if v is not None}

    def to_dict(self) -> dict[str, Any]:
        """Return the node's main metadata as JSON, with the attributes."""
        main = next(iter(self.documents().values()))
        return {**main, "attributes": self.attributes}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name == "dimension_names" and ARRAY_DIMENSIONS in self._model.attributes:
            # As in zarr-python; xarray uses it to find the names.
            raise AttributeError(
                f"the names of the dimensions are in the attribute {ARRAY_DIMENSIONS!r}"
            )
        return freeze(getattr(self._model, name))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NodeMetadata):
            return bool(self._model == other)
        return (self.zarr_format, self._model) == (other.zarr_format, other._model)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # the model holds dictionaries

    def __repr__(self) -> str:
        return f"<{title(self._format.name)} {self._model!r}>"


def frozen(model: Node) -> Node:
    """Return a deeply read-only copy of a model."""
    parts = {"attributes": freeze(model.attributes), "extra": freeze(model.extra)}
    if isinstance(model, GroupModel):
        parts["consolidated"] = freeze(model.consolidated)
    return model.with_(**parts)


def node_from_description(path: str, given: Any) -> tuple[Node, str | None]:
    """Return the model of a described node, and its format if the description has one."""
    if isinstance(given, NodeMetadata):
        return given.model, str(given.zarr_format)
    if isinstance(given, (ArrayModel, GroupModel)):
        return frozen(given), None
    metadata = given.to_dict() if hasattr(given, "to_dict") else given
    if not isinstance(metadata, Mapping):
        raise InvalidArgument(
            f"{path!r}: expected metadata, a model or JSON, got {type(given).__name__}"
        )
    attributes = metadata.get("attributes") or {}
    own = {k: v for k, v in metadata.items() if k not in ("attributes", "consolidated_metadata")}
    guessed = detect.guess_format(metadata, dumps(own, indent=None))
    node = None if guessed is None else guessed[0].read("", guessed[1], [])
    if guessed is None or node is None:
        raise InvalidMetadata(f"{path!r}: these metadata describe no array or group")
    return node.with_(attributes=copy.deepcopy(dict(attributes))), guessed[0].name


def complete_hierarchy(nodes: Mapping[str, Any]) -> tuple[dict[str, Node | None], str | None]:
    """Return described nodes by path, parents first, and their format if one is stated.

    An undescribed group above nodes is None. Raises if formats differ, or an array has nodes below.
    """
    found: dict[str, Node | None] = {}
    versions: dict[str, str] = {}
    for name, given in nodes.items():
        path = paths.normalize(name)
        found[path], version = node_from_description(name, given)
        if version is not None:
            versions.setdefault(version, name)
    if len(versions) > 1:
        stated = ", ".join(f"{name!r} is zarr {version}" for version, name in versions.items())
        raise InvalidArgument(f"the nodes of one hierarchy have one format, but {stated}")
    for path in list(found):
        for parent in paths.ancestors(path):
            if isinstance(found.setdefault(parent, None), ArrayModel):
                raise InvalidArgument(f"{parent!r} is an array, so {path!r} cannot be below it")
    return dict(sorted(found.items())), next(iter(versions), None)
