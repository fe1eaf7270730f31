"""Rows that do not hold yet, or hold only in part, each with the plain reason."""

from __future__ import annotations

WAITING: dict[str, str] = {
    "DX-27": "not offered: writing in place or appending would give up atomic replacement",
    "SH-25": "not offered: whole shards are written, so that a crash cannot tear one",
}

PARTLY: dict[str, str] = {
    "D3-08": "creating such a node is refused; one that is there opens with a warning",
    "D3-10": "case-insensitive disks are stand-ins; Windows is not tried",
    "D3-35": "a codec on arrays after one on bytes is refused (D3-33); the text says may",
    "D3-75": "stores take any Unicode key, as version 3 wants; such draft nodes are as in D3-08",
    "D3-96": "opening by path takes the entry point and one batch of two documents",
    "DX-50": "the Windows half with a stand-in",
    "V3-29": "`__x`, which real files have, is created with a warning",
    "V3-33": "as D3-10",
    "V3-34": "a node of such a name, which real files have, is listed with a warning",
    "V3-37": "0 and 1, which zarrita wrote, are read with a warning",
    "V3-54": "not registered, but written: float8_e4m3fn, and raw_bytes and others as zarr-python",
    "V3-57": "an explicit 0 on an empty axis is written as 1, not refused (V3-97)",
    "V3-86": "the Windows half with a stand-in",
    "V3-90": "as V3-34",
    "V3-94": "what a border chunk holds over the edge comes back without a notice",
    "V3-102": "as V3-34",
}
