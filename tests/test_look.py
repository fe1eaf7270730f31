"""The page about representations has a picture of each; tests/test_docs.py runs its code."""

from __future__ import annotations

import struct
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.look import DOCS, page, samples


def test_the_page_shows_a_picture_of_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found, text = samples(), (DOCS / "look.md").read_text()
    for name, item in found.items():
        picture = DOCS / "look" / f"{name}.png"
        assert f"(look/{name}.png)" in text
        assert picture.stat().st_size < 60_000
        header = picture.read_bytes()[:24]
        assert header[:8] == b"\x89PNG\r\n\x1a\n"
        assert struct.unpack(">I", header[16:20])[0] >= 600
        for svg in ET.fromstring(f"<all>{item._repr_html_()}</all>").iter("svg"):
            assert svg.attrib["aria-label"] == "chunk grid"
        assert item._repr_html_() in page(item._repr_html_())
    assert {p.stem for p in (DOCS / "look").iterdir()} == {*found}
