"""Codecs as each format writes them, translated to and from version 3.

Readers keep the older form (``numcodecs.<id>`` with an unchanged configuration); writers translate
into the names of their own format.

A filter of numcodecs gets the bytes of items whose type has another byte order or size than it
states. zarr-python does the same in version 3, where the items between codecs are numbers. Every
filter in metadata written here states the byte order of its input, so that both read the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from omnizarr.errors import InvalidMetadata, Problem
from omnizarr.formats import numpy_types
from omnizarr.formats.format import cannot
from omnizarr.formats.numpy_types import byte_orders, itemsize, to_type_string, without_order
from omnizarr.model import ArrayModel, Named, node
from omnizarr.model.fields import Fields, named
from omnizarr.model.node import ARRAY_TO_ARRAY, ARRAY_TO_BYTES, CHECKSUMS, IMAGE_FORMATS, PREFIX

Step: TypeAlias = dict[str, Any]  # a configuration of numcodecs, with its id
# A filter on arrays that a version 2 document lists after one on bytes, or that sees the bytes of
# the items as another type; its configuration is that of the filter, with the id.
ON_BYTES = "filter-on-bytes"
SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")
_KINDS = {
    **dict.fromkeys(ARRAY_TO_BYTES, "array->bytes"),
    **dict.fromkeys(ARRAY_TO_ARRAY, "array->array"),
}
# Codecs with the same name and configuration in version 3 and in numcodecs.
_SAME = frozenset({"gzip", "zstd", "vlen-utf8", "vlen-bytes", "bitround"})
# Other ids of numcodecs that zarr-python knows in version 3, as ``numcodecs.<id>``.
_WITH_PREFIX = frozenset(
    {
        *("lz4", "zlib", "bz2", "lzma", "blosc", "bitround"),
        *("delta", "fixedscaleoffset", "quantize", "packbits", "astype", "shuffle"),
        *("crc32", "crc32c", "adler32", "fletcher32", "jenkins_lookup3", "pcodec", "zfpy"),
    }
)
# Codecs of imagecodecs that have the same name and configuration in both.
_OF_IMAGES = IMAGE_FORMATS | node.IMAGE_COMPRESSORS


def from_ids(steps: Sequence[Step], order: str, rank: int, data_type: Named) -> tuple[Named, ...]:
    """Return the model's codecs for numcodecs configurations in the order of encoding."""
    named = [
        Named(PREFIX + step["id"], {k: v for k, v in step.items() if k != "id"}) for step in steps
    ]
    kinds = [_KINDS.get(step["id"], "bytes->bytes") for step in steps]
    is_bytes, items = False, items_of(data_type)
    for i, kind in enumerate(kinds):
        if kind == "array->array" and (is_bytes or not items.fits(taken(steps[i]))):
            named[i], kinds[i] = Named(ON_BYTES, steps[i]), "bytes->bytes"
            is_bytes = True
        is_bytes = is_bytes or kind != "array->array"
        items = items if is_bytes else given(steps[i], items)
    if "array->bytes" not in kinds:
        # Unknown filters are assumed to work on the array, like most known ones.
        at = kinds.index("bytes->bytes") if "bytes->bytes" in kinds else len(named)
        named.insert(at, Named("bytes"))
    if order == "F":
        named.insert(0, Named("transpose", {"order": list(reversed(range(rank)))}))
    return tuple(named)


def split_order(array: ArrayModel, format_name: str) -> tuple[str, list[Named]]:
    """Split codecs into the order ``C`` or ``F`` of leading transposes, and the rest."""
    rank = len(array.shape)
    codecs = list(array.codecs)
    axes = list(range(rank))
    while codecs and codecs[0].name == "transpose":
        order: Any = codecs.pop(0).configuration.get("order")
        order = {"C": list(range(rank)), "F": list(reversed(range(rank)))}.get(str(order), order)
        axes = [axes[i] for i in order]
    if any(c.name == "transpose" for c in codecs):
        raise cannot(format_name, "a transpose after other codecs")
    # One axis has both orders; a transpose then only records that the metadata state F.
    if axes == list(reversed(range(rank))) and len(codecs) < len(array.codecs):
        return "F", codecs
    if axes == list(range(rank)):
        return "C", codecs
    raise cannot(format_name, f"the axis order {axes}", "only C and F order exist")


