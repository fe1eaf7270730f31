"""The words that codecs take, as zarr-python groups them; plain strings do as well."""

from __future__ import annotations

from enum import StrEnum


class Endian(StrEnum):
    """The byte order of `BytesCodec`."""

    big = "big"
    little = "little"


class BloscShuffle(StrEnum):
    """What `BloscCodec` does to bytes before it packs them."""

    noshuffle = "noshuffle"
    shuffle = "shuffle"
    bitshuffle = "bitshuffle"


class BloscCname(StrEnum):
    """What `BloscCodec` packs bytes with."""

    lz4 = "lz4"
    lz4hc = "lz4hc"
    blosclz = "blosclz"
    zstd = "zstd"
    snappy = "snappy"
    zlib = "zlib"


class ShardingCodecIndexLocation(StrEnum):
    """Where `ShardingCodec` puts the index of a shard."""

    start = "start"
    end = "end"
