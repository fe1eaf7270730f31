"""Codecs: how a chunk becomes bytes and back. One file a codec, three kinds."""

from omnizarr import registry
from omnizarr.codecs.chain import Chain, bind_chain, bind_codec
from omnizarr.codecs.codec import ArrayArray, ArrayBytes, BytesBytes, Codec, Configured, Spec

__all__ = [
    "ArrayArray",
    "ArrayBytes",
    "BytesBytes",
    "Chain",
    "Codec",
    "Configured",
    "Spec",
    "bind_chain",
    "bind_codec",
]

for _name, _target in {
    "bytes": "bytes:Bytes",
    "endian": "bytes:Bytes",
    "transpose": "transpose:Transpose",
    "gzip": "deflate:StrictGzip",
    "numcodecs.gzip": "deflate:Gzip",
    "numcodecs.zlib": "deflate:Zlib",
    "numcodecs.bz2": "stdlib:Bz2",
    "numcodecs.lzma": "stdlib:Lzma",
    "zstd": "zstd:Zstd",
    "numcodecs.zstd": "zstd:Zstd",
    "numcodecs.lz4": "lz4:Lz4",
    "blosc": "blosc:Blosc",
    "numcodecs.blosc": "blosc:NumcodecsBlosc",
    "crc32c": "crc32c:Crc32c",
    "vlen-utf8": "vlen:VlenUtf8",
    "numcodecs.vlen-utf8": "vlen:VlenUtf8",
    "vlen-bytes": "vlen:VlenBytes",
    "numcodecs.vlen-bytes": "vlen:VlenBytes",
    "packbits": "packbits:Packbits",
    "cast_value": "cast_value:CastValue",
    "reshape": "reshape:Reshape",
    "scale_offset": "scale_offset:ScaleOffset",
    "sharding_indexed": "sharding_indexed:ShardingIndexed",
    "numcodecs.*": "numcodecs:Numcodecs",
    "bitround": "numcodecs:Bitround",
    "filter-on-bytes": "numcodecs:OnBytes",
}.items():
    registry.register("codec", _name, f"omnizarr.codecs.{_target}")

# The names that zarr-python has for them; imported on first use.
_LATER = {
    "BloscCname": "codecs.words:BloscCname",
    "BloscCodec": "codecs.blosc:Blosc",
    "BloscShuffle": "codecs.words:BloscShuffle",
    "BytesCodec": "codecs.bytes:Bytes",
    "CastValue": "codecs.cast_value:CastValue",
    "Crc32cCodec": "codecs.crc32c:Crc32c",
    "Endian": "codecs.words:Endian",
    "GzipCodec": "codecs.deflate:StrictGzip",
    "ScaleOffset": "codecs.scale_offset:ScaleOffset",
    "ShardingCodec": "codecs.sharding_indexed:ShardingIndexed",
    "ShardingCodecIndexLocation": "codecs.words:ShardingCodecIndexLocation",
    "TransposeCodec": "codecs.transpose:Transpose",
    "VLenBytesCodec": "codecs.vlen:VlenBytes",
    "VLenUTF8Codec": "codecs.vlen:VlenUtf8",
    "ZstdCodec": "codecs.zstd:Zstd",
}

__getattr__ = registry.attributes(__name__, _LATER)


def __dir__() -> list[str]:
    return sorted({*__all__, *_LATER})
