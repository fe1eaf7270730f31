"""The arrays that are exchanged with other libraries: data types, codecs and layouts.

A case is one array. Every data type meets every layout, and every codec meets every layout; the
full product would only repeat what these show. Values are random bits, so they have NaN
payloads, negative zeros, NaT and extremes among them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

import omnizarr
from tests.property import strategies
from tests.property.strategies import filled

ATTRIBUTES = {"title": "peer", "n": 3, "nested": {"list": [1, 2.5, None, True, "é"]}}
STRING = np.dtypes.StringDType()


@dataclass(frozen=True, slots=True)
class Layout:
    """Shape, chunks and their keys."""

    name: str
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    order: str = "C"
    separator: str = "."


LAYOUTS = (
    Layout("0d", (), ()),
    Layout("1d-overhang", (10,), (4,), "C", "/"),
    Layout("2d-C-dot", (6, 4), (3, 2)),
    Layout("2d-F-slash-overhang", (5, 7), (2, 3), "F", "/"),
    Layout("3d-F-dot-overhang", (3, 4, 5), (2, 3, 2), "F", "."),
    Layout("zero-length", (0, 4), (2, 2), "C", "/"),
)
PLAIN = LAYOUTS[2]


@dataclass(frozen=True, slots=True)
class Type:
    """A data type with the fill value of missing chunks."""

    name: str
    dtype: Any
    fill: Any
    # The type for omnizarr if it is not the dtype.
    own: Any = None

    @property
    def given(self) -> Any:
        return self.dtype if self.own is None else self.own


def _of_bits(bits: int, dtype: str) -> Any:
    """Return the float with exactly these bits."""
    size = np.dtype(dtype).itemsize
    return np.array(bits, f"{dtype[0]}u{size}").view(dtype)[()]


NUMERIC = (
    Type("bool", np.dtype("?"), True),
    *(
        Type(
            f"{order}{kind}{size}" if size > 1 else f"{kind}1", np.dtype(f"{order}{kind}{size}"), 7
        )
        for kind, size, order in itertools.product("iu", (1, 2, 4, 8), "<>")
        if size > 1 or order == "<"
    ),
    *(
        Type(f"{order}f{size}", np.dtype(f"{order}f{size}"), fill)
        for (size, fill), order in itertools.product(((2, -0.0), (4, np.inf), (8, np.nan)), "<>")
    ),
    *(
        Type(f"{order}c{size}", np.dtype(f"{order}c{size}"), complex(-0.0, np.inf))
        for size, order in itertools.product((8, 16), "<>")
    ),
    Type("int64-min", np.dtype("<i8"), -(2**63)),
    Type("uint64-max", np.dtype("<u8"), 2**64 - 1),
    Type("float64-minus-infinity", np.dtype("<f8"), -np.inf),
)
TIMES = (
    Type("<M8[ns]", np.dtype("<M8[ns]"), np.datetime64("NaT", "ns")),
    Type(">M8[D]", np.dtype(">M8[D]"), np.datetime64("2020-02-29", "D")),
    Type("<M8[25s]", np.dtype("<M8[25s]"), np.datetime64(3, "25s")),
    Type("<m8[us]", np.dtype("<m8[us]"), np.timedelta64(-5, "us")),
    Type(">m8[s]", np.dtype(">m8[s]"), np.timedelta64("NaT", "s")),
)
TEXT = (
    Type("S5", np.dtype("S5"), b"ab"),
    Type("<U3", np.dtype("<U3"), "äz"),
    Type(">U3", np.dtype(">U3"), "äz"),
)
RAW = (Type("V3", np.dtype("V3"), np.void(b"\x01\x00\xff")),)


def _struct(name: str, value: Any, *fields: tuple[Any, ...]) -> Type:
    dtype = np.dtype(list(fields))
    return Type(name, dtype, np.array(value, dtype)[()])


STRUCTS = (_struct("struct", (1, 2.5, b"x"), ("a", "<i4"), ("b", "<f8"), ("c", "S3")),)
BIG_STRUCTS = (
    _struct("struct-big", (1, 2.5), ("a", ">i4"), ("b", ">f8")),
    _struct("struct-mixed", (1, 2.5), ("a", ">i4"), ("b", "<f8")),
)
NESTED_STRUCTS = (
    _struct("struct-nested", ((0, 0), 0), ("p", [("x", "<f4"), ("y", "<f4")]), ("n", "u1")),
    _struct("struct-subarray", (0, 0), ("v", "<f4", (2, 2)), ("n", "u1")),
)
VARIABLE = (
    Type("string", STRING, "fill é", own=str),
    Type("bytes", np.dtype(object), b"fi\x00ll", own=bytes),
)
SMALL = tuple(
    Type(name, np.dtype(getattr(ml_dtypes, name)), 1, own=name) for name in strategies.SMALL
)
BITS = {"2": 2, "4": 4, "float4_e2m1fn": 4, "float6_e2m3fn": 6, "float6_e3m2fn": 6}


def values(type_: Type, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return random items of a type, always the same for one shape."""
    random = np.random.default_rng(20220525 + sum(shape))
    count = int(np.prod(shape))
    if type_.name == "string":
        items = [["", "a", "é", "日本語", "x" * 20][i] for i in random.integers(0, 5, count)]
        return np.array(items, STRING).reshape(shape)
    if type_.name == "bytes":
        out = np.empty(count, object)
        out[:] = [[b"", b"\x00", b"a\x00b", b"\xff" * 9][i] for i in random.integers(0, 4, count)]
        return out.reshape(shape)
    return _fixed(type_.dtype, count, random).reshape(shape)


