"""Why bars are missed, as profiles showed, and what is not asked yet."""

from __future__ import annotations

import re
from dataclasses import dataclass

from benchmarks.harness import Bar, Row


@dataclass(frozen=True)
class Reason:
    """What a profile of some rows showed."""

    topic: str  # a regular expression
    label: str  # a regular expression
    text: str
    who: str = "omnizarr"

    def covers(self, row: Row, bar: Bar) -> bool:
        here = re.search(self.topic, row.topic) and re.search(self.label, row.label)
        return bool(here) and bar.who == self.who


REASONS: tuple[Reason, ...] = (
    Reason(
        "^Open one array|arrays in a group",
        "",
        "Profile: all of it is Python. Opening looks for the documents of every format (six"
        " `open` calls), then parses and checks the document with some 500 small calls, about"
        " 0.2 ms of processor time; creating looks for documents in the same way, parses the new"
        " document three times and binds the codecs twice, about 0.6 ms. zarrista and tensorstore"
        " do the same in compiled code.",
    ),
    Reason(
        "^One element",
        "",
        "Profile: 40 µs of processor time, 6 of them in the kernel; the rest plans three axes in"
        " Python (`select.axis_plan`, `_run`, `isinstance` checks).",
    ),
    Reason(
        "^Shards",
        "update one inner chunk",
        "Profile: the update reads the whole shard, cuts it into its inner chunks in Python, joins"
        " them again and writes the whole shard through the reference engine; reading and"
        " writing the file are two thirds of the time.",
    ),
    Reason(
        "^Random|^Shards",
        "box|^(raw|blosc lz4|blosc zstd)$",
        "Processor time of one box: blosc lz4 in 128³ chunks omnizarr 600 µs, tensorstore 3,140,"
        " zarrista 3,490; in shards, blosc lz4 142, 207, 179; zstd 362, 392, 395; gzip 906, 1,028,"
        " 992. So the work is less than the peers', and what is missed beyond that is the noise of"
        " a shared machine; about 50 µs of each box are the plan in Python.",
    ),
    Reason(
        "^Full read|^Full write|^Shards",
        "blosc|zstd",
        "The compressor takes most of the time and is the same code in all libraries; c-blosc and"
        " libblosc2 are equally fast on x86 (on ARM libblosc2 is three to five times as fast,"
        " which is where these bars come from). Processor time of a full read, 17 MB, 64³"
        " chunks, blosc lz4: omnizarr 16 ms, tensorstore 20, zarrista 26; blosc zstd: 14, 17, 24;"
        " zstd: 36, 36, 44. Written: blosc lz4 22, 26, 28; zstd 144, 154, 147.",
    ),
    Reason(
        "",
        "gzip",
        "The kernel does not know gzip: libdeflate runs in the reference engine's threads.",
    ),
    Reason(
        "^Full|^Shards",
        "raw",
        "Memory bandwidth and page faults of the fresh result are shared by all libraries."
        " Processor time of a full read, 17 MB, 64³ chunks: omnizarr 8.6 ms, tensorstore 10.2,"
        " zarrista 16.7; written 8.5, 13.5, 11.4; shards of 32³ read 9.4, 15.9, 26.4.",
    ),
    Reason(
        "^Full|^Shards",
        "",
        "The reference engine pays tens of microseconds of Python for each chunk, and in shards"
        " for each inner chunk. Processor time of a full read, 17 MB: blosc lz4 64³ 21 ms against"
        " 20 of tensorstore, raw 64³ 9.6 against 10.2, shards blosc lz4 34 against 25.",
        who="omnizarr reference",
    ),
    Reason(
        "^Writing shards",
        "",
        "A quotient of two times that were not taken in turn, so it has the noise of both.",
    ),
)

NOT_ASKED = (
    "Version 2 in float32, and in version 2 all codecs but blosc lz4 at other chunks than 64³.",
    "Text in version 2.",
    "The quick run: blosc zstd and gzip at 128³ and 16³ chunks; float32 at other chunks than 64³.",
    "Number of store calls per shard (a test counts them).",
    "Remote stores, zip files.",
)
