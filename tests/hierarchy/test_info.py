"""Representations in notebooks: well formed, safe, drawn in proportion, one design for all."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.bulk.journal import Outcome
from omnizarr.hierarchy import info
from omnizarr.model import Named

TEXT = st.text(st.characters(exclude_categories=["C"]), max_size=12)
TAGS = {"all", "div", "table", "tr", "th", "td", "details", "summary", "pre"}
MODEL: Any = oz.create_array({}, shape=1).metadata.model
SHAPE = st.lists(st.integers(1, 10**12), min_size=1, max_size=6)


def parsed(html: str) -> ET.Element:
    """Parse HTML that is also XML, so that a tag that is not closed is an error."""
    return ET.fromstring(f"<all>{html}</all>")


def texts(html: str) -> str:
    return "\n".join(parsed(html).itertext())


@given(TEXT, st.dictionaries(TEXT, TEXT, max_size=4), st.dictionaries(TEXT, TEXT, max_size=4))
def test_a_card_shows_every_text_as_it_is(
    title: str, rows: dict[str, str], attributes: dict[str, str]
) -> None:
    root = parsed(info.card(title, rows, folded=info.attributes_section(attributes)))
    assert [e.text or "" for e in root.iter("th")] == list(rows)
    assert [e.text or "" for e in root.iter("td")] == list(rows.values())
    assert (root.find("div/div").text or "") == title  # type: ignore[union-attr]
    assert {e.tag for e in root.iter()} <= TAGS
    assert len([*root.iter("details")]) == bool(attributes)


@given(SHAPE, st.data())
def test_a_drawing_of_any_grid_is_small_and_stays_inside(shape: list[int], data: Any) -> None:
    chunks = [data.draw(st.integers(1, n)) for n in shape]
    codecs: Any = ()
    outer = chunks
    if data.draw(st.booleans()):
        outer = [data.draw(st.sampled_from([c, c * 2])) for c in chunks]
        codecs = (Named("sharding_indexed", {"chunk_shape": chunks}),)
    grid = Named("regular", {"chunk_shape": outer})
    drawn = info.drawing(MODEL.with_(shape=tuple(shape), chunk_grid=grid, codecs=codecs))
    assert len(drawn) < 20_000
    svg = parsed(drawn).find("svg")
    assert svg is not None
    left, top, width, height = map(float, svg.attrib["viewBox"].split())
    numbers = " ".join(e.get("points") or e.get("d") or "" for e in svg.iter())
    points = [tuple(map(float, pair)) for pair in re.findall(r"(-?[\d.]+),(-?[\d.]+)", numbers)]
    assert points
    assert all(left <= x <= left + width and top <= y <= top + height for x, y in points)


def test_borders_of_few_chunks_are_all_drawn_where_they_are() -> None:
    assert info._borders(10, 4, 100.0) == [40.0, 80.0]
    assert info._borders(10, 5, 100.0) == [50.0]
    assert info._borders(10, 10, 100.0) == []
    assert len(info._borders(10**9, 1, 100.0)) <= 100 / info.SPACING


def test_arrays_show_shape_codecs_attributes_and_grid() -> None:
    array = oz.create_array(
        None, shape=(4, 8, 20), chunks=(2, 4, 5), shards=(4, 8, 10), dtype="u2",
        dimension_names=("z", "y", None), attributes={"<i>": [1, 2]},
    )  # fmt: skip
    found = texts(array._repr_html_())
    for text in ("(4, 8, 20)", "uint16", "z 4", "y 8", "20", '"<i>": [', "1 attribute"):
        assert text in found
    assert "sharding_indexed[bytes(endian='little')" in found
    assert "index at the end: bytes(endian='little') -> crc32c]" in found
    for options in ({"shape": (0, 3)}, {"shape": ()}, {"shape": (6,), "chunks": ((1, 2, 3),)}):
        assert "<svg" not in oz.create_array(None, **options)._repr_html_()


@dataclass
class Result(Outcome):
    """A result with a field of each kind."""

    done: int = 3
    some_names: list[str] = field(default_factory=lambda: ["<a>", "b"])
    counts: dict[str, int] = field(default_factory=lambda: {"x": 1})
    nothing: list[str] = field(default_factory=list)


def test_reports_show_numbers_and_unfold_lists() -> None:
    found = texts(Result()._repr_html_())
    for text in ("Result", "done", "some names: 2", "<a>\nb", "counts: 1", "x: 1"):
        assert text in found
    assert "nothing" not in found
    long = info.report_card("r", {"lines": ["x"] * (info.MAX_LINES + 5)})
    assert "… 5 more" in texts(long)


def test_long_attributes_are_cut() -> None:
    found = info.attributes_section({"a": "x" * 20_000})
    assert len(found["1 attribute"]) < 11_000
    assert "more characters" in found["1 attribute"]


def test_lists_of_numbers_in_attributes_stay_in_one_line() -> None:
    values = {"scale": [1.0, 0.5], "names": ["a [ 1,\n  2 ]"], "empty": []}
    text = "".join(parsed(info.attributes_section(values)["3 attributes"]).itertext())
    assert '"scale": [1.0, 0.5],' in text
    assert json.loads(text) == values


def test_facts_about_an_array_are_in_one_order() -> None:
    array = oz.create_array(
        None, shape=(4, 8), chunks=(2, 4), shards=(4, 8), dimension_names=["y", "x"],
        attributes={"a": 1},
    )  # fmt: skip
    names = ["type", "path", "shape", "dimensions", "data type", "fill value", "size in memory"]
    names += ["chunks", "shards", "codecs"]
    assert list(array.info) == [*names, "attributes"]
    assert array.info["chunks"] == "(2, 4), 64 bytes; 4 in a grid of (2, 2)"
    assert array.info["shards"] == "(4, 8), 256 bytes; 1 in a grid of (1, 1)"


def test_sizes_are_left_out_where_they_are_not_known() -> None:
    scalar = oz.create_array(None, shape=(), dtype="f8")
    assert scalar.info["chunks"] == "(), 8 bytes; 1"
    lengths = oz.create_array(None, shape=(45, 4), chunks=[list(range(10)[1:]), [2, 2]])
    assert (
        lengths.info["chunks"] == "lengths (1, 2, 3, 4, 5, 6, …) × (2, 2); 18 in a grid of (9, 2)"
    )
    texts = oz.create_array(None, data=np.array(["a"], dtype=object), dtype=str)
    assert texts.info["fill value"] == "''"
    assert texts.info["chunks"] == "(1,); 1 in a grid of (1,)"
    assert "size in memory" not in texts.info


def test_long_values_are_wrapped_at_the_width_of_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = oz.create_array(None, shape=(100, 100), chunks=(10, 10)).info
    monkeypatch.setenv("COLUMNS", "60")
    lines = str(found).splitlines()
    assert len(lines) > len(found)
    assert max(map(len, lines)) <= 60
    monkeypatch.setenv("COLUMNS", "24")  # too narrow for columns
    assert len(str(found).splitlines()) == len(found)


def test_long_names_are_wrapped_and_trees_are_escaped() -> None:
    group = oz.create_group(None)
    group.create_array("<b>&" + "x" * 200, shape=(2,), attributes={"<script>": "</pre>"})
    for html in (group.tree()._repr_html_(), next(group.arrays())[1]._repr_html_()):
        assert "<b>&x" not in html
        assert "<script>" not in html
        assert "overflow-wrap:anywhere" in html[: html.index(">")]
        assert "<b>&" in texts(html)
    parsed(oz.create_group(None).tree()._repr_html_())


def test_plans_and_views_have_cards() -> None:
    array = oz.create_array(None, shape=(4, 4))
    plan = oz.jobs.Rechunk(array, {}, chunks=2).plan()
    assert "rechunk" in texts(plan._repr_html_())
    assert repr(plan) == str(plan)
    found = texts(array.view[:2]._repr_html_())
    for text in ("view", "(2, 4)", "float64", "64 bytes", "Array /  (4, 4) float64"):
        assert text in found