def _fixed(dtype: np.dtype[Any], count: int, random: np.random.Generator) -> npt.NDArray[Any]:
    if dtype.names is not None:
        out = np.zeros(count, dtype)
        for name in dtype.names:
            inner = dtype[name]
            base, shape = inner.subdtype if inner.subdtype else (inner, ())
            part = _fixed(base, count * int(np.prod(shape)), random)
            out[name] = part.reshape(count, *shape)
        return out
    if dtype.kind == "b":
        return random.integers(0, 2, count).astype(bool)
    if dtype.kind == "U":
        letters = np.array(list("aé日𝄞\0"))
        length = dtype.itemsize // 4
        words = ["".join(letters[random.integers(0, 5, length)]) for _ in range(count)]
        return np.array(words, dtype)
    raw = random.integers(0, 256, count * dtype.itemsize, dtype=np.uint8)
    bits = 8
    if dtype.name in ("int2", "uint2", "int4", "uint4"):
        bits = int(dtype.name[-1])
    elif dtype.name in BITS:
        bits = BITS[dtype.name]
    if bits < 8:
        signed = dtype.name.startswith("int")
        kind = np.int8 if signed else np.uint8
        raw = ((raw.view(kind) << (8 - bits)) >> (8 - bits)).view(np.uint8)
    return raw.view(dtype)


@dataclass(frozen=True, slots=True)
class Codecs:
    """Codecs in the notation of version 2 (numcodecs configurations) or of version 3."""

    name: str
    filters: tuple[dict[str, Any], ...] = ()
    compressor: dict[str, Any] | None = None
    # Version 3: what follows `bytes`, and the codecs before it.
    before: tuple[dict[str, Any], ...] = ()
    endian: str | None = "little"
    serializer: dict[str, Any] | None = None
    after: tuple[dict[str, Any], ...] = ()
    # The types it is meant for, by name; empty for all.
    only: tuple[str, ...] = ()


def named(name: str, **configuration: Any) -> dict[str, Any]:
    """Return a codec as version 3 writes it."""
    if configuration or name.startswith("numcodecs."):  # zarr-python wants the member for these
        return {"name": name, "configuration": configuration}
    return {"name": name}


