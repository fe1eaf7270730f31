"""Zarr version 1: one array per store, with the keys ``meta`` and ``attrs``."""

from __future__ import annotations

import re
from typing import Any

from omnizarr import config
from omnizarr._json import dumps, kind_of, load_object
from omnizarr.errors import InvalidMetadata, InvalidName, Problem
from omnizarr.formats import codec_names, format, numpy_types
from omnizarr.formats.format import Documents, Format, Kind, cannot, check_version
from omnizarr.formats.numpy_types import beyond_pairs, check_pairs, number_shapes, to_type_string
from omnizarr.model import ArrayModel, Dialect, FillValue, GroupModel, Named, Node
from omnizarr.model.fields import Fields

FIELDS = (
    "zarr_format",
    "shape",
    "chunks",
    "dtype",
    "compression",
    "compression_opts",
    "fill_value",
    "order",
)
# The option of each library that an integer in `compression_opts` sets.
_LEVELS = {**dict.fromkeys(("zlib", "bz2", "gzip", "zstd"), "level"), "lz4": "acceleration"}
COMPRESSORS = ("zlib", "bz2", "lzma", "blosc")


class V1(Format):
    """Zarr version 1."""

    name = "1"
    dialect: Dialect = "v1"
    undefined_fill = True
    codecs_by_id = True
    has_groups = False
    order_by_setting = True

    def keys(self, path: str) -> tuple[str, ...]:
        return () if path else ("meta", "attrs")

    def read(self, path: str, documents: Documents, problems: list[Problem]) -> Node | None:
        if path or "meta" not in documents:
            return None
        doc = load_object(documents["meta"], "meta", allow_nan=True)
        fields = Fields("meta", doc, problems)
        fields.require(*FIELDS)
        check_version(fields, 1)
        shape = fields.integers("shape")
        chunks = fields.chunks(shape)
        order = fields.choice("order", ("C", "F"))
        data_type = read_type(fields)
        check_fill(fields, data_type)
        for name in beyond_pairs(fields.get("dtype")):
            message = f"field {name!r}: version 1 has only pairs of a name and a type string"
            fields.warn("dtype", message)
        step = _compression(fields)
        if config.get().v1_order == "writer" and (step is None or step["id"] != "blosc"):
            order = "C"
        attributes = {}
        if "attrs" in documents:
            attributes = load_object(documents["attrs"], "attrs", allow_nan=True)
        else:
            problems.append(Problem("attrs", "", "required, but missing", "warning"))
        fields.done("not valid zarr 1")
        return ArrayModel(
            shape=shape,
            data_type=data_type,
            chunk_grid=Named("regular", {"chunk_shape": list(chunks)}),
            chunk_key_encoding=Named("v2", {"separator": "."}),
            fill_value=FillValue(doc["fill_value"], self.dialect),
            codecs=codec_names.from_ids([step] if step else [], order, len(shape), data_type),
            attributes=attributes,
            dimension_names=format.from_attributes(attributes, len(shape), "attrs", problems),
            extra={k: v for k, v in doc.items() if k not in FIELDS},
        )

    def write(self, path: str, node: Node) -> dict[str, bytes | None]:
        if isinstance(node, GroupModel):
            raise cannot(self.name, "a group", "version 1 has only arrays")
        array = self._adapt(node)
        order, steps, data_type = codec_names.to_ids(array, self.name)
        step = steps[-1] if steps else None
        name, options = _to_compression(step)
        meta = {
            **array.extra,
            "zarr_format": 1,
            "shape": list(array.shape),
            "chunks": list(array.chunk_grid.configuration["chunk_shape"]),
            "dtype": to_type_string(data_type, self.name),
            "compression": name,
            "compression_opts": options,
            "fill_value": array.fill_value.json,
            "order": order,
        }
        attributes = format.to_attributes(array, self.name)
        return {
            "meta": dumps(meta, indent=4, sort_keys=True),
            "attrs": dumps(attributes, indent=4, sort_keys=True),
        }

    def adapt(self, array: ArrayModel) -> ArrayModel:
        adapted = self._adapt(array)
        for name in beyond_pairs(to_type_string(array.data_type, self.name)):
            raise cannot(self.name, f"the field {name!r}, which has fields of its own")
        _, steps, _ = codec_names.to_ids(adapted, self.name)
        if steps and steps[0]["id"] not in COMPRESSORS:
            what = f"the compressor {steps[0]['id']!r}"
            raise cannot(self.name, what, "it has none, zlib, bz2, lzma and blosc")
        return adapted

    def _adapt(self, array: ArrayModel) -> ArrayModel:
        """Adapt an array as `adapt` does, but keep a compressor that version 1 does not define."""
        format.check_plain(array, self.name)
        check_pairs(array.data_type, self.name)
        if to_type_string(array.data_type, self.name) == "|O":
            raise cannot(self.name, f"the data type {array.data_type.name!r}")
        order, steps, data_type = codec_names.to_ids(array, self.name)
        if len(steps) > 1:
            names = ", ".join(s["id"] for s in steps)
            raise cannot(self.name, f"several codecs ({names})", "there is one compressor")
        _to_compression(steps[0] if steps else None)
        rank = len(array.shape)
        codecs = codec_names.from_ids(steps, order, rank, data_type)
        return array.with_(
            codecs=codecs, data_type=data_type, chunk_key_encoding=self.key_encoding(".")
        )

    def key_encoding(self, separator: str | None) -> Named:
        if separator not in (None, "."):
            raise cannot(self.name, f"the separator {separator!r}")
        return Named("v2", {"separator": "."})

    def check_name(self, path: str) -> None:
        if path:
            raise InvalidName(f"zarr 1 has no paths: one store is one array, got {path!r}")

    def children(self, path: str, keys: list[str], prefixes: list[str]) -> dict[str, Kind | None]:
        return {}

    def is_metadata(self, key: str) -> bool:
        return key in ("meta", "attrs")

    def is_zarr_key(self, key: str) -> bool:
        return key in ("meta", "attrs") or key.replace(".", "").isdigit()


