"""Codecs of the package imagecodecs in versions 2 and 3."""

from __future__ import annotations

import io
import json
import random
import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import omnizarr as oz
from omnizarr.codecs.extensions.imagecodecs import checked
from omnizarr.errors import InvalidMetadata, UnknownExtension
from omnizarr.model.node import IMAGE_COMPRESSORS, IMAGECODECS
from tests.codecs.extensions.damage import try_images
from tests.codecs.extensions.samples import chunk_of, reads, smooth, written

imagecodecs = pytest.importorskip("imagecodecs")
package = pytest.importorskip("imagecodecs.numcodecs")

CLASSES = {c.codec_id: c for c in vars(package).values() if hasattr(c, "codec_id")}
RGB = np.stack([smooth((16, 24)) + 100, smooth((16, 24)) * 0.5 + 60], -1)[..., [0, 1, 0]]
COLOUR = np.ascontiguousarray(RGB, "u1")
GRAY = (smooth((16, 24)) + 100).astype("u1")
DEEP = (100 * smooth((16, 24)) + 10000).astype("u2")
FLOATS = smooth((16, 24), "f4")

# Formats and the values to store in them; a name may be followed by a colon and a variant.
FORMATS: dict[str, tuple[dict[str, Any], npt.NDArray[Any]]] = {
    "apng": ({}, COLOUR),
    "avif": ({"level": 50}, COLOUR),
    "bmp": ({}, COLOUR),
    "gif": ({}, GRAY),
    "heif": ({"level": 50}, COLOUR),
    "htj2k": ({}, DEEP),
    "jpeg": ({"level": 90}, COLOUR),
    "jpeg:lossless": ({"lossless": True}, DEEP),
    "jpeg2k": ({}, DEEP),
    "jpeg2k:lossy": ({"level": 30}, COLOUR),
    "jpegls": ({}, DEEP),
    "jpegls:lossy": ({"level": 3}, GRAY),
    "jpegxl": ({}, COLOUR),
    "jpegxl:lossy": ({"lossless": False, "level": 50}, COLOUR),
    "jpegxr": ({}, COLOUR),
    "jpegxr:lossy": ({"level": 0.5}, COLOUR),
    "lerc": ({}, FLOATS),
    "lerc:lossy": ({"level": 0.5}, FLOATS),
    "lerc:zstd": ({"compression": "zstd"}, FLOATS),
    "lerc:deflate": ({"compression": "deflate"}, FLOATS),
    "ljpeg": ({}, DEEP),
    "png": ({"level": 5}, DEEP),
    "qoi": ({}, COLOUR),
    "spng": ({}, COLOUR),
    "tiff": ({}, DEEP),
    "webp": ({"lossless": True}, COLOUR),
    "webp:lossy": ({"level": 50}, COLOUR),
    "zfp": ({}, FLOATS),
    "zfp:lossy": ({"mode": 4, "level": 1}, FLOATS),  # fixed accuracy
    "bfloat16": ({}, FLOATS),
    "float24": ({}, FLOATS),
    "packints": ({"bitspersample": 12}, (DEEP % 4096).astype("u2")),
    "meshopt": ({}, FLOATS),
    "rgbe": ({"header": True}, np.abs(RGB).astype("f4") + 1),
    "rgbe:plain": ({"header": False}, np.abs(RGB).astype("f4") + 1),
}
LOSSY = {"avif", "heif", "jpeg", "bfloat16", "float24", "rgbe", "rgbe:plain"}


def made(name: str, values: npt.NDArray[Any]) -> Any:
    """Return the object of the package, or skip if this build lacks the format."""
    config, _ = FORMATS[name]
    cls = CLASSES.get(IMAGECODECS + name.partition(":")[0])
    if cls is None:
        pytest.skip("this version of imagecodecs lacks it")
    known = {"shape": values.shape, "dtype": values.dtype.str}
    taken = cls.__init__.__code__.co_varnames[: cls.__init__.__code__.co_kwonlyargcount + 1]
    try:
        return cls(**{**{k: v for k, v in known.items() if k in taken}, **config})
    except ValueError as e:
        pytest.skip(str(e))


