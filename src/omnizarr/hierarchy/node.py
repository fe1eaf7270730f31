"""What arrays and groups have in common: a place, a model, attributes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Generic, Self, TypeVar

from omnizarr.hierarchy.attributes import Attributes, json_attributes
from omnizarr.hierarchy.change import change
from omnizarr.hierarchy.locate import locate
from omnizarr.hierarchy.location import Location
from omnizarr.hierarchy.metadata import Metadata
from omnizarr.hierarchy.place import StorePath, place
from omnizarr.hierarchy.render import Info
from omnizarr.model import ArrayModel, GroupModel, Node, paths
from omnizarr.model.typed_key import typed_key
from omnizarr.stores import Store

M = TypeVar("M", ArrayModel, GroupModel)
T = TypeVar("T")


class NodeHandle(Generic[M]):
    """A node that was opened."""

    _location: Location
    _model: M
    _copied = False  # whether the model comes from a copy of the node's documents

    def __init__(
        self,
        store: Any,
        path: str | None = None,
        *,
        read_only: bool = False,
        zarr_format: Any = None,
    ) -> None:
        where, node_path = place(store, path, "r" if read_only else "r+")
        location, node = locate(where, node_path, zarr_format=zarr_format, read_only=read_only)
        self._open(location, node)
        self._tell()

    @classmethod
    def at(cls, location: Location, model: Node) -> Self:
        """The handle for a model that was just read or written."""
        handle = cls.__new__(cls)
        handle._open(location, model)
        copies = location.copies
        handle._copied = copies is not None and copies.gave(location.path, model)
        handle._tell()
        return handle

    def _tell(self) -> None:
        """Warn of what a user should know about the node."""

    @classmethod
    def open(cls, store: Any, zarr_format: Any = None) -> Self:
        """The node at the root of a store, for reading and writing."""
        return cls(store, zarr_format=zarr_format)

    @property
    def store(self) -> Store:
        """The store that the node lies in."""
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
    def basename(self) -> str:
        """The last part of the path."""
        return paths.name(self.path)

    @property
    def store_path(self) -> StorePath:
        """The store and the path in it, as one object that names the node's place."""
        return StorePath(self.store, self.path)

    @property
    def info(self) -> Info:
        """A summary of what the documents say; nothing is asked of the store."""
        raise NotImplementedError

    @property
    def read_only(self) -> bool:
        """Whether writing is refused."""
        return self._location.read_only or self.store.read_only

    @property
    def zarr_format(self) -> int | str:
        """1, 2, 3, or ``"3-draft"``."""
        name = self._location.format.name
        return int(name) if name.isdigit() else name

    @property
    def metadata(self) -> Metadata:
        """What the node's documents say: its model, and the documents themselves."""
        return Metadata(self._model, self._location.format, self.path)

    @property
    def attrs(self) -> Attributes:
        """User attributes; changes are stored at once."""
        return Attributes(lambda: self._model.attributes, self._change_attributes)

    def update_attributes(self, new_attributes: Mapping[str, Any]) -> Self:
        """Set several attributes with one write, and give back this node."""
        self.attrs.update(new_attributes)
        return self

    def _change_attributes(self, edit: Callable[[dict[str, Any]], T]) -> T:
        results = []

        def changed(model: M) -> M:
            attributes = copy.deepcopy(dict(model.attributes))
            results.append(edit(attributes))
            now = typed_key(attributes, max_size=None)
            same = now is not None and now == typed_key(dict(model.attributes), max_size=None)
            return model if same else self._with_attributes(model, json_attributes(attributes))

        self._change(changed)
        return results[-1]

    def _with_attributes(self, model: M, attributes: dict[str, Any]) -> M:
        return model.with_(attributes=attributes)

    def _open(self, location: Location, model: Node) -> None:
        """Take a model that was just read or written; raises where it is the other kind."""
        raise NotImplementedError

    def _change(self, edit: Callable[[M], M]) -> None:
        """Store what `edit` makes of the model as it is stored now; this handle has it then."""

        def changed(model: Node) -> Node:
            self._take(model)
            return edit(self._model)

        self._take(change(self._location, changed))
        self._copied = False

    def refresh(self) -> None:
        """Read the documents again, in case another handle or process changed them."""
        self._take(self._location.load())
        self._copied = False

    def _take(self, model: Node) -> None:
        """Have a model that was just read or written, unless this handle has that very one."""
        if model is not self._model:
            self._open(self._location, model)

    def __getstate__(self) -> dict[str, Any]:
        location = self._location.unlisted()
        return {"location": location, "model": self._model, "copied": self._copied}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._open(state["location"], state["model"])
        self._copied = state["copied"]

    def _repr_html_(self) -> str:
        return self.info._repr_html_()

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, type(self))
            and other.store == self.store
            and other.path == self.path
            and other._model == self._model
        )

    __hash__ = None  # type: ignore[assignment]  # two handles of a changing node
