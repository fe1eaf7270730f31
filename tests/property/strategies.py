"""Hypothesis strategies for the arrays that each format can express."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

import omnizarr
from omnizarr.data_types.numeric import COMPLEX_PARTS

FORMATS = (1, 2, "3-draft", 3)
STRING = np.dtypes.StringDType()
BYTES = np.dtype(object)
UNITS = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as")
_FLOATS = "e3m4 e4m3 e4m3b11fnuz e4m3fn e4m3fnuz e5m2 e5m2fnuz e8m0fnu"
SMALL = {
    **{"int2": 2, "int4": 4, "uint2": 2, "uint4": 4, "bfloat16": 16},
    **{"float4_e2m1fn": 4, "float6_e2m3fn": 6, "float6_e3m2fn": 6},
    **{f"float8_{name}": 8 for name in _FLOATS.split()},
}
# Bit patterns that random bits seldom hit: zeros, infinities and NaNs with a payload.
SPECIAL = {
    2: (0x0000, 0x8000, 0x7C00, 0xFC00, 0x7E00, 0xFE00, 0x7C01, 0x7FFF),
    4: (0, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00000, 0x7FA00001),
    8: (0, 1 << 63, 0x7FF << 52, 0xFFF << 52, 0x7FF8 << 48, 0xFFF8 << 48, (0x7FF << 52) + 291),
}


@dataclass(frozen=True, slots=True)
class Described:
    """An array to be created: format, NumPy type and options."""

    format: int | str
    dtype: Any
    shape: tuple[int, ...]
    fill: Any
    options: dict[str, Any] = field(compare=False)

    def create(self, store: Any, **more: Any) -> omnizarr.Array:
        """Return the array in a store."""
        return omnizarr.create_array(
            store,
            shape=self.shape,
            fill_value=self.fill,
            zarr_format=self.format,
            **{**self.options, **more},
        )

    def empty(self) -> npt.NDArray[Any]:
        """Return the NumPy array that corresponds to a new array."""
        return filled(self.fill, self.dtype, self.shape)


def filled(value: Any, dtype: Any, shape: tuple[int, ...] = ()) -> npt.NDArray[Any]:
    """Return an array of one value, including every bit of it."""
    out = np.empty(shape, dtype)
    out[...] = value
    return out


def bits(array: Any) -> Any:
    """Return shape, type and bits of an array, to be compared."""
    array = np.asarray(array)
    if array.dtype.hasobject or array.dtype.kind == "T":
        return array.shape, array.tolist()
    if array.dtype.name in ("int2", "int4", "uint2", "uint4"):  # the unused bits are anything
        return array.shape, array.dtype, array.astype(np.int8).tolist()
    return array.shape, array.dtype, array.tobytes()


# Data types


def simple_types(format: int | str) -> st.SearchStrategy[np.dtype[Any]]:
    """Return a strategy for NumPy types that a format has, in both byte orders."""
    codes = ["?", "i1", "u1"] + [
        f"{order}{code}"
        for order in "<>"
        for code in ("i2", "i4", "i8", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")
    ]
    times = st.builds(
        lambda order, kind, unit, scale: np.dtype(f"{order}{kind}8[{scale}{unit}]"),
        st.sampled_from("<>"),
        st.sampled_from("mM"),
        st.sampled_from(UNITS),
        st.sampled_from((1,) if format == "3-draft" else (1, 7)),
    )
    sized = st.builds(
        lambda code, size: np.dtype(f"{code}{size}"),
        st.sampled_from(("S", "V", "<U", ">U")),
        st.integers(1, 5),
    )
    return st.one_of(st.sampled_from(codes).map(np.dtype), times, sized)


def struct_types(format: int | str) -> st.SearchStrategy[np.dtype[Any]]:
    """Return a strategy for structured types that a format has."""

    def record(inner: list[tuple[np.dtype[Any], tuple[int, ...]]]) -> np.dtype[Any]:
        return np.dtype([(f"f{i}", dtype, shape) for i, (dtype, shape) in enumerate(inner)])

    shapes = st.sampled_from(((), (2,), (2, 3)) if format == 2 else ((),))
    leaf: st.SearchStrategy[np.dtype[Any]] = simple_types(format)
    if format in (3, "3-draft"):
        leaf = leaf.map(lambda d: d.newbyteorder("<"))
    if format == 1:
        return st.lists(st.tuples(leaf, shapes), min_size=1, max_size=3).map(record)
    return st.recursive(
        leaf,
        lambda inner: st.lists(st.tuples(inner, shapes), min_size=1, max_size=3).map(record),
        max_leaves=4,
    ).filter(lambda d: d.names is not None)


def complex_type(name: str) -> tuple[np.dtype[Any], str]:
    """Return the NumPy type of complex numbers of small floats, and their name."""
    part = COMPLEX_PARTS[name]
    dtype = np.dtype("f2") if part == "float16" else np.dtype(getattr(ml_dtypes, part))
    return np.dtype([("real", dtype), ("imag", dtype)]), name


def types(format: int | str) -> st.SearchStrategy[Any]:
    """Return a strategy for NumPy types with the matching argument of omnizarr."""
    simple = simple_types(format).map(lambda d: (d, d))
    found = [simple, simple, struct_types(format).map(lambda d: (d, d))]
    if format in (2, 3):
        found.append(st.sampled_from(((STRING, str), (BYTES, bytes))))
    if format == 3:
        small = st.sampled_from(list(SMALL))
        found.append(small.map(lambda name: (np.dtype(getattr(ml_dtypes, name)), name)))
        found.append(st.sampled_from(sorted(COMPLEX_PARTS)).map(complex_type))
    return st.one_of(found)


# Values


def text(most: int) -> st.SearchStrategy[str]:
    """Return a strategy for text without lone surrogates, which UTF-8 cannot hold."""
    return st.text(st.characters(exclude_categories=["Cs"]), max_size=most)


def values(dtype: Any, shape: tuple[int, ...]) -> st.SearchStrategy[npt.NDArray[Any]]:
    """Return a strategy for arrays of random bits, all of them valid items."""
    count = int(np.prod(shape))
    if dtype in (STRING, BYTES):
        item: st.SearchStrategy[Any] = text(4) if dtype == STRING else st.binary(max_size=4)

        def spread(items: list[Any]) -> npt.NDArray[Any]:
            out = np.empty(count, dtype)
            for i in range(count):
                out[i] = items[i % len(items)]
            return out.reshape(shape)

        return st.lists(item, min_size=1, max_size=5).map(spread)
    # A few random items, repeated with a counter mixed in, are as good and much faster.
    size = max(1, min(count, 8)) * dtype.itemsize

    def from_bytes(data: bytes) -> npt.NDArray[Any]:
        raw = np.resize(np.frombuffer(data, np.uint8), count * dtype.itemsize)
        return regular(raw.copy(), dtype).reshape(shape)

    random = st.binary(min_size=size, max_size=size).map(from_bytes)
    if dtype.kind == "f" and dtype.name not in SMALL:
        special = st.sampled_from(SPECIAL[dtype.itemsize]).map(
            lambda b: filled(
                np.array(b, f"u{dtype.itemsize}")
                .astype(f"{dtype.byteorder}u{dtype.itemsize}")
                .view(dtype),
                dtype,
                shape,
            )
        )
        return st.one_of(random, special)
    return random


def regular(raw: npt.NDArray[np.uint8], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return bytes as items of a type, made valid where necessary."""
    if dtype.names is not None:
        items = raw.view(dtype).copy()
        for name in dtype.names:
            base = dtype[name].base
            part = np.ascontiguousarray(items[name])
            items[name] = regular(part.reshape(-1).view(np.uint8), base).reshape(part.shape)
        return items
    if dtype.kind == "b":
        return (raw & 1).view(dtype)
    if dtype.kind == "U":
        points = raw.view(np.uint32) % 0xD800
        return points.astype(f"{dtype.byteorder}u4").view(dtype)
    if SMALL.get(dtype.name, 8) < 8:
        shift = 8 - SMALL[dtype.name]
        kind = np.int8 if dtype.name.startswith("int") else np.uint8
        return ((raw.view(kind) << shift) >> shift).view(dtype)
    return raw.view(dtype)


