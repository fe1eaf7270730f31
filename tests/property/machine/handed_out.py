"""What was handed out is changed by the one who got it; nothing else may change by that."""

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


def spoil(thing: Any, depth: int = 6) -> None:
    """Change all that can be changed of an object, in place, as far as it lets one."""
    if depth == 0:
        return
    with suppress(*REFUSALS):
        if isinstance(thing, dict):
            for value in list(thing.values()):
                spoil(value, depth - 1)
            thing["spoilt"] = 1
        elif isinstance(thing, list):
            for value in thing:
                spoil(value, depth - 1)
            thing.append("spoilt")
        elif isinstance(thing, tuple):
            for value in thing:
                spoil(value, depth - 1)
        elif isinstance(thing, np.ndarray):
            thing[...] = _other(thing)
        elif isinstance(thing, np.void):
            for name in thing.dtype.names or ():
                spoil(thing[name], depth - 1)
                thing[name] = _other(np.asarray(thing[name]))
        elif hasattr(thing, "__dict__") or hasattr(thing, "__slots__"):
            for value in _members(thing):
                spoil(value, depth - 1)


def _other(values: Any) -> Any:
    """A value that is not the one that is there."""
    if values.dtype.kind in "OTSU":
        return "q" if values.dtype.kind in "TU" else b"q"
    raw = np.frombuffer(values.tobytes(), np.uint8) ^ 0x55
    return raw.view(values.dtype).reshape(values.shape)


def _members(thing: Any) -> Iterator[Any]:
    if isinstance(thing, (type, np.dtype, str, bytes, int, float)) or callable(thing):
        return
    names = [*getattr(thing, "__dict__", ()), *getattr(thing, "__slots__", ())]
    yield from (getattr(thing, name, None) for name in names if not name.startswith("_"))


class HandedOut(State):
    """Rules about objects that callers own."""

    @precondition(lambda self: self.model.nodes)
    @rule(handle=HANDLES, settings=SETTINGS, data=st.data(), store=st.booleans())
    def spoil_what_is_handed_out(
        self, handle: int, settings: Settings, data: st.DataObject, store: bool
    ) -> None:
        path = data.draw(st.sampled_from(sorted(self.model.nodes)), "path")
        node = self.model.nodes[path]
        found = self.node(handle, path)
        with self.configured(settings):
            spoil(dict(found.attrs))
            spoil(found.attrs.asdict())
            spoil(found.metadata.to_dict())
            spoil(found.metadata.documents())
            spoil(found.metadata.attributes)
            spoil(dict(found.info))
            if isinstance(found, oz.Array):
                self._spoil_array(found)
            else:
                spoil(found.consolidated)
                for _, member in found.members():
                    spoil(member.metadata.attributes)
        if store:  # what a change stores comes from what is stored
            found.attrs["k"] = node.attributes["k"] = 1
            node.explicit = True

    def _spoil_array(self, array: oz.Array) -> None:
        for name in ("fill_value", "shape", "chunks", "shards", "dimension_names", "codecs"):
            spoil(getattr(array, name))
        for name in ("filters", "serializer", "compressors", "write_chunk_sizes"):
            spoil(getattr(array, name))
        metadata = array.metadata
        for name in ("data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "extra"):
            spoil(_configuration(getattr(metadata, name)))
        spoil(array[...])
        spoil(array.read())
        spoil(np.asarray(array))
        spoil(array.view[...].read())
        spoil(array.chunks_present())
        if array.ndim and len(array):
            spoil(array[0])
            spoil(next(iter(array)))

    @precondition(lambda self: self.model.nodes)
    @rule(data=st.data(), value=JSON)
    def spoil_what_was_given(self, data: st.DataObject, value: Any) -> None:
        path = data.draw(st.sampled_from(sorted(self.model.nodes)), "path")
        node = self.model.nodes[path]
        given = {"k": [value], "l": {"x": value}}
        self.node(0, path).attrs.update(given)
        node.attributes |= copy.deepcopy(given)
        node.explicit = True
        spoil(given)


def _configuration(thing: Any) -> Any:
    """The configuration of an extension, the words of a fill value, or the thing itself."""
    return getattr(thing, "configuration", getattr(thing, "json", thing))
