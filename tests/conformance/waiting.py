"""Rows that do not hold yet, each with the plain reason."""

from __future__ import annotations

SHARDING = "the codec sharding_indexed comes with the compiled engine"
STORES = "zip, object and web stores are not there yet"
GEO = "geospatial conventions are not there yet"
OME = "OME-Zarr is not there yet"

WAITING: dict[str, str] = {
    **{f"V2-{n}": "there is no zip store yet" for n in (66, 67, 68)},
    **{f"SH-{n:02d}": SHARDING for n in range(1, 32)},
    **{f"GEO-{n:02d}": STORES for n in range(1, 11)},
    **{f"GEO-{n:02d}": GEO for n in range(11, 36)},
    **{f"OME-{n:02d}": OME for n in range(1, 35)},
}
