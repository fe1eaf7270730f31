"""Reasons for missed targets, found by profiling, and what is not measured yet."""

from __future__ import annotations

import re
from dataclasses import dataclass

from benchmarks.harness import Row, Target


@dataclass(frozen=True)
class Reason:
    """The result of profiling some rows."""

    topic: str  # a regular expression
    label: str  # a regular expression
    text: str
    who: str = "omnizarr"

    def covers(self, row: Row, target: Target) -> bool:
        here = re.search(self.topic, row.topic) and re.search(self.label, row.label)
        return bool(here) and target.who == self.who


# CPU times were measured separately from the run of the page, best of five or six, and exclude
# waiting for other programs. If no profile shows a cause, the text says so.
REASONS: tuple[Reason, ...] = (
    Reason(
        "^Full write, version 2, float32",
        "^gzip",
        "A slow moment of the run: the chunks are the same as in version 3, which met the target"
        " in the same run. Alternating, best of three: version 2 604 ms (1.19 s of CPU time),"
        " version 3 668 ms (1.32 s).",
    ),
    Reason(
        "^Open one array|arrays in a group",
        "",
        "Profile: all in Python. CPU time (omnizarr, tensorstore, zarrista; µs): opening version"
        " 3 27, 117, 12, version 2 26, 88, 11; a third of omnizarr's time is looking for the"
        " metadata of every format. Creating 77, 128, 36, of which the system takes 14 for"
        " omnizarr and for zarrista. omnizarr checks for existing nodes at the path and above it,"
        " and its metadata file gets its name only when it is complete; zarrista's call does"
        " neither.",
    ),
    Reason(
        "^Import",
        "",
        "Profile: about 120 modules of omnizarr take about three quarters of the time; a third"
        " of that is the creation of their 44 dataclasses. The largest other module is logging,"
        " which thread pools import. CPU time, compiled: 59 to 75 ms on an idle machine, 123 to"
        " 169 on a busy one.",
    ),
    Reason(
        "^One element",
        "",
        "Profile (raw chunks): 17 µs of CPU time; under the profiler, the plan in Python takes"
        " nearly half and the kernel a tenth. On a busy machine (omnizarr, tensorstore, zarrista;"
        " µs): raw 23, 57, 10; blosc lz4 70, 120, 59.",
    ),
    Reason(
        "^Append",
        "",
        "Profile: 58 % of the time is spent on the chunk. The rest is Python: locks between"
        " processes, reading the metadata before it is changed, and writing it. CPU time"
        " (omnizarr, tensorstore, zarrista; µs): 100 rows 900, 966, 549; 10 rows 884, 1139, 486."
        " The calls of zarrista that are measured use the shape in memory, and store the larger"
        " shape before the data.",
    ),
    Reason(
        "^Shards",
        "update one inner chunk",
        "Profile (blosc lz4): in 45 % of the samples the system copies the other inner chunks"
        " from the old file to the new one, and in 7 % it frees the old file; Python, including"
        " locks between processes, takes about a quarter. CPU time (omnizarr, tensorstore; ms) on"
        " a busy machine: raw 2.3, 2.5; blosc lz4 1.9, 1.8; zstd 2.8, 2.8.",
    ),
    Reason(
        "^Random|^Shards",
        "box|^(raw|blosc lz4|blosc zstd)$",
        "omnizarr takes the least CPU time per box (omnizarr, tensorstore, zarrista; µs),"
        " shards: raw 65, 235, 231; blosc lz4 119, 304, 225; zstd 328, 496, 435; gzip 629, 1091,"
        " 1032. The others use both cores for a box; omnizarr does so only if a box covers"
        " several inner chunks of zstd or gzip. Time of zstd, formerly 308: 273, 300, 246.",
    ),
    Reason(
        "^Full write|^Shards",
        "^zstd, (128|64|32|16)|^zstd, write",
        "Profile (128³): zstd's match finder at level 3 alone takes 65 % of the samples. All"
        " libraries call that same function: one chunk takes 32 ms in the kernel and 32 ms in"
        " numcodecs. CPU time for 17 MB (omnizarr, tensorstore, zarrista; ms): 64³ 151, 163, 152;"
        " 32³ 124, 137, 136; float32 64³ 118, 129, 121; shards 127, 143, 144.",
    ),
    Reason(
        "^Full write",
        "^blosc zstd",
        "Profile: zstd's match finder, as for plain zstd. With the parameters of large inputs, a"
        " block takes the kernel 1.1 to 4 times less time than with those that the other"
        " libraries use (docs/design/zstd-parameters.md). CPU time for 17 MB (omnizarr,"
        " tensorstore, zarrista; ms): 64³ 91, 113, 115; 32³ 103, 133, 127.",
    ),
    Reason(
        "^Full write|^Shards",
        "^blosc lz4, (128|64|32|16)|^blosc lz4, write",
        "Profile (128³): LZ4 takes 57 % of the samples, and the system's part of writing files"
        " most of the rest. Both are the same work for all libraries. Other block sizes, or one"
        " stream per byte of an item, do not make LZ4 faster here. CPU time for 17 MB (omnizarr,"
        " tensorstore, zarrista; ms): 128³ 19.5, 22.1, 24.0; 64³ 20.8, 26.4, 26.7; 32³ 25.7,"
        " 35.1, 30.5.",
    ),
    Reason(
        "^Full write|^Shards",
        "^raw, (128|64|32|16)|^raw, write",
        "Profile (128³): the system takes two thirds, for pages of the new files and copying"
        " into them; gathering the chunk takes the rest. CPU time for 17 MB (omnizarr,"
        " tensorstore, zarrista; ms): 128³ 6.0, 9.0, 9.3; 64³ 7.1, 11.2, 9.8; 32³ 11.1, 16.1,"
        " 16.7; 16³ 36.6, 81.2, 42.1. A file of 16³ costs the others one change of its directory"
        " too; making it visible only when it is complete costs omnizarr about a microsecond.",
    ),
    Reason(
        "^Full read|^Shards",
        "^zstd, (128|64|32|16)|^zstd, read",
        "Profile (128³): zstd itself takes 79 % of the samples, copying 8 %, reading files 7 %;"
        " all libraries run the same zstd. CPU time for 17 MB (omnizarr, tensorstore, zarrista;"
        " ms): 128³ 32, 34, 36; 64³ 31, 38, 45; 32³ 32, 52, 55. On a busy machine single times"
        " mean little: at a load of 10 to 30 on two cores, the ratio of 64³ was 0.8 in one run"
        " and 1.8 in another; the ratio of CPU times was 1.1 and 1.2.",
    ),
    Reason(
        "^Full read|^Shards",
        "^(raw|blosc lz4|blosc zstd), (128|64|32|16)|^(raw|blosc lz4), read",
        "Profile: for blosc lz4 128³, LZ4 takes 47 % of the samples, copying 21 %, reading files"
        " 18 %, the shuffle 7 %; for raw 64³, reading files takes 57 %, copying 26 %. CPU time"
        " for 17 MB (omnizarr, tensorstore, zarrista; ms): raw 128³ 5.7, 8.3, 10.4; 64³ 6.2,"
        " 10.8, 16.6; 32³ 7.3, 17.5, 25.6; blosc lz4 128³ 11.1, 14.5, 16.8; 64³ 10.8, 17.0, 23.5;"
        " 32³ 11.4, 24.9, 30.9; blosc zstd 64³ 11.1, 17.1, 23.5. By CPU time, only the target of"
        " blosc lz4 128³ is missed: there LZ4, the same for all, takes half of omnizarr's time.",
    ),
    Reason(
        "^Full read|^Shards",
        "(128|64|32|16)³$|read$",
        "Profile (blosc lz4 32³): LZ4 21 %, NumPy's copies into the result 17 %, Python at least"
        " a tenth; NumPy's copies wait for one cache line after the other, the kernel's do not."
        " CPU time for 17 MB (reference, tensorstore; ms): raw 128³ 7.8, 8.3; 64³ 10.6, 10.8; 32³"
        " 14.2, 17.5; blosc lz4 128³ 15.9, 14.5; 64³ 18.1, 17.0; 32³ 24.5, 24.9; zstd 64³ 40, 38;"
        " 32³ 48, 52; shards raw 15.7, 15.9, blosc lz4 25.9, 28.7, zstd 55.8, 46.4. For blosc lz4"
        " 32³ one thread takes 18 and two take 24.5, because they compete for the GIL.",
        who="omnizarr reference",
    ),
    Reason(
        "^Full write|^Shards",
        "(128|64|32|16)³$|write$",
        "Profile (blosc lz4 32³): LZ4 27 %, copying 10 %, Python a tenth or more. A chunk of 64"
        " KiB takes 68 µs in numcodecs' Blosc (the shuffle in its wheel has no AVX2) and 21 µs to"
        " gather. Two threads compete for the GIL: raw 32³ takes 6.3 ms for 8 MB with one thread"
        " and 9.2 with two. CPU time for 17 MB (reference, tensorstore, zarrista; ms): raw 128³"
        " 9.5, 9.0, 9.3; 64³ 10.4, 11.2, 9.8; 32³ 19.9, 16.1, 16.7; blosc lz4 128³ 23.7, 22.1,"
        " 24.0; 64³ 26.8, 26.4, 26.7; 32³ 42.2, 35.1, 30.5; blosc zstd 64³ 122, 120, 120. The"
        " files are stored by compiled code; without it, a chunk of 64 KiB takes 6 to 45 µs more.",
        who="omnizarr reference",
    ),
    Reason(
        "^Writing shards",
        "",
        "CPU time of shards and of single chunks for 17 MB (ms): raw 9.1 and 10.9, blosc lz4"
        " 22.4 and 23.4, zstd 127 and 124. So shards cost nothing. The ratio is computed from"
        " times of a few milliseconds, which vary by more than its target if other programs run.",
    ),
)

NOT_MEASURED = (
    "Version 2 in float32 in chunks other than 64³; in version 2, blosc zstd, zstd and gzip at"
    " 16³.",
    "In the quick run: blosc zstd and gzip in 128³ and 16³ chunks, in version 2 and in float32;"
    " version 2 and float32 in chunks other than 64³; float32 in version 2; strings in version 2;"
    " three of five layouts for memory; all codecs but one for core counts.",
    "Remote stores, ZIP files.",
)
