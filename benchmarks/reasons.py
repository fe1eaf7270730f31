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
        "Profile: Python throughout. Processor time (omnizarr, tensorstore, zarrista; µs): opening"
        " version 3 34, 44, 14, version 2 34, 63, 15; about half of ours looks for the documents of"
        " every format. Creating 145, 120, 39: a fifth of ours looks for what is there and above"
        " it, another fifth stores the document under a name of its own first.",
    ),
    Reason(
        "^Import",
        "",
        "Profile: some 120 modules of our own have about three quarters of the time; making their"
        " 44 dataclasses is a third of it. Of others the largest is logging, which thread pools"
        " bring along. Processor time, compiled: 59 to 75 ms, beside other work 123 to 169.",
    ),
    Reason(
        "^One element",
        "",
        "Profile (raw chunks): 17 µs of processor time; under the profiler the plan in Python takes"
        " nearly half and the kernel a tenth. Beside other work (omnizarr, tensorstore, zarrista;"
        " µs): raw 23, 57, 10; blosc lz4 70, 120, 59.",
    ),
    Reason(
        "^Append",
        "",
        "Profile: about half of the time goes into the chunk, the other half is Python: locks that"
        " keep other processes out, the document read before it is changed, and a new one."
        " Processor time (omnizarr, tensorstore, zarrista; µs): 100 rows 976, 708, 513; 10 rows"
        " 1105, 882, 505. The calls of zarrista that are measured take the shape they have in"
        " memory, store the larger one first, and then the data.",
    ),
    Reason(
        "^Shards",
        "update one inner chunk",
        "Profile (blosc lz4): the system copies the other inner chunks from the old file to the new"
        " one in 45 % of the samples and frees the old one in 7 %; Python, with locks between"
        " processes, has about a quarter. Processor time (omnizarr, tensorstore; ms), beside other"
        " work: raw 2.3, 2.5; blosc lz4 1.9, 1.8; zstd 2.8, 2.8.",
    ),
    Reason(
        "^Random|^Shards",
        "box|^(raw|blosc lz4|blosc zstd)$",
        "Cause not shown: ours takes the least processor time of one box (omnizarr, tensorstore,"
        " zarrista; µs), shards: raw 74, 171, 210; blosc lz4 142, 276, 251; zstd 427, 591, 630;"
        " gzip 625, 1026, 1040.",
    ),
    Reason(
        "^Full write",
        "^zstd, (128|64)",
        "Profile (128³): zstd's match finder of level 3 alone has 65 % of the samples, and clearing"
        " pages for the files and other parts of zstd most of the rest. All libraries call that"
        " same function: one chunk takes 32 ms in the kernel and 32 ms in numcodecs.",
    ),
    Reason(
        "^Full write|^Shards",
        "^blosc zstd|zstd, write",
        "Profile: zstd's match finder, as for plain zstd. With the parameters of large inputs the"
        " kernel needs 1.1 to 4 times less time for a block than with those that the other"
        " libraries take (docs/design/zstd-parameters.md).",
    ),
    Reason(
        "^Full write|^Shards",
        "^blosc lz4|^raw",
        "Profile (blosc lz4 128³): LZ4 has 36 % of the samples, clearing pages of the new files"
        " 20 %, copying 8 %, the shuffle 4 %; clearing and LZ4 are the same for all. Processor time"
        " for 67 MB (omnizarr, tensorstore, zarrista; ms): raw 128³ 38.7, 43.4, 43.8; raw 16³ 121,"
        " 313, 221; blosc lz4 128³ 99, 114, 113; 64³ 86, 102, 113; 16³ 177, 411, 261.",
    ),
    Reason(
        "^Full|^Shards",
        "raw|blosc|zstd",
        "Profile (blosc lz4 128³): clearing pages of the result 25 % of the samples, LZ4 23 %,"
        " copying 15 %. Processor time for 67 MB (omnizarr, tensorstore, zarrista; ms): raw 128³"
        " 32, 83, 86; raw 16³ 73, 184, 162; blosc lz4 128³ 63, 110, 126; 64³ 67, 113, 178; 16³ 90,"
        " 211, 191; blosc zstd 128³ 57, 92, 114; zstd 128³ 148, 186, 198.",
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
    "Version 2 in float32 at other chunks than 64³; in version 2 blosc zstd, zstd and gzip at 16³.",
    "In the quick run: blosc zstd and gzip at 128³ and 16³ chunks, in version 2 and in float32;"
    " version 2 and float32 at other chunks than 64³, float32 in version 2; text in version 2; two"
    " of five layouts are asked for memory, one codec for core counts.",
    "Remote stores, zip files.",
)
