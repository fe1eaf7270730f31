"""Codecs: they turn chunks into bytes and back. There are three kinds (see `codec`)."""

from typing import TYPE_CHECKING

from omnizarr import registry
from omnizarr.model.node import IMAGE_ARRAYS, IMAGE_COMPRESSORS, IMAGE_FILTERS, IMAGE_FORMATS

if TYPE_CHECKING:
    from omnizarr.codecs.blosc import Blosc as BloscCodec
    from omnizarr.codecs.blosc import NumcodecsBlosc as Blosc
    from omnizarr.codecs.cast_value import CastValue
    from omnizarr.codecs.codec import (
        ArrayArrayCodec,
        ArrayBytesCodec,
        BytesBytesCodec,
        Codec,
        Configured,
        Spec,
        as_bytes_array,
    )
    from omnizarr.codecs.compressors import Bz2 as BZ2
    from omnizarr.codecs.compressors import Crc32c as Crc32cCodec
    from omnizarr.codecs.compressors import Gzip as GZip
    from omnizarr.codecs.compressors import Lzma as LZMA
    from omnizarr.codecs.compressors import StrictGzip as GzipCodec
    from omnizarr.codecs.compressors import Zlib
    from omnizarr.codecs.compressors import Zstd as ZstdCodec
    from omnizarr.codecs.filters import Transpose as TransposeCodec
    from omnizarr.codecs.pipeline import CodecPipeline, bind_codec, bind_pipeline
    from omnizarr.codecs.scale_offset import ScaleOffset
    from omnizarr.codecs.serializers import Bytes as BytesCodec
    from omnizarr.codecs.serializers import VlenBytes as VLenBytesCodec
    from omnizarr.codecs.serializers import VlenUtf8 as VLenUTF8Codec
    from omnizarr.codecs.sharding import ShardingIndexed as ShardingCodec

__all__ = [
    "BZ2",
    "LZMA",
    "ArrayArrayCodec",
    "ArrayBytesCodec",
    "Blosc",
    "BloscCodec",
    "BytesBytesCodec",
    "BytesCodec",
    "CastValue",
    "Codec",
    "CodecPipeline",
    "Configured",
    "Crc32cCodec",
    "GZip",
    "GzipCodec",
    "ScaleOffset",
    "ShardingCodec",
    "Spec",
    "TransposeCodec",
    "VLenBytesCodec",
    "VLenUTF8Codec",
    "Zlib",
    "ZstdCodec",
    "as_bytes_array",
    "bind_codec",
    "bind_pipeline",
]

for _target, _names in {
    "serializers:Bytes": "bytes endian",
    "serializers:VlenUtf8": "vlen-utf8 numcodecs.vlen-utf8",
    "serializers:VlenBytes": "vlen-bytes numcodecs.vlen-bytes",
    "serializers:Packbits": "packbits",
    "filters:Transpose": "transpose",
    "filters:Reshape": "reshape zarrs.reshape",
    "filters:Squeeze": "zarrs.squeeze",
    "filters:Bitround": "bitround",
    "compressors:StrictGzip": "gzip",
    "compressors:Gzip": "numcodecs.gzip",
    "compressors:Zlib": "numcodecs.zlib",
    "compressors:Bz2": "numcodecs.bz2",
    "compressors:Lzma": "numcodecs.lzma",
    "compressors:Zstd": "zstd numcodecs.zstd",
    "compressors:Lz4": "numcodecs.lz4",
    "compressors:Crc32c": "crc32c",
    "blosc:Blosc": "blosc",
    "blosc:NumcodecsBlosc": "numcodecs.blosc",
    "cast_value:CastValue": "cast_value",
    "scale_offset:ScaleOffset": "scale_offset",
    "sharding:ShardingIndexed": "sharding_indexed",
    "numcodecs": "numcodecs.*",  # all that have no class of their own
    "numcodecs:OnBytes": "filter-on-bytes",
    "extensions.zfp:Zfp": "zfp zarrs.zfp",
    "extensions.zfp:Zfpy": "numcodecs.zfpy",
    "extensions.pcodec:Pcodec": "numcodecs.pcodec",
    "extensions.imagecodecs:ImageFormat": " ".join(IMAGE_FORMATS | IMAGE_ARRAYS),
    "extensions.imagecodecs:ImageCompressor": " ".join(IMAGE_COMPRESSORS),
    "extensions.imagecodecs:ImageFilter": " ".join(IMAGE_FILTERS),
    "extensions.conditional:Conditional": "conditional",
    # Those of zarrs, also by the names that its earlier versions wrote.
    "extensions.zarrs:VlenArray": "vlen-array numcodecs.vlen-array",
    "extensions.zarrs:Vlen": "zarrs.vlen vlen https://codec.zarrs.dev/array_to_bytes/vlen",
    "extensions.zarrs:VlenV2": "zarrs.vlen_v2 vlen_v2"
    " https://codec.zarrs.dev/array_to_bytes/vlen_v2",
    "extensions.zarrs:Optional": "zarrs.optional optional",
}.items():
    for _name in _names.split():
        registry.register("codec", _name, f"omnizarr.codecs.{_target}")

# Imported on first use; an equals sign is before the name in the module. Names are those of
# numcodecs, for versions 1 and 2, or of zarr-python, if they end in Codec.
_LATER = {
    name.partition("=")[0]: f"codecs.{module}:{name.rpartition('=')[2]}"
    for module, names in {
        "blosc": "Blosc=NumcodecsBlosc BloscCodec=Blosc",
        "cast_value": "CastValue",
        "codec": "ArrayArrayCodec ArrayBytesCodec BytesBytesCodec Codec Configured Spec"
        " as_bytes_array",
        "compressors": "BZ2=Bz2 Crc32cCodec=Crc32c GZip=Gzip GzipCodec=StrictGzip LZMA=Lzma Zlib"
        " ZstdCodec=Zstd",
        "filters": "TransposeCodec=Transpose",
        "pipeline": "CodecPipeline bind_codec bind_pipeline",
        "scale_offset": "ScaleOffset",
        "serializers": "BytesCodec=Bytes VLenBytesCodec=VlenBytes VLenUTF8Codec=VlenUtf8",
        "sharding": "ShardingCodec=ShardingIndexed",
    }.items()
    for name in names.split()
}

if not TYPE_CHECKING:  # for which any name would be one of the module's
    __getattr__ = registry.attributes(__name__, _LATER)


def __dir__() -> list[str]:
    return sorted(__all__)
