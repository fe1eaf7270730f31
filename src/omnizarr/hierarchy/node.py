"""What arrays and groups have in common: a place, a model, attributes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar

from omnizarr import stores
from omnizarr.hierarchy.attributes import Attributes, json_attributes
from omnizarr.hierarchy.location import Location, locate
from omnizarr.model import ArrayModel, GroupModel, Node, paths
from omnizarr.stores import Store
from omnizarr.stores.turns import DOCUMENTS, turn

M = TypeVar("M", ArrayModel, GroupModel)


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
        where = stores.resolve(store, read_only=read_only)
        location, node = locate(
            where, paths.normalize(path), zarr_format=zarr_format, read_only=read_only
        )
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
    def read_only(self) -> bool:
        """Whether writing is refused."""
        return self._location.read_only or self.store.read_only

    @property
    def zarr_format(self) -> int | str:
        """1, 2, 3, or ``"3-draft"``."""
        name = self._location.format.name
        return int(name) if name.isdigit() else name

    @property
    def metadata(self) -> M:
        """The model of the node: what its documents say."""
        return self._model

    @property
    def attrs(self) -> Attributes:
        """User attributes; changes are stored at once."""
        return Attributes(lambda: self._model.attributes, self._change_attributes)

    def _change_attributes(self, change: Callable[[dict[str, Any]], None]) -> None:
        self._location.check_writable()
        with turn(DOCUMENTS, self._location.format.keys(self.path)):
            self.refresh()
            attributes = dict(self._model.attributes)
            change(attributes)
            self._save(self._model.with_(attributes=json_attributes(attributes)))

    def _open(self, location: Location, model: Node) -> None:
        """Take a model that was just read or written; raises where it is the other kind."""
        raise NotImplementedError

    def _save(self, model: Node) -> None:
        old = None if getattr(self._model, "implicit", False) else self._model
        self._open(self._location, self._location.save(old, model))
        self._copied = False

    def refresh(self) -> None:
        """Read the documents again, in case another process changed them."""
        self._open(self._location, self._location.load())
        self._copied = False

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, type(self))
            and other.store == self.store
            and other.path == self.path
            and other._model == self._model
        )

    __hash__ = None  # type: ignore[assignment]  # two handles of a changing node
