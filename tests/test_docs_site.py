"""The documentation site: every page is in its navigation, every link and anchor exists."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
DOCUMENTS = [*sorted(ROOT.glob("*.md")), ROOT / "changes" / "README.md", *PAGES]
SITE = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
FENCED = re.compile(r"^( *)(`{3,}).*?^\1\2 *$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
HEADING = re.compile(r"^#{1,6} +(.+?)\s*#*$", re.MULTILINE)
DIRECTIVE = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)
OTHER_NAME = re.compile(r"^\| `(omnizarr[\w.]+)` \| \[`([\w.]+)`\]\(#([\w.]+)\) \|$", re.MULTILINE)
MODULES = ("aio", "cf", "codecs", "errors", "geo", "jobs", "ome", "storage", "testing", "xarray")


def prose(document: Path) -> str:
    """Return the text of a page without blocks of code."""
    return FENCED.sub("", document.read_text())


def slug(heading: str) -> str:
    """Return the anchor that the repository host, and the site, give to a heading."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    text = re.sub(r"[`*]", "", text).lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(document: Path) -> set[str]:
    """Return the anchors of a page: of its headings, and of the names that it describes."""
    found: set[str] = set()
    counts: Counter[str] = Counter()
    for heading in HEADING.findall(prose(document)):
        anchor = slug(heading)
        found.add(f"{anchor}-{counts[anchor]}" if counts[anchor] else anchor)
        counts[anchor] += 1
    return found | set(DIRECTIVE.findall(document.read_text()))


def broken(document: Path) -> Iterator[str]:
    """Yield the links of a page that lead nowhere."""
    text = re.sub(r"(`+).*?\1", "", prose(document))
    for target in LINK.findall(text):
        if re.match(r"\w+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (document.parent / path).resolve() if path else document
        if not file.exists() or not file.is_relative_to(ROOT):
            yield f"{target}: no such file"
        elif anchor and file.suffix == ".md" and anchor not in anchors(file):
            yield f"{target}: no such heading"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: str(d.relative_to(ROOT)))
def test_no_link_is_dead(document: Path) -> None:
    assert list(broken(document)) == []


def in_nav(part: Any = SITE["nav"]) -> Iterator[str]:
    """Yield the pages that the navigation lists."""
    for entry in part:
        values = entry.values() if isinstance(entry, dict) else [entry]
        for value in values:
            yield from [value] if isinstance(value, str) else in_nav(value)


def test_the_navigation_lists_every_page_once() -> None:
    pages = {page.relative_to(DOCS).as_posix() for page in PAGES} - {"README.md"}
    pages |= {f"project/{page.name.lower()}" for page in ROOT.glob("*.md")} - {"project/readme.md"}
    counts = Counter(in_nav())
    missing = pages - counts.keys()
    assert not missing, f"add {sorted(missing)} to the navigation in mkdocs.yml"
    assert counts.keys() == pages
    assert set(counts.values()) == {1}


def test_the_list_of_pages_on_the_host_leads_to_every_folder() -> None:
    listed = set(LINK.findall((DOCS / "README.md").read_text()))
    for folder in sorted({page.parent for page in PAGES} - {DOCS}):
        name = folder.relative_to(DOCS).as_posix()
        assert any(link.startswith(name) for link in listed), name


def test_nothing_on_the_site_is_fetched_elsewhere() -> None:
    assert SITE["theme"]["font"] is False
    assert not any("://" in str(SITE.get(key)) for key in ("extra_css", "extra_javascript"))
    # Without a worker of its own, the plugin would name one on another server.
    (worker,) = SITE["extra"]["polyfills"]
    assert "offline" in SITE["plugins"]
    assert "iframe-worker" in worker
    assert "://" not in (DOCS / worker).read_text()
    style = (DOCS / "theme" / "style.css").read_text()
    assert "url(" not in style
    assert "@import" not in style


def public_names() -> set[str]:
    """Return every public name of the package, with its module."""
    found = set()
    for name in ("", *MODULES):
        module = importlib.import_module(f"omnizarr.{name}".rstrip("."))
        later = getattr(module, "_LATER", {})
        found |= {f"{module.__name__}.{each}" for each in {*module.__all__, *later}}
    return found


def value(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def test_the_reference_has_every_public_name_once() -> None:
    text = "\n".join(page.read_text() for page in (DOCS / "reference").glob("*.md"))
    described = DIRECTIVE.findall(text)
    others = OTHER_NAME.findall(text)
    names = public_names()
    counts = Counter([*described, *(other for other, _, _ in others)])
    assert names - counts.keys() == set(), "describe these in docs/reference"
    extra = {"hierarchy.options.ArrayOptions", "testing", "stores.tracing.Costs"}
    extra |= {"stores.tracing.Trace"}
    assert counts.keys() - names == {f"omnizarr.{name}" for name in extra}
    assert [name for name, count in counts.items() if count > 1] == []
    for other, same, anchor in others:
        assert same == anchor
        assert same in described
        assert value(other) is value(same)