def to_ids(array: ArrayModel, format_name: str) -> tuple[str, list[Step], Named]:
    """Return the order, the encoding steps, and the item type in the first filter's byte order."""
    order, codecs = split_order(array, format_name)
    steps: list[Step] = []
    filters: list[Step] = []
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
    filters: list[Step], stored: Any, data_type: Named, format_name: str
) -> tuple[list[Step], Named]:
    """Return filters with consistent byte orders, and the type that the first one gets."""
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
    if codec.name in _SAME | _OF_IMAGES:
        if codec.name == "zstd" and not config.get("checksum", False):
            config.pop("checksum", None)
        return {"id": codec.name, **config}
    if codec.name == "crc32c":
        return {"id": "crc32c"}
    if codec.name == "blosc":
        config.pop("typesize", None)
        shuffle = SHUFFLES.index(config["shuffle"])
        return {"id": "blosc", "blocksize": 0, **config, "shuffle": shuffle}
    raise cannot(format_name, f"the codec {codec.name!r}")


def split_compressor(steps: list[Step]) -> tuple[list[Step] | None, Step | None]:
    """Split numcodecs configurations into the filters and the compressor of version 2."""
    last = steps[-1]["id"] if steps else None
    filters = (ARRAY_TO_ARRAY | ARRAY_TO_BYTES | node.BYTES_FILTERS) - node.ARRAY_COMPRESSORS
    if last is None or last in filters:
        return steps or None, None
    return steps[:-1] or None, steps[-1]


def without_checksums(codecs: Sequence[Named]) -> tuple[tuple[Named, ...], tuple[str, ...]]:
    """Return codecs without checksums (but in frames of zstd), and the names of those left out."""
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


# What numcodecs makes of settings that are beyond the limits of its compressors.
_SETTINGS: dict[str, tuple[str, Callable[[int], int]]] = {
    "numcodecs.gzip": ("level", lambda level: 6 if level == -1 else level),
    "numcodecs.zstd": ("level", lambda level: min(max(level, -131072), 22)),
    "numcodecs.blosc": ("blocksize", lambda size: max(size, 0)),
}


def effective(codec: Named) -> Named:
    """Return a codec of numcodecs with the settings that its compressor really uses."""
    if codec.name not in _SETTINGS:
        return codec
    member, limited = _SETTINGS[codec.name]
    stated = codec.configuration.get(member)
    if type(stated) is not int or limited(stated) == stated:
        return codec
    return codec.replace(**{member: limited(stated)})


def to_names(array: ArrayModel) -> tuple[Named, ...]:
    """Return the codecs by their names in version 3."""
    out: list[Named] = []
    items = Items(itemsize(array.data_type) or 1, None)
    at_bytes = False
    for codec in array.codecs:
        config = dict(effective(codec).configuration)
        if codec.name == ON_BYTES:
            raise cannot("3", f"the filter {config['id']!r} on bytes", "array filters come first")
        id_ = codec.name.removeprefix(PREFIX) if codec.name.startswith(PREFIX) else None
        from_id = id_ is not None and array.fill_value.dialect != "v3"
        if id_ in _OF_IMAGES:
            codec = Named(str(id_), {k: v for k, v in config.items() if v is not None})
            codec = codec.without("squeeze", "shape", "dtype")
        elif from_id and id_ not in _WITH_PREFIX | _SAME:
            raise cannot("3", f"the codec {id_!r}", "it has no name there")
        if id_ in ARRAY_TO_ARRAY:
            items = given({**config, "id": id_}, items)
        codec = _modern(codec, len(array.shape))
        if from_id:
            codec = own_name(codec, (items.size or 1) if at_bytes else 1)
        at_bytes = codec.name == "bytes"
        out.append(codec)
    return tuple(out)


