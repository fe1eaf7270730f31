"""Rules for other readers: other formats, zarr-python and tensorstore."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import tensorstore
import zarr
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

import omnizarr as oz
from tests.property.machine.locations import KINDS
from tests.property.machine.model import check_values
from tests.property.machine.state import FORMATS, SETTINGS, Settings, State
from tests.property.strategies import filled, values

# What every reader of a version knows, so that it must be able to read it.
CODECS = {"bytes", "blosc", "gzip", "zstd", "crc32c", "transpose", "sharding_indexed"}
CODECS |= {"numcodecs.blosc", "numcodecs.gzip", "numcodecs.zstd", "numcodecs.zlib", "numcodecs.bz2"}
PLAIN = ("b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16")


class Readers(State):
    """Rules about the same data in other formats and libraries."""

    @precondition(lambda self: self.model.nodes)
    @rule(
        there=st.sampled_from(FORMATS),
        kind=st.sampled_from(sorted(KINDS)),
        settings=SETTINGS,
        stay=st.booleans(),
        alias=st.integers(0, 99),
    )
    def convert(self, there: Any, kind: str, settings: Settings, stay: bool, alias: int) -> None:
        """Convert to another format and back; what it cannot express is refused first."""
        location, back = self.new_location(kind), self.new_location("memory")
        target = location.open()
        self.stores.append(target)
        with self.configured(settings):
            try:
                oz.convert(self.store, target, zarr_format=there)
            except oz.OmnizarrError:
                assert list(target.list()) == []
                return
            model = self.model.copy()
            model.format = there
            model.check(target, exact=False)
            assert oz.validate(target) == []
            assert oz.verify(target).ok
            oz.convert(target, back.open(), zarr_format=self.format)
            self.model.check(back.open(), exact=False)
        if stay:
            for node in model.nodes.values():
                node.explicit = True
            self.model, self.consolidated = model, False
            self.location, self.store = location, target
            self.open_handles(alias)
            for path, node in model.nodes.items():
                if node.data is not None:
                    found = self.node(0, path)
                    node.data = filled(node.data, found.dtype, found.shape)
                    fill = found.fill_value
                    node.fill = None if fill is None else filled(fill, found.dtype)

    def in_a_directory(self) -> bool:
        """Return True if other libraries can read the store."""
        return (
            self.location.kind in ("directory", "fsspec local")
            and self.format in (2, 3)
            and bool(self.model.arrays())
        )

    @precondition(in_a_directory)
    @rule(data=st.data())
    def zarr_python_reads_the_same(self, data: st.DataObject) -> None:
        path, wanted = self.some_values(data)
        array = oz.open(self.store, path=path or None, zarr_format=self.format)
        known = self._known(array)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                theirs: Any = zarr.open_array(str(self.location.path / path), mode="r")
                found = theirs[...]
            except Exception:
                if known:
                    raise
                return
        if known:
            check_values(found, wanted, f"{path} in zarr-python")

    @precondition(in_a_directory)
    @rule(data=st.data())
    def zarr_python_writes_for_us(self, data: st.DataObject) -> None:
        path, wanted = self.some_values(data)
        array = oz.open(self.store, path=path or None, zarr_format=self.format)
        if not self._known(array) or not wanted.ndim:
            return
        start = data.draw(st.integers(0, len(wanted)), "start")
        new = data.draw(values(wanted.dtype, wanted[start:].shape), "values")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs: Any = zarr.open_array(str(self.location.path / path), mode="r+")
            theirs[start:] = new
        wanted[start:] = new

    @precondition(in_a_directory)
    @rule(data=st.data())
    def tensorstore_reads_the_same(self, data: st.DataObject) -> None:
        path, wanted = self.some_values(data)
        array = oz.open(self.store, path=path or None, zarr_format=self.format)
        known = self._known(array)
        driver = "zarr" if self.format == 2 else "zarr3"
        location = {"driver": "file", "path": str(self.location.path / path)}
        try:
            theirs = tensorstore.open({"driver": driver, "kvstore": location}).result()
            found = theirs.read().result()
        except ValueError:
            return  # it knows less: filters, orders, some settings of codecs
        if known:
            check_values(found, wanted, f"{path} in tensorstore")

    def _known(self, array: oz.Array) -> bool:
        """Return True if another library should support an array."""
        names = {codec.name for codec in array.codecs}
        inner = [c for codec in array.codecs for c in codec.configuration.get("codecs", ())]
        names |= {str(c["name"] if isinstance(c, dict) else c.name) for c in inner}
        return np.dtype(array.dtype).str[1:] in PLAIN and names <= CODECS
