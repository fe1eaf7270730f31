"""Codecs as versions 1 and 2 and the draft write them, and as version 3 does.

Readers keep the older form (``numcodecs.<id>`` with its configuration as it stands), so that a
rewritten document says what it said; writers translate into their own words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from omnizarr.formats.filters import (
    Items,
    as_step,
    ending,
    given,
    in_order,
    items_of,
    ordered,
    taken,
)
from omnizarr.formats.format import cannot
from omnizarr.formats.numpy_types import byte_orders, itemsize
from omnizarr.model import ArrayModel, Named
from omnizarr.model.numcodecs_ids import (
    ARRAY_TO_ARRAY,
    ARRAY_TO_BYTES,
    BYTES_FILTERS,
    CHECKSUMS,
    PREFIX,
)

# A filter on arrays that a version 2 document lists after one on bytes, or that sees the bytes of
# the items as another type; its configuration is that of the filter, with the id.
ON_BYTES = "filter-on-bytes"
SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")
# Names of version 3 that mean the same as a numcodecs id, with the same configuration.
_SAME = {"gzip": "gzip", "zstd": "zstd", "vlen-utf8": "vlen-utf8", "vlen-bytes": "vlen-bytes"}
# Further ids that have a name there, ``numcodecs.<id>``, which zarr-python knows.
_WITH_PREFIX = frozenset(
    {
        *("lz4", "zlib", "bz2", "lzma", "blosc", "bitround"),
        *("delta", "fixedscaleoffset", "quantize", "packbits", "astype", "shuffle"),
        *("crc32", "crc32c", "adler32", "fletcher32", "jenkins_lookup3", "pcodec", "zfpy"),
    }
)
_SAME_AS = {"bitround": "bitround"}


def from_ids(
    steps: Sequence[dict[str, Any]], order: str, rank: int, data_type: Named
) -> tuple[Named, ...]:
    """The model's codecs for numcodecs configurations in the order of encoding."""
    named = [
        Named(PREFIX + step["id"], {k: v for k, v in step.items() if k != "id"}) for step in steps
    ]
    kinds = [_kind(step["id"]) for step in steps]
    is_bytes, items = False, items_of(data_type)
    for i, kind in enumerate(kinds):
        if kind == "array->array" and (is_bytes or not items.fits(taken(steps[i]))):
            named[i], kinds[i] = Named(ON_BYTES, steps[i]), "bytes->bytes"
            is_bytes = True
        is_bytes = is_bytes or kind != "array->array"
        items = items if is_bytes else given(steps[i], items)
    if "array->bytes" not in kinds:
        # Unknown filters are taken to work on the array, like most that are known.
        at = kinds.index("bytes->bytes") if "bytes->bytes" in kinds else len(named)
        named.insert(at, Named("bytes"))
    if order == "F":
        named.insert(0, Named("transpose", {"order": list(reversed(range(rank)))}))
    return tuple(named)


def _kind(id_: str) -> str:
    if id_ in ARRAY_TO_ARRAY:
        return "array->array"
    if id_ in ARRAY_TO_BYTES:
        return "array->bytes"
    return "bytes->bytes"


def split_order(array: ArrayModel, format_name: str) -> tuple[str, list[Named]]:
    """The order ``C`` or ``F`` that leading transposes amount to, and the other codecs."""
    rank = len(array.shape)
    codecs = list(array.codecs)
    axes = list(range(rank))
    while codecs and codecs[0].name == "transpose":
        order: Any = codecs.pop(0).configuration.get("order")
        order = {"C": list(range(rank)), "F": list(reversed(range(rank)))}.get(str(order), order)
        axes = [axes[i] for i in order]
    if any(c.name == "transpose" for c in codecs):
        raise cannot(format_name, "a transpose after other codecs")
    # Of one axis both are true; a transpose then only remembers that the document said F.
    if axes == list(reversed(range(rank))) and len(codecs) < len(array.codecs):
        return "F", codecs
    if axes == list(range(rank)):
        return "C", codecs
    raise cannot(format_name, f"the axis order {axes}", "only C and F order exist")


def to_ids(array: ArrayModel, format_name: str) -> tuple[str, list[dict[str, Any]], Named]:
    """Order, numcodecs configurations in the order of encoding, and the type of the items with
    the byte order in which the first of them gets it."""
    order, codecs = split_order(array, format_name)
    steps: list[dict[str, Any]] = []
    filters: list[dict[str, Any]] = []
    stored = None
    for codec in codecs:
        step = as_step(codec)
        if step is not None and not steps:
            filters.append(step)
        elif codec.name in ("bytes", "endian"):
            stored = codec.configuration.get("endian")
        else:
            steps.append(_to_id(codec, format_name))
    filters, data_type = _with_types(filters, stored, array.data_type, format_name)
    return order, [*filters, *steps], data_type