def fills(format: int | str, dtype: Any) -> st.SearchStrategy[Any]:
    """Return a strategy for fill values that a format can express."""

    def usual(value: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if format not in (1, 2) or dtype.kind not in "fc":
            return value
        parts = value.reshape(1).view(f"{dtype.byteorder}f{part}").copy()
        parts[np.isnan(parts)] = np.nan
        return parts.view(dtype).reshape(())

    if format == 1 and dtype.kind in "SUVmM":
        return st.just(np.zeros((), dtype))  # version 1 has numbers only
    part = 0 if dtype in (STRING, BYTES) else dtype.itemsize // (2 if dtype.kind == "c" else 1)
    return values(dtype, ()).map(usual)


# Codecs

_BLOSC = st.fixed_dictionaries(
    {
        "id": st.just("blosc"),
        "cname": st.sampled_from(("lz4", "lz4hc", "blosclz", "zlib", "zstd")),
        "clevel": st.integers(0, 9),
        "shuffle": st.integers(0, 2),
        "blocksize": st.sampled_from((0, 16, 64)),
    }
)
_LEVEL = {
    "zlib": st.integers(0, 9),
    "bz2": st.integers(1, 9),
    "gzip": st.integers(0, 9),
    "zstd": st.integers(-5, 9),
}


def _with_level(name: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"id": st.just(name), "level": _LEVEL[name]})