def image_array(
    name: str, zarr_format: int, lead: tuple[int, ...] = ()
) -> tuple[oz.Array, dict[str, Any]]:
    """Return an array of one chunk in a format, with `lead` axes of one element, and its store."""
    config, values = FORMATS[name]
    values = values.reshape(lead + values.shape)
    full = IMAGECODECS + name.partition(":")[0]
    if zarr_format == 2:
        return written(values, zarr_format=2, compressors={"id": full, **config})
    return written(values, serializer={"name": full, "configuration": config})


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("name", FORMATS)
def test_chunks_are_those_of_the_package(name: str, zarr_format: int) -> None:
    _, values = FORMATS[name]
    codec = made(name, values)
    _, store = image_array(name, zarr_format)
    found = reads(store)
    wanted = np.asarray(codec.decode(chunk_of(store))).reshape(values.shape)
    assert found.dtype == values.dtype
    assert found.tobytes() == wanted.tobytes()
    assert chunk_of(store) == bytes(codec.encode(values))
    if name in LOSSY or name.endswith(":lossy"):
        assert np.abs(found.astype("f8") - values).max() <= 0.2 * np.abs(values).max()
    else:
        assert found.tobytes() == values.tobytes()


@pytest.mark.parametrize("name", ["jpeg2k", "png", "jpeg", "jpegxl", "tiff", "zfp"])
def test_axes_of_one_element_are_left_out_of_images(name: str) -> None:
    lead = (1,) if name == "zfp" else (1, 1)
    _, store = image_array(name, 3, lead)
    assert reads(store).shape == lead + FORMATS[name][1].shape
    if name != "zfp":
        assert chunk_of(store) == chunk_of(image_array(name, 3)[1])


@pytest.mark.parametrize("name", ["ccittrle", "ccittfax3", "ccittfax4"])
def test_what_can_only_be_decoded_is_read(name: str) -> None:
    config, chunk = {"height": 16, "width": 24}, random.Random(1).randbytes(60)
    if IMAGECODECS + name not in CLASSES:
        pytest.skip("this version of imagecodecs lacks it")
    codec = {"name": IMAGECODECS + name, "configuration": config}
    store: dict[str, Any] = {}
    oz.create_array(store, shape=(16, 24), dtype="u1", compressors=None, serializer=codec)
    store["c/0/0"] = chunk
    wanted = getattr(imagecodecs, f"{name}_decode")(chunk, **config)
    assert reads(store).tolist() == wanted.tolist()


def test_subsampled_colours_of_a_tiff_image_are_read() -> None:
    tifffile, file = pytest.importorskip("tifffile"), io.BytesIO()
    tifffile.imwrite(file, COLOUR, compression="jpeg")
    _, store = written(COLOUR, serializer={"name": f"{IMAGECODECS}tiff"})
    store["c/0/0/0"] = file.getvalue()
    assert reads(store).tolist() == imagecodecs.tiff_decode(file.getvalue()).tolist()


# Bytes and filters


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("full", sorted(IMAGE_COMPRESSORS))
def test_compressors_restore_what_they_are_given(full: str, zarr_format: int) -> None:
    config: dict[str, Any] = {
        "imagecodecs_checksum": {"kind": "fletcher32"},
        "imagecodecs_szip": {
            **{"options_mask": 4, "pixels_per_block": 16, "bits_per_pixel": 16},
            "pixels_per_scanline": 24,
        },
    }.get(full, {})
    try:
        CLASSES[full](**config).encode(b"1234")
    except (KeyError, ValueError, NotImplementedError) as e:
        pytest.skip(f"this build of imagecodecs cannot encode it: {e}")
    codec = {"id": full, **config} if zarr_format == 2 else {"name": full, "configuration": config}
    _, store = written(DEEP, zarr_format=zarr_format, compressors=codec)
    assert reads(store).tobytes() == DEEP.tobytes()
    if zarr_format == 2:
        assert json.loads(store[".zarray"])["compressor"] == codec