def read_type(fields: Fields) -> Named:
    """Read the field `dtype` of versions 1 and 2."""
    stated = fields.get("dtype")
    if "dtype" not in fields.values:
        return Named("bool")
    try:
        named = numpy_types.from_type_string(stated)
    except InvalidMetadata as e:
        fields.error("dtype", str(e))
        return Named("bool")
    if isinstance(stated, str) and stated[0] in "<>" and stated[1:] in ("b1", "i1", "u1"):
        fields.warn("dtype", f"{stated!r} has a byte order, but one byte; write '|{stated[1:]}'")
    for name, shape in number_shapes(stated):
        fields.warn("dtype", f"the shape of field {name!r} should be a list: [{shape}]")
    return named


def check_fill(fields: Fields, named: Named) -> None:
    """Record a fill value in a spelling that other readers do not accept."""
    fill, name = fields.get("fill_value"), named.name
    if isinstance(fill, bool) and re.match("u?int", name):
        message = f"expected a number for {name}, got {kind_of(fill)}; read as {int(fill)}"
        fields.warn("fill_value", message)
    if re.match("float|complex", name):
        for part in fill if isinstance(fill, list) else [fill]:
            if isinstance(part, str) and part.startswith("0x"):
                message = f"{part!r}: only version 3 has fill values as bits; others refuse it"
                fields.warn("fill_value", message)


def _compression(fields: Fields) -> dict[str, Any] | None:
    name, options = fields.get("compression"), fields.get("compression_opts")
    if name is None and "compression" in fields.values:
        fields.warn("compression", "expected a string, got null; read as 'none'")
    if name is None or name == "none":
        return None
    if not fields.expect("compression", isinstance(name, str), "a string", name):
        return None
    if name in _LEVELS and not isinstance(options, dict):
        if options is None:
            return {"id": name}
        good = isinstance(options, int) and not isinstance(options, bool)
        if not fields.expect("compression_opts", good, "a level or an object", options):
            return None
        return {"id": name, _LEVELS[name]: options}
    if options is not None and not isinstance(options, dict):
        if name in ("blosc", "lzma"):
            fields.expect("compression_opts", False, "an object", options)
            return None
        return {"id": name, "compression_opts": options}
    return {**(options or {}), "id": name}


def _to_compression(step: dict[str, Any] | None) -> tuple[str, Any]:
    if step is None:
        return "none", None
    name = step["id"]
    options = {k: v for k, v in step.items() if k != "id"}
    if name in ("zlib", "bz2"):
        return name, options.get("level", 1)
    if name in _LEVELS and options.keys() == {_LEVELS[name]}:
        return name, options[_LEVELS[name]]
    if name == "blosc":
        if options.get("blocksize", 0) == 0:
            options.pop("blocksize", None)
        if options.get("shuffle") == -1:
            raise cannot("1", "automatic shuffle", "state 0, 1 or 2")
        return name, options
    if name == "lzma":
        return name, options
    if options.keys() == {"compression_opts"}:
        return name, options["compression_opts"]
    return name, options or None