def _with_types(
    filters: list[dict[str, Any]], stored: Any, data_type: Named, format_name: str
) -> tuple[list[dict[str, Any]], Named]:
    """Filters that see items as they come, and the type that the first one gets."""
    if stored in ("little", "big"):  # as in version 3, where the type has no order
        first = next((found for f in filters if (found := taken(f)) is not None), None)
        order = stored if first is None else first.order
        if order == "big" and "little" in byte_orders(data_type) and not items_of(data_type).order:
            raise cannot(format_name, "a big-endian structure without changing its type")
        data_type = in_order(data_type, order)
        filters = ending(ordered(filters, order), stored)
    else:
        filters = ordered(filters, items_of(data_type).order)
    items = items_of(data_type)
    for step in filters:
        if not items.fits(taken(step)):
            what = f"the filter {step['id']!r} on items that have another size than its type"
            raise cannot(format_name, what, "state the type that it is used on")
        items = given(step, items)
    return filters, data_type


def _to_id(codec: Named, format_name: str) -> dict[str, Any]:
    config = dict(codec.configuration)
    if codec.name == ON_BYTES:
        return config
    if codec.name.startswith(PREFIX):
        return {"id": codec.name.removeprefix(PREFIX), **config}
    if codec.name in _SAME:
        if codec.name == "zstd" and not config.get("checksum", False):
            config.pop("checksum", None)
        return {"id": _SAME[codec.name], **config}
    if codec.name in _SAME_AS:
        return {"id": _SAME_AS[codec.name], **config}
    if codec.name == "crc32c":
        return {"id": "crc32c"}
    if codec.name == "blosc":
        config.pop("typesize", None)
        shuffle = SHUFFLES.index(config["shuffle"])
        return {"id": "blosc", "blocksize": 0, **config, "shuffle": shuffle}
    raise cannot(format_name, f"the codec {codec.name!r}")


def split_compressor(
    steps: list[dict[str, Any]],
) -> tuple[list[dict[str, Any]] | None, dict[str, Any] | None]:
    """Filters and compressor of a version 2 document."""
    last = steps[-1]["id"] if steps else None
    if last is None or last in ARRAY_TO_ARRAY | ARRAY_TO_BYTES | BYTES_FILTERS:
        return steps or None, None
    return steps[:-1] or None, steps[-1]


def without_checksums(codecs: Sequence[Named]) -> tuple[tuple[Named, ...], tuple[str, ...]]:
    """Codecs without those that only add a checksum, and the names of what was left out.

    zstd keeps the checksum in its own frame, which can be read without being told of it.
    """
    kept: list[Named] = []
    left_out: list[str] = []
    for codec in codecs:
        id_ = codec.name.removeprefix(PREFIX)
        if id_ in CHECKSUMS:
            left_out.append(id_)
        elif id_ == "zstd" and codec.configuration.get("checksum"):
            left_out.append("checksum of zstd")
            kept.append(codec.without("checksum"))
        else:
            kept.append(codec)
    return tuple(kept), tuple(left_out)


def to_names(array: ArrayModel) -> tuple[Named, ...]:
    """The codecs in the names of version 3."""
    out: list[Named] = []
    items = Items(itemsize(array.data_type) or 1, None)
    at_bytes = False
    for codec in array.codecs:
        config = dict(codec.configuration)
        if codec.name == ON_BYTES:
            raise cannot("3", f"the filter {config['id']!r} on bytes", "array filters come first")
        id_ = codec.name.removeprefix(PREFIX) if codec.name.startswith(PREFIX) else None
        from_id = id_ is not None and array.fill_value.dialect != "v3"
        if from_id and id_ not in _WITH_PREFIX | _SAME.keys():
            raise cannot("3", f"the codec {id_!r}", "it has no name there")
        if id_ in ARRAY_TO_ARRAY:
            items = given({**config, "id": id_}, items)
        if codec.name == "transpose" and config.get("order") in ("C", "F"):
            axes = range(len(array.shape))
            config["order"] = list(axes if config["order"] == "C" else reversed(axes))
            codec = Named("transpose", config)
        elif codec.name == "endian":  # its name in 2023
            codec = Named("bytes", config, codec.must_understand)
        elif id_ == "blosc":
            codec = _blosc(config, (items.size or 1) if at_bytes else 1)
        elif id_ == "gzip":
            codec = Named("gzip", {"level": config.get("level", 1)})
        elif id_ == "zstd":
            level = {"level": config.get("level", 0)}
            codec = Named("zstd", {**level, "checksum": bool(config.get("checksum", False))})
        elif id_ in ("vlen-utf8", "vlen-bytes"):
            codec = Named(str(id_))
        elif id_ == "bitround":
            codec = Named("bitround", config)
        elif id_ == "crc32c" and config.get("location", "end") == "end":
            codec = Named("crc32c")
        at_bytes = codec.name == "bytes"
        out.append(codec)
    return tuple(out)


def _blosc(config: dict[str, Any], size: int) -> Named:
    shuffle = config.get("shuffle", 1)
    if shuffle == -1:
        shuffle = 2 if size == 1 else 1
    return Named(
        "blosc",
        {
            "cname": config.get("cname", "lz4"),
            "clevel": config.get("clevel", 5),
            "shuffle": SHUFFLES[shuffle],
            "typesize": size,
            "blocksize": config.get("blocksize", 0),
        },
    )