FILTERS: dict[str, tuple[dict[str, Any], npt.NDArray[Any]]] = {
    "delta": ({"axis": 0}, DEEP),
    "xor": ({}, DEEP),
    "floatpred": ({"axis": -1}, FLOATS),
    "byteshuffle": ({"axis": -1}, FLOATS),
    "bitshuffle": ({}, DEEP),
    "bitorder": ({}, GRAY),
    "quantize": ({"mode": "bitround", "nsd": 5}, FLOATS),
}


def test_members_that_are_null_may_be_those_of_another_version() -> None:
    codec = {"id": "imagecodecs_packbits", "axis": None, "of_another_version": None}
    _, store = written(GRAY, zarr_format=2, compressors=codec)
    assert reads(store).tobytes() == GRAY.tobytes()
    with pytest.raises(oz.InvalidMetadata, match="of_another_version"):
        written(GRAY, zarr_format=2, compressors={**codec, "of_another_version": 1})


@pytest.mark.parametrize("name", FILTERS)
def test_filters_of_version_3_turn_arrays_into_arrays(name: str) -> None:
    config, values = FILTERS[name]
    codec = {"name": IMAGECODECS + name, "configuration": config}
    _, store = written(values, filters=codec, compressors=f"{IMAGECODECS}zlib")
    if name == "quantize":
        assert np.abs(reads(store) - values).max() <= np.abs(values).max() / 2**5
        return
    assert reads(store).tobytes() == values.tobytes()
    arguments = {"itemsize": values.itemsize} if name == "bitshuffle" else {}
    function = getattr(imagecodecs, f"{name}_encode")
    expected = np.asarray(function(values, **config, **arguments)).tobytes()
    assert imagecodecs.zlib_decode(chunk_of(store)) == expected


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("order", ["<", ">"])
def test_filters_of_version_2_come_before_a_compressor(name: str, order: str) -> None:
    config, values = FILTERS[name]
    values = values.astype(values.dtype.newbyteorder(order))
    known = {"shape": list(values.shape), "dtype": values.dtype.str}
    if name in ("quantize", "bitshuffle", "bitorder"):
        known = {"itemsize": values.itemsize} if name == "bitshuffle" else {}
    if name == "quantize" and order == ">":
        return  # the package takes the order of the machine only
    step = {"id": IMAGECODECS + name, **known, **config}
    lzw = {"id": f"{IMAGECODECS}lzw"}
    _, store = written(values, zarr_format=2, filters=[step], compressors=lzw)
    document = json.loads(store[".zarray"])
    assert (document["filters"], document["compressor"]) == ([step], lzw)
    codec = CLASSES[step["id"]].from_config({k: v for k, v in step.items() if k != "id"})
    found = np.asarray(codec.decode(imagecodecs.lzw_decode(chunk_of(store))))
    assert reads(store).tobytes() == found.tobytes()
    if name != "quantize":
        assert reads(store).tobytes() == values.tobytes()


@pytest.mark.parametrize("name", ["jpeg", "jpeg2k", "png", "webp"])
def test_images_after_bytes_are_read(name: str) -> None:
    """Some writers of version 3 take the formats of images for codecs of bytes."""
    config, values = FORMATS[name]
    full = {"name": IMAGECODECS + name, "configuration": config}
    _, store = written(values, codecs=["bytes", full])
    _, plain = image_array(name, 3)
    assert chunk_of(store) == chunk_of(plain)
    assert reads(store).tobytes() == reads(plain).tobytes()


def test_order_f_is_what_zarr_python_reads() -> None:
    """It flattens the image, and takes that for the transposed chunk."""
    store: dict[str, Any] = {}
    codec = {"id": f"{IMAGECODECS}png"}
    options: Any = {"zarr_format": 2, "compressors": codec, "order": "F", "chunks": DEEP.shape}
    oz.create_array(store, data=DEEP, **options)
    assert reads(store).tobytes() == DEEP.tobytes()
    image = imagecodecs.png_decode(chunk_of(store))
    assert image.reshape(-1).reshape(DEEP.shape, order="F").tolist() == DEEP.tolist()