def own_name(codec: Named, size: int) -> Named:
    """Return a codec of numcodecs by its name in version 3 itself, if it has one."""
    if not codec.name.startswith(PREFIX):
        return codec
    id_, config = codec.name.removeprefix(PREFIX), dict(effective(codec).configuration)
    if id_ == "blosc":
        return blosc(config, size)
    if id_ == "gzip":
        return Named("gzip", {"level": 1, **config})
    if id_ == "zstd":
        checksum = bool(config.get("checksum", False))
        return Named("zstd", {"level": 0, **config, "checksum": checksum})
    if id_ in ("vlen-utf8", "vlen-bytes"):
        return Named(id_)
    if id_ == "bitround" and config.get("keepbits"):  # none is not allowed there
        return Named("bitround", config)
    if id_ == "crc32c" and config.get("location", "end") == "end":
        return Named("crc32c")
    if id_ == "shuffle":  # the default of numcodecs; zarr-python has another one in version 3
        return codec.replace(elementsize=config.get("elementsize", 4))
    return codec


def blosc(config: dict[str, Any], size: int) -> Named:
    """Return blosc of version 3 with the settings of numcodecs, for items of that size."""
    shuffle = config.get("shuffle", 1)
    if shuffle == -1:
        shuffle = 2 if size == 1 else 1
    settings = {"cname": "lz4", "clevel": 5, "shuffle": None, "typesize": size, "blocksize": 0}
    own = {"shuffle": SHUFFLES[shuffle] if shuffle in (0, 1, 2) else shuffle, "typesize": size}
    return Named("blosc", {**settings, **config, **own})


# Items between filters. The members that state the types of decoded and of encoded items:
_MEMBERS = {
    **dict.fromkeys(("delta", "fixedscaleoffset", "quantize", "categorize"), ("dtype", "astype")),
    "astype": ("decode_dtype", "encode_dtype"),
}


@dataclass(frozen=True, slots=True)
class Items:
    """Size and byte order of items; None if they have none or it is not known."""

    size: int | None
    order: str | None

    def fits(self, stated: Items | None) -> bool:
        """Return True if a filter for items as `stated` reads these items correctly."""
        if stated is None or None in (self.size, stated.size):
            return True
        orders = {self.order, stated.order} - {None}
        return self.size == stated.size and len(orders) < 2


def items_of(data_type: Named) -> Items:
    """Return size and byte order of the items of an array."""
    orders = byte_orders(data_type)
    # Fields of structures are never converted one by one.
    known = len(orders) == 1 and data_type.name not in ("struct", "structured")
    try:
        return Items(itemsize(data_type), next(iter(orders)) if known else None)
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError):
        return Items(None, None)  # a malformed configuration; binding the type reports it


def taken(step: Step) -> Items | None:
    """Return the items that a filter expects, or None if it accepts any."""
    found = _stated(step, 0)
    return None if found is None else items_of(found)


def given(step: Step, before: Items) -> Items:
    """Return the items that a filter produces."""
    if step["id"] == "packbits":
        return Items(1, None)
    found = _stated(step, 1) or _stated(step, 0)
    return before if found is None else items_of(found)


def as_step(codec: Named) -> Step | None:
    """Return the configuration, with its id, of a filter on arrays; None for other codecs."""
    id_ = codec.name.removeprefix(PREFIX)
    if id_ not in ARRAY_TO_ARRAY or (id_ == codec.name and id_ != "bitround"):
        return None
    return {**codec.configuration, "id": id_}


def ordered(steps: Iterable[Step], before: str | None) -> list[Step]:
    """Return filters that each state the byte order produced by the previous one."""
    out = []
    for step in steps:
        step = _with_orders(step, before)
        before = given(step, Items(None, before)).order
        out.append(step)
    return out


def ending(steps: list[Step], order: str) -> list[Step]:
    """Return filters whose final output has items in the stored byte order."""
    for i in reversed(range(len(steps))):
        if taken(steps[i]) is not None:
            return [*steps[:i], _with_orders(steps[i], None, order), *steps[i + 1 :]]
    return steps


