"""Hypothesis strategies for valid OME-Zarr 0.5 metadata."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

NAMES = st.text("abcdefgh", min_size=1, max_size=5)
NUMBERS = st.integers(1, 1000).map(lambda n: n / 8)
OTHERS = st.dictionaries(
    NAMES.map(lambda n: f"x-{n}"), st.integers() | NAMES | st.none(), max_size=2
)
UNITS = {"time": ["second", "hour"], "space": ["micrometer", "nanometer", "angstrom"]}


@st.composite
def axes(draw: st.DrawFn) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if draw(st.booleans()):
        found.append({"name": "t", "type": "time"})
    if draw(st.booleans()):
        found.append(draw(st.sampled_from([{"name": "c", "type": "channel"}, {"name": "angle"}])))
    for name in "zyx"[draw(st.integers(0, 1)) :]:
        found.append({"name": name, "type": "space"})
    for axis in found:
        units = UNITS.get(axis.get("type", ""), [])
        if units and draw(st.booleans()):
            axis["unit"] = draw(st.sampled_from(units))
        axis.update(draw(OTHERS))
    return found


@st.composite
def multiscale(draw: st.DrawFn) -> dict[str, Any]:
    used = draw(axes())
    rank = len(used)

    def transforms() -> list[dict[str, Any]]:
        vector = st.lists(NUMBERS, min_size=rank, max_size=rank)
        several: list[dict[str, Any]] = [{"type": "scale", "scale": draw(vector)}]
        if draw(st.booleans()):
            several.append({"type": "translation", "translation": draw(vector)})
        return several

    found: dict[str, Any] = {"axes": used, **draw(OTHERS)}
    found["datasets"] = [
        {"path": str(i), "coordinateTransformations": transforms(), **draw(OTHERS)}
        for i in range(draw(st.integers(1, 3)))
    ]
    if draw(st.booleans()):
        found["coordinateTransformations"] = transforms()
    for name in ("name", "type"):
        if draw(st.booleans()):
            found[name] = draw(NAMES)
    if draw(st.booleans()):
        found["metadata"] = draw(OTHERS)
    return found


@st.composite
def channels(draw: st.DrawFn) -> dict[str, Any]:
    window = {"min": 0, "max": 255, "start": 3, "end": 200}
    several = [
        {"color": "00FF00", "window": window, "label": draw(NAMES), **draw(OTHERS)}
        for _ in range(draw(st.integers(0, 3)))
    ]
    return {"channels": several, **draw(OTHERS)}


@st.composite
def image_label(draw: st.DrawFn) -> dict[str, Any]:
    values = draw(st.lists(st.integers(0, 50), min_size=1, max_size=4, unique=True))
    found: dict[str, Any] = {"colors": [{"label-value": v, "rgba": [v, 2, 3, 4]} for v in values]}
    if draw(st.booleans()):
        found["properties"] = [{"label-value": v, **draw(OTHERS)} for v in values]
    if draw(st.booleans()):
        found["source"] = {"image": "../../", **draw(OTHERS)}
    return {**found, **draw(OTHERS)}


@st.composite
def plate(draw: st.DrawFn) -> dict[str, Any]:
    rows, columns = ["A", "B"], ["1", "2", "10"]
    places = st.tuples(st.integers(0, 1), st.integers(0, 2))
    wells = draw(st.lists(places, min_size=1, max_size=6, unique=True))
    found: dict[str, Any] = {
        "rows": [{"name": n, **draw(OTHERS)} for n in rows],
        "columns": [{"name": n} for n in columns],
        "wells": [
            {"path": f"{rows[r]}/{columns[c]}", "rowIndex": r, "columnIndex": c, **draw(OTHERS)}
            for r, c in wells
        ],
    }
    if draw(st.booleans()):
        found["acquisitions"] = [{"id": i, **draw(OTHERS)} for i in range(2)]
    if draw(st.booleans()):
        found["field_count"] = draw(st.integers(1, 9))
    return {**found, **draw(OTHERS)}


@st.composite
def well(draw: st.DrawFn) -> dict[str, Any]:
    count = draw(st.integers(1, 3))
    images = [{"path": str(i), "acquisition": i % 2, **draw(OTHERS)} for i in range(count)]
    return {"images": images, **draw(OTHERS)}


MEMBERS = st.one_of(
    st.fixed_dictionaries(
        {"multiscales": multiscale().map(lambda m: [m])},
        optional={"omero": channels(), "image-label": image_label()},
    ),
    st.fixed_dictionaries({"plate": plate()}, optional={"bioformats2raw.layout": st.just(3)}),
    st.fixed_dictionaries({"well": well()}),
    st.fixed_dictionaries({"labels": st.lists(NAMES, max_size=3)}),
    st.fixed_dictionaries({"series": st.lists(NAMES, max_size=3)}),
)


def spoil(document: Any, data: st.DataObject) -> None:
    """Replace any one value by any other kind of JSON."""
    places: list[tuple[Any, Any]] = []

    def visit(node: Any) -> None:
        for key in node if isinstance(node, dict) else range(len(node)):
            places.append((node, key))
            if isinstance(node[key], (dict, list)):
                visit(node[key])

    visit(document)
    node, key = data.draw(st.sampled_from(places))
    node[key] = data.draw(st.sampled_from([None, 3, -1.5, "word", [], {}, [1], [None], True]))