def test_numbers_in_foreign_byte_order_are_converted() -> None:
    values = DEEP.astype(">u2")
    _, store = written(values, zarr_format=2, compressors={"id": f"{IMAGECODECS}png"})
    assert imagecodecs.png_decode(chunk_of(store)).tolist() == DEEP.tolist()
    assert reads(store).tobytes() == values.tobytes()


@pytest.mark.parametrize("name", ["jpeg", "lzw", "png"])
def test_conversion_keeps_the_chunks(name: str) -> None:
    store: dict[str, Any] = {}
    codec = {"id": IMAGECODECS + name, **({"level": 90} if name != "lzw" else {})}
    oz.create_array(store, data=COLOUR, chunks=COLOUR.shape, zarr_format=2, compressors=codec)
    new: dict[str, Any] = {}
    oz.convert(store, new, zarr_format=3)
    document = json.loads(new["zarr.json"])
    assert document["codecs"][-1]["name"] == IMAGECODECS + name
    assert bytes(new["c/0/0/0"]) == chunk_of(store)
    assert reads(new).tobytes() == reads(store).tobytes()
    back: dict[str, Any] = {}
    oz.convert(new, back, zarr_format=2)
    assert json.loads(back[".zarray"])["compressor"] == codec
    assert chunk_of(back) == chunk_of(store)


# What is refused


def test_an_image_of_another_size_is_an_error() -> None:
    for name in ("png", "jpeg", "jpeg2k", "webp", "tiff", "qoi", "bmp", "lerc", "zfp", "gif"):
        values = FORMATS[name][1]
        store, key = store_and_key(name)
        larger = np.tile(values, (2, 2, 1) if values.ndim == 3 else (2, 2))
        codec = made(name, larger)
        for other in (larger, values[:8]):
            store[key] = bytes(codec.encode(np.ascontiguousarray(other)))
            with pytest.raises(oz.ChunkError):
                oz.open(store, kind="array")[...]


@pytest.mark.parametrize("name", ["jpeg2k", "htj2k", "png", "qoi", "avif", "heif", "gif"])
def test_the_stated_size_is_looked_at_before_memory_is_allocated(name: str) -> None:
    made(name, FORMATS[name][1])
    store, key = store_and_key(name)
    data = bytearray(store[key])
    if name == "png":
        struct.pack_into(">2I", data, 16, 2**14, 2**14)
        struct.pack_into(">I", data, 29, zlib.crc32(data[12:29]))
    elif name == "qoi":
        struct.pack_into(">2I", data, 4, 2**14, 2**14)
    elif name in ("jpeg2k", "htj2k"):
        struct.pack_into(">2I", data, data.index(b"\xff\x4f\xff\x51") + 8, 2**30, 2**30)
    elif name == "gif":
        struct.pack_into("<2H", data, 6, 65535, 65535)
    else:
        struct.pack_into(">2I", data, data.index(b"ispe") + 8, 2**14, 2**14)
    store[key] = bytes(data)
    with pytest.raises(oz.ChunkError, match=r"an image of \d+ pixels, expected \d+ bytes"):
        oz.open(store, kind="array")[...]


@pytest.mark.parametrize("name", ["lerc:zstd", "lerc:deflate"])
def test_compressed_blobs_are_bounded(name: str) -> None:
    store, key = store_and_key(name)
    encode = imagecodecs.zstd_encode if name == "lerc:zstd" else imagecodecs.zlib_encode
    store[key] = encode(bytes(10**7))
    with pytest.raises(oz.ChunkError, match="bytes"):
        oz.open(store, kind="array")[...]


