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


# Processor times were measured apart from the run of the page, best of five or six, and leave out
# waiting for other programs. Where no profile shows a cause, the text says so.
REASONS: tuple[Reason, ...] = (
    Reason(
        "^Open one array|arrays in a group",
        "",
        "Profile: Python throughout. Opening takes 25 µs of processor time where an equal document"
        " was parsed before, up to 140 µs where not. Creating takes 190 µs: the options a third of"
        " it, the text of the document a sixth, looking around and storing an eighth each.",
    ),
    Reason(
        "^Import",
        "",
        "In the run of 2026-11-15 our modules had no compiled byte code, as installed peers do,"
        " and were compiled at every import: 172 ms of processor time. Compiled, in turn with an"
        " ordinary install: 59 to 75 ms against 60 to 73 (once, apart, 120 to 132). `make bench`"
        " compiles them since.",
    ),
    Reason(
        "^One element",
        "",
        "Profile (raw chunks): 40 µs of processor time; under the profiler the plan in Python"
        " takes more than half and the kernel a few percent.",
    ),
    Reason(
        "^Shards",
        "update one inner chunk",
        "Profile (raw only): the whole shard is read, cut into inner chunks and joined again in"
        " Python, and written whole; reading and writing the file are about 60 % of the time."
        " What tensorstore does instead was not looked at.",
    ),
    Reason(
        "^Random|^Shards",
        "box|^(raw|blosc lz4|blosc zstd)$",
        "Cause not shown. Processor time of one box (omnizarr, tensorstore, zarrista; µs): blosc"
        " lz4 in 128³ chunks 600, 3,140, 3,490; in shards blosc lz4 142, 207, 179; zstd 362, 392,"
        " 395; gzip 906, 1,028, 992.",
    ),
    Reason(
        "^Full|^Shards",
        "raw|blosc|zstd",
        "Cause not shown; to be measured again on a quiet machine. Processor time for 17 MB in 64³"
        " chunks (omnizarr, tensorstore, zarrista; ms): raw read 8.6, 10.2, 16.7, written 8.5,"
        " 13.5, 11.4; blosc lz4 read 16.2, 20.5, 25.5, written 22.4, 25.8, 28.0; blosc zstd read"
        " 14.2, 17.3, 24.2, written 120, 134, 134; zstd read 35.6, 35.9, 44.0, written 144, 154,"
        " 147. Even by these, blosc reads are 1.2 to 1.3 times as fast as tensorstore's, below"
        " their bar of 1.5, and zstd reads are equal.",
    ),
    Reason(
        "",
        "gzip",
        "Cause not shown. The kernel does not know gzip, so both rows run the reference engine.",
    ),
    Reason(
        "^Full|^Shards",
        "",
        "Cause not shown. Processor time for 17 MB (reference engine, tensorstore; ms): 64³ chunks"
        " blosc lz4 read 21.3, 20.5, raw read 9.6, 10.2; shards blosc lz4 read 34.1, 25.0, written"
        " 40.9, 29.7.",
        who="omnizarr reference",
    ),
    Reason(
        "^Writing shards",
        "",
        "Cause not shown. A quotient of two times that were not taken in turn.",
    ),
)

NOT_ASKED = (
    "Version 2 in float32, and in version 2 all codecs but blosc lz4 at other chunks than 64³.",
    "Text in version 2.",
    "In the quick run: blosc zstd and gzip at 128³ and 16³ chunks, in version 2 and in float32;"
    " float32 at other chunks than 64³; two of five layouts are asked for memory, one codec for"
    " core counts.",
    "Number of store calls per shard.",
    "Remote stores, zip files.",
)
