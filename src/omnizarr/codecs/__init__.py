"""Codecs: how a chunk becomes bytes and back. One file a codec, three kinds."""

from typing import TYPE_CHECKING

from omnizarr import registry
from omnizarr.codecs.chain import Chain, bind_chain, bind_codec
from omnizarr.codecs.codec import Codec, Configured, Spec, as_bytes_array
from omnizarr.codecs.own import ArrayArrayCodec, ArrayBytesCodec, BytesBytesCodec, check_target

if TYPE_CHECKING:
    from omnizarr.codecs.blosc import Blosc as BloscCodec
    from omnizarr.codecs.bytes import Bytes as BytesCodec
    from omnizarr.codecs.cast_value import CastValue
    from omnizarr.codecs.crc32c import Crc32c as Crc32cCodec
    from omnizarr.codecs.deflate import StrictGzip as GzipCodec
    from omnizarr.codecs.scale_offset import ScaleOffset
    from omnizarr.codecs.sharding_indexed import ShardingIndexed as ShardingCodec
    from omnizarr.codecs.transpose import Transpose as TransposeCodec
    from omnizarr.codecs.vlen import VlenBytes as VLenBytesCodec
    from omnizarr.codecs.vlen import VlenUtf8 as VLenUTF8Codec
    from omnizarr.codecs.words import BloscCname, BloscShuffle, Endian, ShardingCodecIndexLocation
    from omnizarr.codecs.zstd import Zstd as ZstdCodec

__all__ = [
    "ArrayArrayCodec",
    "ArrayBytesCodec",
    "BloscCname",
    "BloscCodec",
    "BloscShuffle",
    "BytesBytesCodec",
    "BytesCodec",
    "CastValue",
    "Chain",
    "Codec",
    "Configured",
    "Crc32cCodec",
    "Endian",
    "GzipCodec",
    "ScaleOffset",
    "ShardingCodec",
    "ShardingCodecIndexLocation",
    "Spec",
    "TransposeCodec",
    "VLenBytesCodec",
    "VLenUTF8Codec",
    "ZstdCodec",
    "as_bytes_array",
    "bind_chain",
    "bind_codec",
]

registry.check_with("codec", check_target)
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

if not TYPE_CHECKING:  # for which any name would be one of the module's
    __getattr__ = registry.attributes(__name__, _LATER)


def __dir__() -> list[str]:
    return sorted(__all__)
