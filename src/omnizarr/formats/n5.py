"""N5: one ``attributes.json`` per node, beside blocks under nested keys. It is read, never written.

https://github.com/saalfeldlab/n5, version 4.0.0 of its file system specification. A node is an
array if its attributes have all of ``dimensions``, ``blockSize``, ``dataType`` and ``compression``
(``compressionType`` in version 0); any other folder is a group, with or without attributes. What
else the attributes have, such as the scales of viewers, are the attributes of the node.

The first axis of N5 is the one that varies fastest. Here it is the last one, as in zarr-python 2
and z5: ``"dimensions": [x, y, z]`` is the shape ``(z, y, x)``, and the block at ``2/1/0`` has the
coordinates ``(0, 1, 2)``. N5 has no fill value: missing blocks are zeros.

A model has the codecs of version 3: a transpose, whose inverse is the first codec in the registered
codec ``n5_default`` for blocks with a header.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omnizarr._json import kind_of, load_object
from omnizarr.errors import CannotExpress, Problem
from omnizarr.formats import format
from omnizarr.formats.codec_names import N5_BLOCKS, SHUFFLES, as_object
from omnizarr.formats.format import Documents, Format, dumps
from omnizarr.model import ArrayModel, Dialect, FillValue, GroupModel, Named, Node, paths
from omnizarr.model.fields import Fields
from omnizarr.model.node import PREFIX

KEY = "attributes.json"
VERSION = "n5"  # the attribute of the root with the version of N5
OLD_COMPRESSION = "compressionType"
REQUIRED = ("dimensions", "blockSize", "dataType")
FIELDS = (*REQUIRED, "compression", OLD_COMPRESSION)
# Bytes of an item; the types after float64 are those that zarr-python 2 stored besides.
ITEM_SIZES = {
    **{"uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8, "int8": 1, "int16": 2, "int32": 4},
    **{"int64": 8, "float32": 4, "float64": 8},
    **{"bool": 1, "float16": 2},
}
NOT_WRITTEN = "N5 is read but never written; convert it first: omnizarr convert SRC DST --to 3"


class N5(Format):
    """N5."""

    name = "n5"
    dialect: Dialect = "v2"  # as its fill values, which are zeros, are spelled
    implicit_groups = True
    frozen: str | None = NOT_WRITTEN

    def keys(self, path: str) -> tuple[str, ...]:
        return (paths.prefix(paths.forward(path)) + KEY,)

    def read(self, path: str, documents: Documents, problems: list[Problem]) -> Node | None:
        (key,) = self.keys(path)
        data = documents.get(key)
        if data is None:
            return None
        doc = load_object(data, key, allow_nan=True)
        compressed = "compression" in doc or OLD_COMPRESSION in doc
        if compressed and all(name in doc for name in REQUIRED):
            return self._read_array(Fields(key, doc, problems))
        if "dimensions" in doc:
            lacks = [name for name in (*REQUIRED, "compression") if name not in doc]
            message = f"without {' and '.join(lacks)} this is a group, not an array"
            problems.append(Problem(key, "dimensions", message, "warning"))
        extra = {VERSION: doc[VERSION]} if VERSION in doc else {}
        return GroupModel({k: v for k, v in doc.items() if k != VERSION}, extra)

    def _read_array(self, fields: Fields) -> ArrayModel:
        stated, blocks = fields.integers("dimensions"), fields.integers("blockSize")
        if not any(p.level == "error" for p in fields.problems):
            fields.check_chunks("blockSize", blocks, stated)
        shape = stated[::-1]
        data_type = _data_type(fields)
        compressor = _compressor(fields, ITEM_SIZES.get(data_type, 1))
        attributes = {k: v for k, v in fields.values.items() if k not in (*FIELDS, VERSION)}
        names = format.from_attributes(attributes, len(shape), fields.key, fields.problems)
        fields.done("not a valid array of N5")
        order = {"order": list(reversed(range(len(shape))))}
        endian = {"endian": "big"} if ITEM_SIZES[data_type] > 1 else {}
        inner = [Named("transpose", order), Named("bytes", endian)]
        inner += [] if compressor is None else [compressor]
        codecs = [Named(N5_BLOCKS, {"codecs": [as_object(codec) for codec in inner]})]
        return ArrayModel(
            shape=shape,
            data_type=Named(data_type),
            chunk_grid=Named("regular", {"chunk_shape": list(blocks[::-1])}),
            chunk_key_encoding=Named("n5"),
            fill_value=FillValue(False if data_type == "bool" else 0, self.dialect),
            codecs=(*([Named("transpose", order)] if len(shape) > 1 else []), *codecs),
            attributes=attributes,
            dimension_names=names,
            extra={k: v for k, v in fields.values.items() if k in (*FIELDS[3:], VERSION)},
        )

    def write(self, path: str, node: Node) -> dict[str, bytes | None]:
        """Return the document that a node was read from."""
        (key,) = self.keys(path)
        doc = {**node.extra, **node.attributes}
        if isinstance(node, ArrayModel):
            array = self.adapt(node)
            doc["dimensions"] = list(reversed(array.shape))
            doc["blockSize"] = list(reversed(array.chunk_grid.configuration["chunk_shape"]))
            doc["dataType"] = array.data_type.name
        return {key: dumps(doc, indent=4)}

    def adapt(self, array: ArrayModel) -> ArrayModel:
        if array.chunk_key_encoding.name != "n5" or not array.extra.keys() & {*FIELDS[3:]}:
            raise CannotExpress(NOT_WRITTEN)
        return array

    def default_codecs(
        self, itemsize: int | None, variable: str | None, choice: str
    ) -> tuple[Named, ...]:
        raise CannotExpress(NOT_WRITTEN)

    def sharded(
        self, array: ArrayModel, shards: tuple[Any, ...], index_location: str = "end"
    ) -> ArrayModel:
        raise CannotExpress(NOT_WRITTEN)

    def key_encoding(self, separator: str | None) -> Named:
        return Named("n5")

    def name_advice(self, path: str) -> str | None:
        return None

    def is_metadata(self, key: str) -> bool:
        return paths.name(key) == KEY

    def is_zarr_key(self, key: str) -> bool:
        return False  # so that nothing is erased to make room for a node of Zarr


def _data_type(fields: Fields) -> str:
    stated = fields.get("dataType")
    if stated in ("object", "string"):
        message = f"blocks of the type {stated!r} hold values of Java, not an array of numbers"
        fields.error("dataType", message)
    elif not isinstance(stated, str) or stated not in ITEM_SIZES:
        expected = ", ".join([*ITEM_SIZES][:-2])
        fields.error("dataType", f"expected one of {expected}, got {kind_of(stated)}")
    else:
        return stated
    return "uint8"


# Compression


def _compressor(fields: Fields, itemsize: int) -> Named | None:
    """Return the codec of a compression, by its name in version 3 if it has one; None for raw."""
    stated = fields.get("compression")
    if "compression" not in fields.values:
        stated = {"type": fields.get(OLD_COMPRESSION)}
    if not fields.expect("compression", isinstance(stated, dict), "an object with 'type'", stated):
        return None
    name = stated.get("type")
    if not fields.expect("compression.type", isinstance(name, str) and bool(name), "a name", name):
        return None
    return None if name == "raw" else _codec(name, stated, itemsize)


def _codec(name: str, stated: Mapping[str, Any], itemsize: int) -> Named:
    level = stated.get("level", -1)
    if name == "gzip":
        if stated.get("useZlib"):
            return Named("numcodecs.zlib", {"level": level})
        return Named("gzip", {"level": 6 if level == -1 else level})
    if name == "bzip2":
        return Named("numcodecs.bz2", {"level": stated.get("blockSize", 9)})
    if name == "xz":
        return Named("numcodecs.lzma", {"preset": stated.get("preset", 6)})
    if name == "zstd":
        return Named("zstd", {"level": stated.get("level", 3), "checksum": False})
    if name == "blosc":
        return _blosc(stated, itemsize)
    if name == "lz4" and "acceleration" not in stated:  # which only zarr-python 2 states
        return Named("n5.lz4")
    if name == stated.get("id") or name in ("lz4", "lzma"):  # of zarr-python 2
        members = {k: v for k, v in stated.items() if k not in ("type", "id")}
        return Named(PREFIX + name, members)
    return Named(name, stated=name)


def _blosc(stated: Mapping[str, Any], itemsize: int) -> Named:
    shuffle: Any = stated.get("shuffle", 0)
    if shuffle == -1:
        shuffle = 2 if itemsize == 1 else 1
    known = type(shuffle) is int and 0 <= shuffle < len(SHUFFLES)
    return Named(
        "blosc",
        {
            "cname": stated.get("cname", "blosclz"),
            "clevel": stated.get("clevel", 6),
            "shuffle": SHUFFLES[shuffle] if known else shuffle,
            "typesize": itemsize,
            "blocksize": stated.get("blocksize", 0),
        },
    )