def test_damaged_chunks_are_errors_or_values() -> None:
    """Of formats whose decoders survive it; those of some others do not."""
    images = ["png", "apng", "jpeg", "jpeg2k", "gif", "bmp", "qoi", "lerc", "webp"]
    compressors = [f"bytes:{name}" for name in ("lzw", "zstd", "deflate", "brotli", "packbits")]
    for name, tally in try_images([*images, *compressors], 100).items():
        assert tally["errors"], name


def store_and_key(name: str) -> tuple[dict[str, Any], str]:
    _, store = image_array(name, 3)
    [key] = [k for k in store if k != "zarr.json"]
    return store, key


@pytest.mark.parametrize("name", ["png", "apng"])
def test_parts_of_png_images_are_checked_before_they_are_decoded(name: str) -> None:
    """The package reads freed memory when libpng finds an error."""
    store, key = store_and_key(name)
    sound = bytes(store[key])
    damaged = bytearray(sound)
    damaged[damaged.index(b"IDAT") + 9] ^= 1
    for value, message in (
        (bytes(damaged), "checksum mismatch in the part 'IDAT'"),
        (sound[:-5], "cut off"),
        (sound[:40], "cut off"),
        (sound[1:], "does not start as a PNG"),
    ):
        store[key] = value
        with pytest.raises(oz.ChunkError, match=message):
            oz.open(store, kind="array")[...]


@pytest.mark.parametrize("name", ["jpegls", "ljpeg"])
def test_images_that_are_cut_off_are_not_decoded(name: str) -> None:
    """JPEG-LS would never return."""
    store, key = store_and_key(name)
    store[key] = store[key][: len(store[key]) // 2]
    with pytest.raises(oz.ChunkError, match="marker of its end is missing"):
        oz.open(store, kind="array")[...]


@pytest.mark.parametrize("name", ["htj2k", "jpeg2k"])
@pytest.mark.parametrize("at", [8, 16, 20, 24, 32])  # sizes and offsets of the image and its tiles
def test_images_and_tiles_that_end_before_they_begin_are_not_decoded(name: str, at: int) -> None:
    """HTJ2K would count tiles for hours."""
    store, key = store_and_key(name)
    data = bytearray(store[key])
    struct.pack_into(
        ">I", data, data.index(b"\xff\x4f\xff\x51") + at, 0 if at in (8, 24) else 2**21
    )
    store[key] = bytes(data)
    with pytest.raises(oz.ChunkError, match="no pixels"):
        oz.open(store, kind="array")[...]


@pytest.mark.parametrize(("name", "mark"), [("jpeg2k", b"\xff\x4f\xff\x51"), ("avif", b"ispe")])
def test_bytes_of_an_image_are_not_taken_for_its_header(name: str, mark: bytes) -> None:
    data = FORMATS[name][1]
    image = bytes(made(name, data).encode(data)) + mark + b"\xff" * 40
    assert checked(image, name, data.nbytes) == image


def test_wrong_and_unknown_configurations_are_refused() -> None:
    def create(name: str, **config: Any) -> None:
        codec = {"name": IMAGECODECS + name, "configuration": config}
        oz.create_array({}, shape=(4, 4), dtype="u1", compressors=None, serializer=codec)

    with pytest.raises(InvalidMetadata, match="more: not a member"):
        create("png", more=1)
    with pytest.raises(InvalidMetadata, match="imagecodecs_png"):
        create("png", level="high")
    text: Any = {"dtype": str, "serializer": {"name": f"{IMAGECODECS}png"}}
    with pytest.raises(InvalidMetadata, match="items of a fixed size"):
        oz.create_array({}, shape=4, compressors=None, **text)


def test_a_codec_that_the_package_lacks_is_unknown() -> None:
    store: dict[str, Any] = {}
    oz.create_array(store, shape=4, dtype="u1", zarr_format=2, compressors={"id": "zlib"})
    store[".zarray"] = store[".zarray"].replace(b"zlib", b"imagecodecs_pngs")
    store["0"] = b"1234"
    array = oz.open(store)
    with pytest.raises(UnknownExtension, match=r"imagecodecs_png\b"):
        array[...]