# Codecs of numcodecs with their configurations: on bytes, and on arrays of halves.
ON_BYTES: dict[str, dict[str, Any]] = {
    "zlib": {"level": 1},
    "gzip": {"level": 5},
    "bz2": {"level": 1},
    "lzma": {"format": 1, "check": -1, "preset": None, "filters": None},
    "zstd": {"level": 3},
    "lz4": {"acceleration": 1},
    "blosc": {"cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
    **{name: {} for name in ("crc32", "crc32c", "adler32", "fletcher32", "jenkins_lookup3")},
}
ON_HALVES: dict[str, dict[str, Any]] = {
    "fixedscaleoffset": {"scale": 2, "offset": 10, "dtype": "<f8", "astype": "<i2"},
    "quantize": {"digits": 1, "dtype": "<f8"},
    "bitround": {"keepbits": 10},
    "astype": {"encode_dtype": "<f4", "decode_dtype": "<f8"},
}


def _v2(name: str, **configuration: Any) -> dict[str, Any]:
    return {"id": name, **(configuration or ON_BYTES.get(name, {}))}


NONE = Codecs("none")
COMPRESSORS_V2 = (
    NONE,
    *(Codecs(n, compressor=_v2(n)) for n in ("zlib", "gzip", "bz2", "lzma", "zstd", "lz4")),
    Codecs("zstd-checksum", compressor=_v2("zstd", level=1, checksum=True)),
    *(
        Codecs(
            f"blosc-{cname}-{shuffle}",
            compressor=_v2("blosc", cname=cname, clevel=5, shuffle=shuffle, blocksize=0),
        )
        for cname, shuffle in itertools.product(
            ("lz4", "lz4hc", "blosclz", "zlib", "zstd"), range(3)
        )
    ),
)
FILTERS_V2 = (
    Codecs("delta", (_v2("delta", dtype="<i4"),), only=("<i4",)),
    Codecs(
        "delta-astype+zlib",
        (_v2("delta", dtype="<i4", astype="<i4"),),
        _v2("zlib"),
        only=("<i4",),
    ),
    *(Codecs(n, (_v2(n, **given),), only=("halves",)) for n, given in ON_HALVES.items()),
    Codecs("packbits", (_v2("packbits"),), only=("bool",)),
    Codecs("shuffle+zlib", (_v2("shuffle", elementsize=4),), _v2("zlib"), only=("<i4",)),
    *(
        Codecs(name, (_v2(name),), only=("<i4", "<f8"))
        for name in ("crc32", "adler32", "fletcher32")
    ),
    Codecs("zlib+crc32", (_v2("zlib"), _v2("crc32")), only=("<i4",)),
)
NUMCODECS_V3 = (
    *(Codecs(f"numcodecs.{n}", after=(named(f"numcodecs.{n}", **c),)) for n, c in ON_BYTES.items()),
    Codecs(
        "numcodecs.shuffle",
        after=(named("numcodecs.shuffle", elementsize=8), named("numcodecs.zlib", level=1)),
    ),
    *(
        Codecs(f"numcodecs.{n}", before=(named(f"numcodecs.{n}", **c),))
        for n, c in [("delta", {"dtype": "<f8"}), *ON_HALVES.items()]
    ),
    Codecs("numcodecs.packbits", before=(named("numcodecs.packbits"),), only=("bool",)),
)
HALVES = Type("halves", np.dtype("<f8"), 1.5)


def typesize(type_: Type) -> int:
    """Return the item size for blosc."""
    return 1 if type_.name in ("string", "bytes") else type_.dtype.itemsize


def codecs_v3(type_: Type) -> tuple[Codecs, ...]:
    """Return every core codec of version 3, for a type of fixed size."""
    size = typesize(type_)
    blosc = tuple(
        Codecs(
            f"blosc-{cname}-{shuffle}",
            after=(
                named(
                    "blosc",
                    cname=cname,
                    clevel=5,
                    shuffle=shuffle,
                    typesize=size,
                    blocksize=0,
                ),
            ),
        )
        for cname, shuffle in itertools.product(
            ("lz4", "lz4hc", "blosclz", "zlib", "zstd"), ("noshuffle", "shuffle", "bitshuffle")
        )
    )
    return (
        NONE,
        Codecs("big", endian="big"),
        Codecs("gzip", after=(named("gzip", level=5),)),
        Codecs("zstd", after=(named("zstd", level=3, checksum=False),)),
        Codecs("zstd-checksum", after=(named("zstd", level=1, checksum=True),)),
        Codecs("crc32c", after=(named("crc32c"),)),
        Codecs("big+gzip+crc32c", endian="big", after=(named("gzip", level=1), named("crc32c"))),
        *blosc,
    )


@dataclass(frozen=True, slots=True)
class Case:
    """One array: its data and how it is stored."""

    type: Type
    codecs: Codecs
    layout: Layout
    format: int
    data: npt.NDArray[Any] = field(compare=False)

    @property
    def name(self) -> str:
        return f"{self.type.name}/{self.codecs.name}/{self.layout.name}"

    @property
    def missing_region(self) -> tuple[slice, ...] | None:
        """The region of the first chunk, which is not written if there are others."""
        layout = self.layout
        if all(n <= c for n, c in zip(layout.shape, layout.chunks, strict=True)):
            return None
        return tuple(slice(0, c) for c in layout.chunks)

    @property
    def expected(self) -> npt.NDArray[Any]:
        """The values to be read: the data, with the fill value in the missing chunk."""
        out = self.data.copy()
        if self.missing_region is not None:
            out[self.missing_region] = filled(self.type.fill, out.dtype)
        return out

    def rest(self) -> Iterator[tuple[slice, ...]]:
        """Yield the regions of all chunks except the missing one, in the order of the grid."""
        layout = self.layout
        counts = [-(-n // c) for n, c in zip(layout.shape, layout.chunks, strict=True)]
        for index in itertools.product(*map(range, counts)):
            if self.missing_region is None or any(index):
                yield tuple(
                    slice(i * c, min((i + 1) * c, n))
                    for i, c, n in zip(index, layout.chunks, layout.shape, strict=True)
                )

    @property
    def before(self) -> list[dict[str, Any]]:
        """The array-to-array codecs in version 3, including F order."""
        axes = list(reversed(range(len(self.layout.shape))))
        order = [named("transpose", order=axes)] if self.layout.order == "F" else []
        return [*order, *self.codecs.before]

    @property
    def serializer(self) -> dict[str, Any]:
        """The array-to-bytes codec in version 3."""
        if self.codecs.serializer is not None:
            return self.codecs.serializer
        if self.type.name in ("string", "bytes"):
            return named("vlen-utf8" if self.type.name == "string" else "vlen-bytes")
        one_byte = self.type.dtype.itemsize == 1 or self.type.dtype.kind in "SV?"
        if one_byte and self.type.dtype.names is None:
            return named("bytes")
        return named("bytes", endian=self.codecs.endian)


def case(type_: Type, codecs: Codecs, layout: Layout, format: int) -> Case:
    """Return the case with its data; `halves` are numbers that lossy filters preserve."""
    if type_ is HALVES:
        count = int(np.prod(layout.shape))
        data = (np.arange(count) / 2).reshape(layout.shape)
    else:
        data = values(type_, layout.shape)
    return Case(type_, codecs, layout, format, data)


def cases_v2(type_: Type) -> list[Case]:
    """Return the cases of one type in version 2: all layouts, and all codecs that fit."""
    compressors = COMPRESSORS_V2[1], COMPRESSORS_V2[5], COMPRESSORS_V2[9], NONE
    found = [
        case(type_, compressors[i % len(compressors)], layout, 2)
        for i, layout in enumerate(LAYOUTS)
    ]
    filters = [c for c in FILTERS_V2 if type_.name in c.only]
    if type_.name in ("<i4", "<f8", "S5", "string"):
        filters += COMPRESSORS_V2
    for i, codecs in enumerate(filters):
        found.append(case(type_, codecs, LAYOUTS[1 + i % 4], 2))
    return list({c.name: c for c in found}.values())


def cases_v3(type_: Type) -> list[Case]:
    """Return the cases of one type in version 3: all layouts, and all codecs that fit."""
    every = codecs_v3(type_)
    some = every[0], every[4], every[2], every[8], every[6]
    found = [case(type_, some[i % len(some)], layout, 3) for i, layout in enumerate(LAYOUTS)]
    if type_.name in ("<i4", "<f8", "S5", "string"):
        found += [case(type_, c, LAYOUTS[1 + i % 4], 3) for i, c in enumerate(every)]
    return list({c.name: c for c in found}.values())


def numcodecs_v3() -> list[Case]:
    """Return the codecs of numcodecs under the names that zarr-python gives them in version 3."""
    bool_, layouts = NUMERIC[0], (LAYOUTS[0], LAYOUTS[1], PLAIN, LAYOUTS[3])
    return [
        case(bool_ if codecs.only else HALVES, codecs, layout, 3)
        for codecs, layout in itertools.product(NUMCODECS_V3, layouts)
    ]


def fill_cases(format: int) -> list[Case]:
    """Return difficult fill values, each in an array without chunks."""
    floats = {
        "minus-zero": -0.0,
        "infinity": np.inf,
        "minus-infinity": -np.inf,
        "nan": np.nan,
        "tiny": 5e-324,
        "third": 1 / 3,
    }
    types = [Type(f"fill-{name}", np.dtype("<f8"), value) for name, value in floats.items()]
    if format == 3:  # version 2 has only the word NaN
        types.append(Type("fill-nan-payload", np.dtype("<f8"), _of_bits(0x7FF0000000000123, "<f8")))
        types.append(Type("fill-minus-nan", np.dtype("<f4"), _of_bits(0xFFC00001, "<f4")))
    return [case(t, NONE, LAYOUTS[1], format) for t in types]


def ours(where: Any, one: Case) -> omnizarr.Array:
    """Create the empty array of a case with omnizarr."""
    options: dict[str, Any] = {
        "shape": one.layout.shape,
        "chunks": one.layout.chunks,
        "dtype": one.type.given,
        "fill_value": one.type.fill,
        "attributes": ATTRIBUTES,
        "zarr_format": one.format,
        "chunk_key_encoding": one.layout.separator,
    }
    if one.format == 2:
        options |= {
            "order": one.layout.order,
            "filters": list(one.codecs.filters) or None,
            "compressors": one.codecs.compressor,
        }
    else:
        options["codecs"] = [*one.before, one.serializer, *one.codecs.after]
    return omnizarr.create_array(where, **options)


def write(array: Any, one: Case) -> None:
    """Write the data to all chunks except the missing one."""
    for region in one.rest():
        array[region] = one.data[region]


def little(dtype: Any) -> Any:
    """Return the type without its byte order."""
    return dtype if dtype.hasobject or dtype.kind == "T" else dtype.newbyteorder("<")


def same(found: npt.NDArray[Any], expected: npt.NDArray[Any]) -> str:
    """Return how two arrays differ: in shape, type up to byte order, or any bit."""
    if found.shape != expected.shape:
        return f"shape {found.shape}, expected {expected.shape}"
    if expected.dtype.hasobject or expected.dtype.kind == "T":
        a, b = found.ravel().tolist(), expected.ravel().tolist()
        return "" if a == b else f"{a} are not {b}"
    if little(found.dtype) != little(expected.dtype):
        return f"type {found.dtype}, expected {expected.dtype}"
    order = little(expected.dtype)
    a, b = found.astype(order).tobytes(), expected.astype(order).tobytes()
    return "" if a == b else f"{found.tolist()} are not {expected.tolist()}"


def compare(array: Any, one: Case, attributes: dict[str, Any] = ATTRIBUTES) -> str:
    """Return how an array opened by either library differs from the case."""
    dtype = one.expected.dtype
    if array.shape != one.layout.shape:
        return f"shape {array.shape}"
    if little(array.dtype) != little(dtype):
        return f"type {array.dtype}"
    if dict(array.attrs) != attributes:
        return f"attributes {dict(array.attrs)}"
    found = filled(array[...], dtype, array.shape)
    return same(found, one.expected) or same(
        filled(array.fill_value, dtype), filled(one.type.fill, dtype)
    )


# What every exchange of version 2 tries, and of version 3 without types that few libraries have.
TYPES_2 = (
    *NUMERIC,
    *TIMES,
    *TEXT,
    *RAW,
    *STRUCTS,
    *BIG_STRUCTS,
    *NESTED_STRUCTS,
    *VARIABLE,
    HALVES,
)
TYPES_3 = (
    *(t for t in (*NUMERIC, *TIMES) if t.name[0] != ">"),
    *TEXT[:2],
    *RAW,
    *STRUCTS,
    *VARIABLE,
)