_LZMA = st.just({"id": "lzma", "format": 1, "check": -1, "preset": None, "filters": None})
_LZ4 = st.builds(lambda n: {"id": "lz4", "acceleration": n}, st.integers(1, 5))
_CHECKSUMS = st.sampled_from(("crc32", "adler32", "fletcher32")).map(lambda name: {"id": name})


def old_compressors(format: int | str) -> st.SearchStrategy[dict[str, Any] | None]:
    """Return a strategy for compressors as numcodecs configurations."""
    names = ["zlib", "bz2"] if format == 1 else ["zlib", "bz2", "gzip", "zstd"]
    some = [st.none(), _BLOSC, _LZMA, *map(_with_level, names)]
    return st.one_of(some if format == 1 else [*some, _LZ4])


def number_filters(dtype: np.dtype[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return a strategy for lossless filters on integers, as numcodecs configurations."""
    order = st.sampled_from("<>")

    def code(order: str, size: int) -> str:
        return np.dtype(f"{order}{dtype.kind}{size}").str

    size = dtype.itemsize
    delta = order.map(lambda o: {"id": "delta", "dtype": dtype.str, "astype": code(o, size)})
    found = [st.just({"id": "delta", "dtype": dtype.str}), delta]
    if size < 8:
        wider = st.builds(code, order, st.just(8))
        found.append(
            wider.map(lambda w: {"id": "astype", "encode_dtype": w, "decode_dtype": dtype.str})
        )
    if size < 4:  # its arithmetic is that of floats
        scale = {"id": "fixedscaleoffset", "offset": 0, "scale": 1, "dtype": dtype.str}
        found.append(st.builds(code, order, st.just(size)).map(lambda c: {**scale, "astype": c}))
    return st.one_of(found)


def filters(dtype: Any) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Return a strategy for lossless filters of version 2."""
    if dtype in (STRING, BYTES):
        return st.just([])
    found = [st.just({"id": "shuffle", "elementsize": max(1, dtype.itemsize)}), _CHECKSUMS]
    if dtype.kind in "iu" and dtype.name not in SMALL:
        found.append(number_filters(dtype))
    if dtype.kind == "b":
        found.append(st.just({"id": "packbits"}))
    return st.one_of(st.just([]), st.one_of(found).map(lambda f: [f]))


def named(name: str, **configuration: Any) -> dict[str, Any]:
    """Return a codec in the notation of version 3."""
    return {"name": name, "configuration": configuration} if configuration else {"name": name}


def bytes_codecs(itemsize: int) -> st.SearchStrategy[dict[str, Any]]:
    """Return a strategy for version 3 codecs from bytes to bytes."""
    blosc = st.builds(
        lambda cname, clevel, shuffle, size: named(
            "blosc", cname=cname, clevel=clevel, shuffle=shuffle, typesize=size, blocksize=0
        ),
        st.sampled_from(("lz4", "lz4hc", "blosclz", "zlib", "zstd")),
        st.integers(0, 9),
        st.sampled_from(("noshuffle", "shuffle", "bitshuffle")),
        st.sampled_from((max(1, itemsize), 1, 3)),
    )
    return st.one_of(
        blosc,
        st.integers(0, 9).map(lambda n: named("gzip", level=n)),
        st.builds(
            lambda n, c: named("zstd", level=n, checksum=c), st.integers(-5, 9), st.booleans()
        ),
        st.just(named("crc32c")),
        st.sampled_from(("zlib", "bz2")).map(lambda n: named(f"numcodecs.{n}", level=1)),
        st.sampled_from(("lzma", "lz4", "crc32", "adler32", "fletcher32")).map(
            lambda n: named(f"numcodecs.{n}")
        ),
    )


@st.composite
def codecs(draw: st.DrawFn, dtype: Any, rank: int) -> list[dict[str, Any]]:
    """Draw a complete codec pipeline of version 3."""
    found = []
    if draw(st.booleans()):
        found.append(named("transpose", order=draw(st.permutations(list(range(rank))))))
    integers = dtype not in (STRING, BYTES) and dtype.kind in "iu" and dtype.name not in SMALL
    if integers and draw(st.integers(0, 2)) == 0:
        chosen = dict(draw(number_filters(dtype)))
        found.append(named(f"numcodecs.{chosen.pop('id')}", **chosen))
        found.append(named("bytes", endian=draw(st.sampled_from(("little", "big")))))
        return found + draw(st.lists(bytes_codecs(dtype.itemsize), max_size=2))
    if dtype in (STRING, BYTES):
        found.append(named("vlen-utf8" if dtype == STRING else "vlen-bytes"))
        itemsize = 1
    else:
        itemsize = dtype.itemsize
        plain = dtype.names is None and (dtype.kind in "biufc" or dtype.name in SMALL)
        if plain and draw(st.integers(0, 4)) == 0:
            padding = draw(st.sampled_from(("none", "first_byte", "last_byte")))
            found.append(named("packbits", padding_encoding=padding))
        else:
            found.append(named("bytes", endian=draw(st.sampled_from(("little", "big")))))
    return found + draw(st.lists(bytes_codecs(itemsize), max_size=2))


# Whole arrays


@st.composite
def described(
    draw: st.DrawFn, format: int | str, *, most: int = 12, shards: bool = False
) -> Described:
    """Draw any array that a format can express; with `shards`, possibly a sharded one."""
    dtype, given = draw(types(format))
    shape = tuple(draw(st.lists(st.integers(0, most), max_size=4)))
    chunks = tuple(draw(st.integers(max(1, n // 4), n + 2)) for n in shape)
    options: dict[str, Any] = {"dtype": given, "chunks": chunks}
    if format == 3:
        options["codecs"] = draw(codecs(dtype, len(shape)))
    else:
        options["order"] = draw(st.sampled_from("CF"))
        options["compressors"] = draw(old_compressors(format))
    if shards and format in (3, "3-draft") and shape and draw(st.booleans()):
        options["shards"] = tuple(n * draw(st.integers(1, 3)) for n in chunks)
    if format == 2:
        options["filters"] = draw(filters(dtype)) or None
    if format != 1:
        options["chunk_key_encoding"] = draw(st.sampled_from("./"))
    if format in (3, "3-draft") and dtype.kind not in "TO":
        dtype = dtype.newbyteorder("<")  # their byte order is a matter of the codecs
    fill = draw(fills(format, dtype))
    return Described(format, dtype, shape, fill, options)


# Selections


def select(draw: Any, shape: tuple[int, ...]) -> tuple[str, Any]:
    """Return an attribute of a view, "" for the view itself, and what goes in its brackets."""
    kinds = ["slices", "lists", "points", "mask"] if shape and 0 not in shape else ["slices"]
    kind = draw(st.sampled_from(kinds))
    if kind == "mask":
        return "", np.random.default_rng(draw(st.integers(0, 99))).random(shape) < 0.1
    if kind == "points":
        lists = (st.lists(st.integers(0, n - 1), min_size=3, max_size=3) for n in shape)
        return "vindex", tuple(map(draw, lists))
    parts: list[Any] = []
    for n in shape:
        part = st.slices(n) | st.integers(-n, n - 1) if n else st.slices(n)
        listed = st.lists(st.integers(0, n - 1), min_size=1, max_size=4) if n else part
        parts.append(draw(part | listed if kind == "lists" else part))
    return "oindex" if kind == "lists" else "", tuple(parts)


# Documents


def json_values() -> st.SearchStrategy[Any]:
    """Return a strategy for any JSON, with numbers of every size."""
    leaf = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=5),
        st.sampled_from(("NaN", "0x7fc00000", "<f8", "bytes", "C", "F", ".", "/", "int32", "")),
        st.sampled_from((0, 1, 2, 3, -1, 2**31, 2**62, 2**63, 10**400, 1e308)),
    )
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.lists(inner, max_size=4),
            st.dictionaries(
                st.one_of(
                    st.text(max_size=3),
                    st.sampled_from(
                        ("id", "name", "configuration", "fields", "data_type", "extension", "type")
                    ),
                ),
                inner,
                max_size=4,
            ),
        ),
        max_leaves=8,
    )