def _stated(step: Step, side: int) -> Named | None:
    """Return the type of decoded (0) or encoded (1) items, if it is stated and known."""
    id_ = step["id"]
    text = step.get(_MEMBERS[id_][side]) if id_ in _MEMBERS else None
    if text is None and (id_, side) == ("categorize", 1):
        text = "|u1"  # other filters produce the type of their input
    if not isinstance(text, str) or not text:
        return None
    try:
        return numpy_types.from_type_string(text, order_needed=False)
    except InvalidMetadata:
        named = Named(text)  # such as "float32"
        return named if itemsize(named) else None


def _with_orders(step: Step, taken: str | None, given: str | None = None) -> dict[str, Any]:
    """Return the filter with other byte orders; None leaves one unchanged."""
    before = _stated(step, 0)
    stated = _stated(step, 1)
    if before is None:
        return step
    out, (decoded, encoded) = dict(step), _MEMBERS[step["id"]]
    first, last = in_order(before, taken), in_order(stated or before, given)
    if first != before:
        out[decoded] = to_type_string(first, "2")
    if last != (stated or first):
        out[encoded] = to_type_string(last, "2")
    return out


def in_order(data_type: Named, order: str | None) -> Named:
    """Return the type with its items in that byte order, if it has one."""
    if order is None or items_of(data_type).order in (None, order):
        return data_type
    return data_type.replace(endian="big") if order == "big" else data_type.without("endian")


# Codecs of version 3 in the form that a model or a document needs, also inside shards.
Codecs: TypeAlias = tuple[Named, ...]
Change: TypeAlias = Callable[[Codecs], Codecs]


def inside(codec: Named, change: Change, index: Change) -> Named:
    """Return a `sharding_indexed` with its valid codec lists changed; other codecs unchanged."""
    if codec.name != "sharding_indexed":
        return codec
    config = dict(codec.configuration)
    for member, rewrite in (("codecs", change), ("index_codecs", index)):
        found = _parsed(config.get(member))
        if found is not None:
            config[member] = [as_object(c) for c in rewrite(found)]
    return Named(codec.name, config, codec.must_understand)


def _parsed(stated: object) -> Codecs | None:
    if not isinstance(stated, (list, tuple)):
        return None
    problems: list[Problem] = []
    fields = Fields("", {}, problems)
    found = tuple(c if isinstance(c, Named) else named(fields, "", c) for c in stated)
    return None if problems else found


def walk(codecs: Codecs, members: tuple[str, ...] = ("codecs",)) -> Iterator[Named]:
    """Yield codecs, and after a `sharding_indexed` the codecs in its valid lists `members`."""
    for codec in codecs:
        yield codec
        for member in members if codec.name == "sharding_indexed" else ():
            yield from walk(_parsed(codec.configuration.get(member)) or (), members)


def as_object(extension: Named) -> dict[str, Any]:
    """Return an extension in the form that readers of version 3.0 understand."""
    doc: dict[str, Any] = {"name": extension.name}
    # zarr-python, whose names these are, requires the member even if it is empty.
    if extension.configuration or extension.name.startswith(PREFIX):
        doc["configuration"] = dict(extension.configuration)
    if not extension.must_understand:
        doc["must_understand"] = False
    return doc


def with_order(codecs: Codecs, order: str | None) -> Codecs:
    """Return codecs that state the byte order of items; a shard index is little by default."""
    out = []
    for codec in codecs:
        if codec.name == "cast_value":
            target = codec.configuration.get("data_type")  # a malformed one is reported when bound
            known = isinstance(target, str) and byte_orders(Named(target))
            order = "little" if known else None
        step = as_step(codec)
        if step is not None:
            order = given(step, Items(None, order)).order
        if codec.name == "bytes" and order and codec.configuration.get("endian") is None:
            codec = Named("bytes", {"endian": order}, codec.must_understand)
        items, index = partial(with_order, order=order), partial(with_order, order="little")
        out.append(inside(codec, items, index))
    return tuple(out)


