"""What kind of step each numcodecs codec is, by its id in version 2 documents.

Version 2 lists filters and a compressor without saying what they turn into what; the model
needs to know where arrays become bytes.
"""

from __future__ import annotations

# Their names in the model: "numcodecs.zlib".
PREFIX = "numcodecs."

ARRAY_TO_ARRAY = frozenset(
    {"delta", "fixedscaleoffset", "quantize", "bitround", "astype", "packbits", "categorize"}
)
# The object codecs, and array compressors that keep shape and type in their own header.
ARRAY_TO_BYTES = frozenset(
    {
        "vlen-utf8",
        "vlen-bytes",
        "vlen-array",
        "json",
        "json2",
        "msgpack",
        "msgpack2",
        "pickle",
        "pcodec",
        "zfpy",
    }
)
CHECKSUMS = frozenset({"crc32", "crc32c", "adler32", "fletcher32", "jenkins_lookup3"})
# Steps on bytes that a version 2 document lists among the filters.
BYTES_FILTERS = CHECKSUMS | {"shuffle", "base64"}
