"""The codecs of the package imagecodecs: ``imagecodecs_jpeg2k``, ``imagecodecs_lzw`` and others.

Version 2 has them as ids, version 3 by the same names. The configuration is passed to the package
as it is, with what version 3 leaves out since it is that of the chunk (``shape``, ``dtype``,
``itemsize``). Predictors and shuffles make bytes of arrays in version 2, and arrays in version 3.
Some writers of version 3 list an image format after ``bytes``; it then gets the image as bytes.

Images say how large they are. Formats whose decoders would allocate that before the size can be
compared with the chunk's are looked at first, and so are those whose decoders can crash or never
return when an image is cut off or fails its own checksums.
"""

from __future__ import annotations

import inspect
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Self

import numcodecs
import numpy as np
import numpy.typing as npt

from omnizarr.codecs.codec import ArrayArray, ArrayBytes, Buffer, BytesBytes, Codec, Spec, require
from omnizarr.codecs.compressors import Zlib, content_size
from omnizarr.codecs.numcodecs import to_bytes, within_limit
from omnizarr.codecs.specify import plain_member
from omnizarr.errors import InvalidMetadata, UnknownExtension, known_names
from omnizarr.model import Named, node
from omnizarr.model.node import ARRAY_TO_ARRAY, IMAGECODECS, PREFIX, check_members, invalid

# Members that have a default in version 3 only.
_DEFAULTS: dict[str, dict[str, Any]] = {
    "quantize": {"mode": "bitgroom", "nsd": 8},
    "packints": {"bitspersample": 8},
}
# Codecs that take no memory to fill; how much they make depends on the bytes that they are given.
_NO_ROOM = {"bfloat16", "float24", "packints", "dicomrle"}
# Codecs that fill an array only, no other memory.
_FILL_ARRAY = {"ccittfax3", "ccittfax4", "ccittrle", "meshopt", "rgbe"}


def bind_id(named: Named) -> Codec:
    """Return the codec for an id of version 2, whose name in the model has a prefix."""
    id_ = named.name.removeprefix(PREFIX)
    if id_ in ARRAY_TO_ARRAY:
        return ImageFilter.bind(named)
    return (ImageFormat if id_ in node.ARRAY_TO_BYTES else ImageCompressor).bind(named)


@dataclass(frozen=True, slots=True)
class _ImageCodec:
    """A codec of the package: its class there, and the object for chunks of one shape and type."""

    named: Named
    made: Any
    codec: Any = None

    @classmethod
    def bind(cls, named: Named) -> Self:
        """Return the codec with the class that numcodecs has for it, or else imagecodecs."""
        id_ = named.name.removeprefix(PREFIX)
        made = numcodecs.registry.codec_registry.get(id_)
        if made is None:
            module = require("imagecodecs.numcodecs", named.name, "images")
            classes = {getattr(found, "codec_id", None): found for found in vars(module).values()}
            made = classes.get(id_)
        if made is None:
            known = known_names(id_, [name for name in classes if isinstance(name, str)])
            message = f"the package imagecodecs has no codec {id_!r} here; {known}"
            raise UnknownExtension(message, kind="codec", name=named.name)
        return cls(named, made)

    @property
    def name(self) -> str:
        return self.named.name

    @property
    def short(self) -> str:
        """The name of the codec without the prefixes of packages."""
        return self.name.removeprefix(PREFIX).removeprefix(IMAGECODECS)

    def for_spec(self, spec: Spec | None) -> Self:
        """Return the codec for such chunks; `spec` adds what the configuration leaves out.

        Versions of the package differ in their members; those that are null say nothing.
        """
        taken = inspect.signature(self.made.__init__).parameters
        settings = {k: plain_member(v) for k, v in self.named.configuration.items()}
        unused = {k for k, v in settings.items() if v is None and k not in taken}
        check_members(self.named, "codec", optional=(taken.keys() | unused) - {"self"})
        stored = {k: v for k, v in settings.items() if k not in unused}
        members = {**_DEFAULTS.get(self.short, {}), **stored}
        if spec is not None:
            if spec.data_type.variable:
                raise InvalidMetadata(f"codec {self.name!r} takes items of a fixed size")
            if isinstance(members.get("shape"), list) and members["shape"] != list(spec.shape):
                raise invalid("codec", self.name, "shape", f"chunks have {spec.shape}")
            dtype = spec.data_type.dtype
            known = {"shape": list(spec.shape), "dtype": dtype.str, "itemsize": dtype.itemsize}
            members |= {k: v for k, v in known.items() if k in taken and members.get(k) is None}
        try:
            return replace(self, codec=self.made.from_config(members))
        except (TypeError, ValueError) as e:
            if "not available" in str(e):
                message = f"codec {self.name!r}: this build of the package imagecodecs lacks it"
                raise UnknownExtension(message, kind="codec", name=self.name) from None
            raise InvalidMetadata(f"codec {self.name!r}: {e}") from None


