"""The common part of arrays and groups: the store that a program sees, and how they come about."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Self

from omnizarr import Array, Group, registry
from omnizarr.hierarchy.attributes import Attributes
from omnizarr.hierarchy.info import Info
from omnizarr.hierarchy.lookup import StorePath
from omnizarr.interop.zarr import library, stores
from omnizarr.interop.zarr.errors import translated

# What `adopt` does not take over: it belongs to the class that it came from.
_OWN = ("_async", "_described")


class ZarrNode:
    """The common part of zarr-python's arrays and groups."""

    _given: Any = None  # the store as the program gave it
    _described: Any = None  # the model and the metadata made from it

    _location: Any
    _model: Any

    @classmethod
    def adopt(cls, node: Any, given: Any = None, **own: Any) -> Self:
        """Return a handle of this class for one of omnizarr, with the store of the program.

        `own` are attributes of the new handle.
        """
        made = cls.__new__(cls)
        kept = {name: value for name, value in vars(node).items() if name not in _OWN}
        vars(made).update(kept, **own)
        made._given = getattr(node, "_given", None) if given is None else given
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
        kind: Any = StorePath
        if library.is_installed():
            kind = library.module("zarr.storage").StorePath
        return kind(self.store, self._location.path)

    @property
    def read_only(self) -> bool:
        """True if the node cannot be changed."""
        location = self._location
        return bool(location.read_only or location.store.read_only)

    @property
    def metadata(self) -> Any:
        """The metadata, as zarr-python shows them."""
        consolidated = self._location.consolidated
        state = None if consolidated is None else (consolidated.load(), consolidated._data)
        found = self._described
        if found is None or found[0] is not self._model or found[1] != state:
            found = self._described = (self._model, state, self._describe())
        return found[2]

    def _describe(self) -> Any:
        raise NotImplementedError

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

    def _change_attributes(self, edit: Any) -> Any:
        with translated():
            return super()._change_attributes(edit)  # type: ignore[misc]  # of NodeHandle

    def _repr_html_(self) -> str:
        return f"<pre>{self.info!r}</pre>"

    @property
    def info(self) -> Any:
        """A summary of the metadata."""
        return Info()

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
    """Attributes, equal to dictionaries as in zarr-python, whose keys become text."""

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, with_text_keys(value))

    def update(self, *args: Any, **named: Any) -> None:
        """Set several attributes with one write."""
        super().update(with_text_keys(dict(*args, **named)))

    def put(self, attributes: Mapping[str, Any]) -> None:
        """Replace all attributes with one write."""
        super().put(with_text_keys(attributes))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Attributes):
            other = other.asdict()
        return self.asdict() == other

    __hash__ = None  # they change


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
    """Return something of a module of this package that imports this one."""
    return registry.load(f"{__package__}.{target}")
