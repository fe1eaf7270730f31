"""Writing plates: a grid of wells, each with its fields of view."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from omnizarr import stores
from omnizarr.conventions.ome import documents
from omnizarr.conventions.ome.load import load
from omnizarr.conventions.ome.model import (
    Acquisition,
    FieldPlace,
    Metadata,
    PlateLayout,
    WellLayout,
    WellPlace,
)
from omnizarr.conventions.ome.plate import Plate
from omnizarr.conventions.ome.versions import NEWEST, attributes_of, writable
from omnizarr.errors import InvalidMetadata
from omnizarr.hierarchy.build import build
from omnizarr.hierarchy.create import new_location
from omnizarr.hierarchy.group import Group, make_group
from omnizarr.hierarchy.options import ArrayOptions
from omnizarr.hierarchy.signatures import shows
from omnizarr.model import paths
from omnizarr.ops.ome_write import check_attributes, write


@shows(ArrayOptions)
def write_plate(
    store: Any,
    wells: Mapping[str, Sequence[Any] | Mapping[str, Any]],
    *,
    path: str | None = None,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    name: str | None = None,
    acquisition: Acquisition | None = None,
    version: str = NEWEST,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> Plate:
    """Write a plate of images, and give it back opened.

    `wells` has, for a well such as ``"A/1"``, its fields of view: a list of images, or images by
    path; each as `write` takes it, with the same `options`. Rows and columns are those that the
    wells name unless all of them are given.
    """
    target = writable(version)
    fields = {
        well: dict(several) if isinstance(several, Mapping) else
        {str(i): data for i, data in enumerate(several)}
        for well, several in wells.items()
    }  # fmt: skip
    layout = _layout(fields, rows, columns, name, acquisition)
    attributes = attributes_of(documents.write(Metadata(plate=layout)), target.name, {})
    check_attributes(attributes, "this plate")
    where = stores.resolve(store, storage_options=storage_options)
    location = new_location(where, path, target.zarr_format)
    with build(location, overwrite=overwrite, operation="writing a plate") as place:
        group = make_group(place, None, overwrite=False)
        for well, several in fields.items():
            inner = group.create_group(well)
            for field, data in several.items():
                at = paths.join(inner.path, field)
                write(place.store, data, path=at, version=version, **options)
            run = None if acquisition is None else acquisition.id
            members = Metadata(well=WellLayout(tuple(FieldPlace(f, run) for f in several)))
            inner.attrs.update(attributes_of(documents.write(members), target.name, {}))
        group.attrs.update(attributes)
    group = Group.at(location, location.load())
    loaded = load(group)
    if loaded is None:
        raise InvalidMetadata(f"{group.name} in {group.store!r} was changed while it was written")
    return Plate(loaded)


def _layout(
    fields: Mapping[str, Mapping[str, Any]],
    rows: Sequence[str] | None,
    columns: Sequence[str] | None,
    name: str | None,
    acquisition: Acquisition | None,
) -> PlateLayout:
    places = {well: well.split("/") for well in fields}
    for well, parts in places.items():
        if len(parts) != 2:
            raise InvalidMetadata(f"a well is named by its row and column, as 'A/1', got {well!r}")
    names = [
        tuple(given) if given is not None else _sorted({parts[i] for parts in places.values()})
        for i, given in enumerate((rows, columns))
    ]
    for well, parts in places.items():
        for what, part, known in zip(("row", "column"), parts, names, strict=True):
            if part not in known:
                raise InvalidMetadata(f"well {well!r}: the plate has no {what} {part!r}")
    wells = tuple(
        WellPlace(well, names[0].index(row), names[1].index(column))
        for well, (row, column) in places.items()
    )
    return PlateLayout(
        rows=names[0],
        columns=names[1],
        wells=wells,
        name=name,
        field_count=max((len(several) for several in fields.values()), default=0) or None,
        acquisitions=() if acquisition is None else (acquisition,),
    )


def _sorted(names: set[str]) -> tuple[str, ...]:
    """Names in the order of people: 2 before 10."""
    return tuple(
        sorted(names, key=lambda n: [(p.isdigit(), int(p) if p.isdigit() else 0, p)
                                     for p in re.findall(r"\d+|\D+", n)])
    )  # fmt: skip