@dataclass(frozen=True, slots=True)
class ImageFormat(_ImageCodec, ArrayBytes):
    """A format of images, or another codec that turns arrays into bytes."""

    def on_bytes(self, spec: Spec) -> ImageOnBytes:
        """Return the codec for the bytes of such chunks."""
        return ImageOnBytes(self.name, self.for_spec(spec), spec)

    def encode(self, array: npt.NDArray[Any], spec: Spec) -> Buffer:
        stated = getattr(self.codec, "dtype", None)
        dtype = np.dtype(stated) if isinstance(stated, str) else array.dtype.newbyteorder("=")
        items = np.ascontiguousarray(array.astype(dtype, copy=False)).reshape(spec.shape)
        return to_bytes(self.codec.encode(items))

    def decode(self, data: Buffer, spec: Spec) -> npt.NDArray[Any]:
        dtype, size = spec.data_type.dtype, spec.nbytes or 0
        # Memory for decoders to fill, which raise if it is too small. Three colours of a TIFF image
        # are decoded as four, if they are subsampled.
        room: Any = None
        if self.short in _FILL_ARRAY:
            room = np.zeros(spec.shape, dtype.newbyteorder("="))
        elif self.short not in _NO_ROOM:
            room = np.zeros(size * 4 // 3 if self.short == "tiff" else size, np.uint8).data
        out = np.asarray(self.codec.decode(checked(bytes(data), self.short, size), out=room))
        if out.nbytes != size:
            raise ValueError(
                f"the chunk has {out.dtype} of shape {out.shape}, expected {dtype} {spec.shape}"
            )
        if out.dtype.newbyteorder("=") == dtype.newbyteorder("="):
            return out.astype(dtype, copy=False).reshape(spec.shape)
        return np.ascontiguousarray(out).reshape(-1).view(dtype).reshape(spec.shape)


@dataclass(frozen=True, slots=True)
class ImageOnBytes(BytesBytes):
    """A format of images that metadata list among the codecs of bytes."""

    name: str
    image: ImageFormat
    spec: Spec

    def encode(self, data: Buffer) -> Buffer:
        items = np.frombuffer(data, self.spec.data_type.dtype).reshape(self.spec.shape)
        return self.image.encode(items, self.spec)

    def decode(self, data: Buffer, size: int | None) -> Buffer:
        return to_bytes(self.image.decode(data, self.spec))


@dataclass(frozen=True, slots=True)
class ImageFilter(_ImageCodec, ArrayArray):
    """A predictor or shuffle of version 3."""

    def encode(self, array: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        return self._items(self.codec.encode(np.ascontiguousarray(array)), spec)

    def decode(self, array: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        return self._items(self.codec.decode(np.ascontiguousarray(array).tobytes()), spec)

    def _items(self, made: Any, spec: Spec) -> npt.NDArray[Any]:
        return np.frombuffer(to_bytes(made), spec.data_type.dtype).reshape(spec.shape)


@dataclass(frozen=True, slots=True)
class ImageCompressor(_ImageCodec, BytesBytes):
    """A compressor or checksum of bytes."""

    @classmethod
    def bind(cls, named: Named) -> Self:
        return super(ImageCompressor, cls).bind(named).for_spec(None)

    def encoded_size(self, size: int) -> int | None:
        return size if self.name.removeprefix(PREFIX) in node.IMAGE_SHUFFLES else None

    def encode(self, data: Buffer) -> Buffer:
        return to_bytes(self.codec.encode(bytes(data)))

    def decode(self, data: Buffer, size: int | None) -> Buffer:
        out = None if size is None else bytearray(size)
        return within_limit(to_bytes(self.codec.decode(bytes(data), out=out)), size)


def checked(data: bytes, short: str, size: int) -> bytes:
    """Return an image to decode into `size` bytes; raise if it is larger or cut off."""
    find = _PIXELS.get(short)
    pixels = 0 if find is None else max(find(data), default=0)
    if pixels > size:
        raise ValueError(f"the chunk is an image of {pixels} pixels, expected {size} bytes")
    if short in _WITH_END and b"\xff\xd9" not in data[-4:]:
        raise ValueError("the image is cut off: the marker of its end is missing")
    if short == "lerc":  # without the compression around it
        limit = 2 * size + 2**16
        if data[:1] == b"\x78":
            return bytes(Zlib(1).decode(data, limit))
        stated = content_size(data) if data[:4] == b"\x28\xb5\x2f\xfd" else 0
        if stated is None or stated > limit:
            raise ValueError(f"the zstd frame says {stated} bytes, expected at most {limit}")
    return data


def _png(data: bytes) -> Iterator[int]:
    """Yield the pixels of the header; raise unless all parts are whole and pass their checksums.

    The package reads freed memory to report an error of libpng, so that should not find one.
    """
    if data[:8] != b"\x89PNG\r\n\x1a\n" or data[12:16] != b"IHDR":
        raise ValueError("it does not start as a PNG image does")
    at, name = 8, b""
    while name != b"IEND":
        length = int.from_bytes(data[at : at + 4], "big")
        name, end = data[at + 4 : at + 8], at + 8 + length
        if end + 4 > len(data):
            raise ValueError("the PNG image is cut off")
        if zlib.crc32(data[at + 4 : end]) != int.from_bytes(data[end : end + 4], "big"):
            raise ValueError(f"checksum mismatch in the part {name.decode('latin-1')!r} of the PNG")
        at = end + 4
    yield from _stated(">2I", 16)(data)


def _boxes(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the types and contents of the boxes that a file is made of."""
    at = 0
    while at + 8 <= len(data):
        size, header = int.from_bytes(data[at : at + 4], "big"), 8
        if size == 1:
            size, header = int.from_bytes(data[at + 8 : at + 16], "big"), 16
        size = size or len(data) - at  # the last box may leave it out
        yield data[at + 4 : at + 8], data[at + header : at + size]
        at += max(size, header)


def _jpeg2k(data: bytes) -> Iterator[int]:
    """Yield the pixels of the image and its components.

    Raise for an image or tiles that begin after their end, with which decoders count forever.
    """
    if not data.startswith(b"\xff\x4f"):
        data = next((content for kind, content in _boxes(data) if kind == b"jp2c"), b"")
    if not data.startswith(b"\xff\x4f\xff\x51") or len(data) < 42:
        raise ValueError("it has no image of JPEG 2000")
    right, bottom, left, top, *tile = struct.unpack_from(">8I", data, 8)
    width, height, tile_left, tile_top = tile
    across = tile_left <= left < min(right, tile_left + width)
    if not across or not tile_top <= top < min(bottom, tile_top + height):
        raise ValueError("the image has no pixels, or its first tile has none")
    yield (right - left) * (bottom - top) * int.from_bytes(data[40:42], "big")


def _stated(form: str, at: int, after: bytes = b"") -> Callable[[bytes], Iterator[int]]:
    """Return a function that yields the width times the height in a header, or in several.

    It is that many bytes after the start of the image, or after each occurrence of `after`.
    """

    def pixels(data: bytes) -> Iterator[int]:
        start = data.find(after)
        while start >= 0 and len(data) >= start + at + struct.calcsize(form):
            width, height = struct.unpack_from(form, data, start + at)
            yield width * height
            start = data.find(after, start + 4) if after else -1

    return pixels


def _heif(data: bytes) -> Iterator[int]:
    """Yield the pixels of all image spatial extents in the boxes of metadata."""
    for kind, content in _boxes(data):
        if kind in (b"meta", b"moov"):
            yield from _stated(">2I", 8, b"ispe")(content)


_PIXELS: dict[str, Callable[[bytes], Iterator[int]]] = {
    "png": _png,
    "apng": _png,
    "jpeg2k": _jpeg2k,
    "htj2k": _jpeg2k,
    "jpegxs": lambda data: islice(_stated(">2H", 12, b"\xff\x12")(data), 1),
    "avif": _heif,
    "heif": _heif,
    "gif": _stated("<2H", 6),
    "qoi": _stated(">2I", 4),
}
# Formats that end with a marker, beyond which their decoders read.
_WITH_END = {"jpegls", "ljpeg"}