def stored_order(codecs: Codecs) -> str | None:
    """Return the byte order that ``bytes`` states, also inside shards; None if there is none."""
    return next((c.configuration.get("endian") for c in walk(codecs) if c.name == "bytes"), None)


def with_filter_orders(codecs: Codecs) -> Codecs:
    """Return codecs whose filters state the byte orders in which zarr-python passes items.

    Items enter little-endian, as types of version 3 are in memory, and leave as they are stored.
    """
    filters = [(i, step) for i, codec in enumerate(codecs) if (step := as_step(codec)) is not None]
    stored = next((c.configuration.get("endian") for c in codecs if c.name == "bytes"), None)
    steps = ordered((step for _, step in filters), "little")
    if stored in ("little", "big"):
        steps = ending(steps, str(stored))
    out = list(codecs)
    for (i, before), step in zip(filters, steps, strict=True):
        if step != before:
            members = {k: v for k, v in step.items() if k != "id"}
            out[i] = Named(codecs[i].name, members, codecs[i].must_understand)
    return tuple(inside(codec, with_filter_orders, lambda index: index) for codec in out)


def has_letters(codecs: Codecs) -> bool:
    """Return True if the order of a transpose is a letter, also inside shards."""
    every = walk(codecs, ("codecs", "index_codecs"))
    orders = (codec.configuration.get("order") for codec in every if codec.name == "transpose")
    return any(order in ("C", "F") for order in orders)


def modern(codecs: Codecs, rank: int) -> Codecs:
    """Return codecs in today's form, for the spellings of writers in 2023."""
    inner, index = partial(modern, rank=rank), partial(modern, rank=rank + 1)
    return tuple(inside(_modern(codec, rank), inner, index) for codec in codecs)


def _modern(codec: Named, rank: int) -> Named:
    if codec.name == "endian":  # the name of "bytes" in 2023
        return Named("bytes", codec.configuration, codec.must_understand)
    if codec.name == "transpose" and codec.configuration.get("order") in ("C", "F"):
        axes = list(range(rank))
        return codec.replace(order=axes if codec.configuration["order"] == "C" else axes[::-1])
    return codec


# Members that zarr-python takes from the type of the array where version 3 metadata lack them.
_MEMBER_OF_TYPE = {
    "numcodecs.shuffle": "elementsize",
    "numcodecs.fixedscaleoffset": "dtype",
    "numcodecs.quantize": "dtype",
    "numcodecs.astype": "decode_dtype",
}


def completed(codecs: Codecs, data_type: Named) -> Codecs:
    """Return codecs of numcodecs with the members that follow from the type of the array.

    Raises:
        InvalidMetadata: If a member is missing and the type does not say what it is.
    """
    out = []
    for codec in codecs:
        member = _MEMBER_OF_TYPE.get(codec.name)
        if member is not None and codec.configuration.get(member) is None:
            size = items_of(data_type).size
            if size is None:
                raise InvalidMetadata(
                    f"codec {codec.name!r} needs {member!r}: the items of {data_type.name!r} have"
                    " no size from which it follows"
                )
            is_size = member == "elementsize"
            codec = codec.replace(
                **{member: size if is_size else to_type_string(without_order(data_type), "2")}
            )
        inner = partial(completed, data_type=data_type)
        out.append(inside(codec, inner, partial(completed, data_type=Named("uint64"))))
    return tuple(out)


VLEN = {"string": "vlen-utf8", "bytes": "vlen-bytes", "variable_length_bytes": "vlen-bytes"}


def with_vlen(codecs: Codecs, data_type: Named) -> Codecs:
    """Return codecs with `vlen-utf8` or `vlen-bytes`, which have one layout, as the type needs."""
    name = VLEN.get(data_type.name)
    if name is None:
        return codecs
    items = partial(with_vlen, data_type=data_type)
    out = []
    for codec in codecs:
        inner = _parsed(codec.configuration.get("codecs"))
        if codec.name in VLEN.values():
            codec = Named(name, codec.configuration, codec.must_understand)
        elif inner is not None and items(inner) != inner:
            codec = inside(codec, items, tuple)
        out.append(codec)
    return tuple(out)
