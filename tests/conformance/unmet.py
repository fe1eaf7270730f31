"""Requirements that are not met, or only in part, each with the reason."""

from __future__ import annotations

UNMET: dict[str, str] = {
    "DX-27": "not offered: writing in place or appending would give up atomic replacement",
    "SH-25": "not offered: shards are replaced as a whole, so that a crash cannot tear one",
}

PARTLY: dict[str, str] = {
    "D3-08": "creating such a node is refused; an existing one opens with a warning",
    "D3-10": "case-insensitive file systems are simulated; not tested on Windows",
    "D3-35": "an array codec after a bytes codec is refused (D3-33); the specification says may",
    "D3-75": "stores accept any Unicode key, as in version 3; for such nodes see D3-08",
    "D3-96": "opening by path reads the entry point and one batch of two metadata keys",
    "DX-50": "the Windows part is simulated",
    "V3-29": "`__x`, which occurs in practice, is created with a warning",
    "V3-33": "see D3-10",
    "V3-34": "a node with such a name, which occurs in practice, is listed with a warning",
    "V3-37": "0 and 1, as written by zarrita, are read with a warning",
    "V3-38": "null, as written by GDAL, is read as 0 with a warning",
    "V3-54": "not registered but written: float8_e4m3fn; raw_bytes and others as in zarr-python",
    "V3-57": "an explicit 0 for an empty axis is written as 1, not refused (V3-97)",
    "V3-68": "chunks of shards are fetched one by one; a Blosc chunk is fetched as a whole",
    "V3-86": "the Windows part is simulated",
    "V3-90": "see V3-34",
    "V3-94": "values beyond the edge in a border chunk reappear without a warning",
    "V3-102": "see V3-34",
}
