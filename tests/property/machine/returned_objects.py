"""Callers change the objects that were returned to them; nothing else may change."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

import omnizarr as oz
from tests.property.machine.members import JSON
from tests.property.machine.state import HANDLES, SETTINGS, Settings, State

REFUSALS = (TypeError, ValueError, AttributeError, KeyError, IndexError, oz.OmnizarrError)


def change_in_place(thing: Any, depth: int = 6) -> None:
    """Change an object in place in every way that it allows."""
    if depth == 0:
        return
    with suppress(*REFUSALS):
        if isinstance(thing, dict):
            for value in list(thing.values()):
                change_in_place(value, depth - 1)
            thing["spoilt"] = 1
        elif isinstance(thing, list):
            for value in thing:
                change_in_place(value, depth - 1)
            thing.append("spoilt")
        elif isinstance(thing, tuple):
            for value in thing:
                change_in_place(value, depth - 1)
        elif isinstance(thing, np.ndarray):
            thing[...] = _other(thing)
        elif isinstance(thing, np.void):
            for name in thing.dtype.names or ():
                change_in_place(thing[name], depth - 1)
                thing[name] = _other(np.asarray(thing[name]))
        elif hasattr(thing, "__dict__") or hasattr(thing, "__slots__"):
            for value in _members(thing):
                change_in_place(value, depth - 1)


def _other(values: Any) -> Any:
    """Return a value that differs from the given one."""
    if values.dtype.kind in "OTSU":
        return "q" if values.dtype.kind in "TU" else b"q"
    raw = np.frombuffer(values.tobytes(), np.uint8) ^ 0x55
    return raw.view(values.dtype).reshape(values.shape)


def _members(thing: Any) -> Iterator[Any]:
    if isinstance(thing, (type, np.dtype, str, bytes, int, float)) or callable(thing):
        return
    names = [*getattr(thing, "__dict__", ()), *getattr(thing, "__slots__", ())]
    yield from (getattr(thing, name, None) for name in names if not name.startswith("_"))


class ReturnedObjects(State):
    """Rules about objects that belong to callers."""

    @precondition(lambda self: self.model.nodes)
    @rule(handle=HANDLES, settings=SETTINGS, data=st.data(), store=st.booleans())
    def change_returned_objects(
        self, handle: int, settings: Settings, data: st.DataObject, store: bool
    ) -> None:
        path = data.draw(st.sampled_from(sorted(self.model.nodes)), "path")
        node = self.model.nodes[path]
        found = self.node(handle, path)
        with self.configured(settings):
            change_in_place(dict(found.attrs))
            change_in_place(found.attrs.asdict())
            change_in_place(found.metadata.to_dict())
            change_in_place(found.metadata.documents())
            change_in_place(found.metadata.attributes)
            change_in_place(dict(found.info))
            if isinstance(found, oz.Array):
                self._change_array(found)
            else:
                change_in_place(found.consolidated)
                for _, member in found.members():
                    change_in_place(member.metadata.attributes)
        if store:  # what a change stores comes from what is stored
            found.attrs["k"] = node.attributes["k"] = 1
            node.explicit = True

    def _change_array(self, array: oz.Array) -> None:
        for name in ("fill_value", "shape", "chunks", "shards", "dimension_names", "codecs"):
            change_in_place(getattr(array, name))
        change_in_place(array.write_chunk_sizes)
        metadata = array.metadata
        for name in ("data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "extra"):
            change_in_place(_configuration(getattr(metadata, name)))
        change_in_place(array[...])
        change_in_place(array.read())
        change_in_place(np.asarray(array))
        change_in_place(array.view[...].read())
        change_in_place(array.chunks_present())
        if array.ndim and len(array):
            change_in_place(array[0])
            change_in_place(next(iter(array)))

    @precondition(lambda self: self.model.nodes)
    @rule(data=st.data(), value=JSON)
    def change_given_objects(self, data: st.DataObject, value: Any) -> None:
        path = data.draw(st.sampled_from(sorted(self.model.nodes)), "path")
        node = self.model.nodes[path]
        given = {"k": [value], "l": {"x": value}}
        self.node(0, path).attrs.update(given)
        node.attributes |= copy.deepcopy(given)
        node.explicit = True
        change_in_place(given)


def _configuration(thing: Any) -> Any:
    """Return the configuration of an extension, the JSON of a fill value, or the object itself."""
    return getattr(thing, "configuration", getattr(thing, "json", thing))
