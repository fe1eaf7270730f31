"""Check a built site: python docs/theme/check_site.py site.

Every link of every page leads to a file and an anchor, nothing is fetched from elsewhere, every
name of the reference has an anchor, and the search finds words from all over the pages.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

DIRECTIVE = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)
# Words of the landing page, how-to pages, docstrings, explanations and design decisions.
WORDS = ("create_array", "sharding_indexed", "compare-and-set", "checksum mismatch", "napari")
FETCHED = {("link", "href"), ("script", "src"), ("img", "src"), ("iframe", "src")}


class Contents(HTMLParser):
    """The anchors and links of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if not value:
                continue
            if name == "id" or (tag, name) == ("a", "name"):
                self.anchors.add(value)
            elif name in ("href", "src"):
                self.links.append(value)
                if (tag, name) in FETCHED:
                    self.fetched.append(value)


def problems(site: Path, docs: Path) -> Iterator[str]:
    """Yield what is wrong with a site."""
    pages = {page: Contents(page.read_text()) for page in site.rglob("*.html")}
    for page, contents in pages.items():
        where = page.relative_to(site)
        for link in contents.fetched:
            if re.match(r"(\w+:)?//", link):
                yield f"{where}: fetches {link}"
        for link in contents.links:
            if re.match(r"\w+:|//", link) or where.name == "404.html":
                continue
            path, _, anchor = unquote(link).partition("#")
            target = (page.parent / path).resolve() if path else page
            if not target.exists():
                yield f"{where}: {link} leads nowhere"
            elif anchor and target in pages and anchor not in pages[target].anchors:
                yield f"{where}: {link} has no such anchor"
    for page in (docs / "reference").glob("*.md"):
        built = pages[site / "reference" / f"{page.stem}.html".replace("README", "index")]
        for name in DIRECTIVE.findall(page.read_text()):
            if name not in built.anchors:
                yield f"reference/{page.name}: {name} is not described"
    index = json.loads((site / "search" / "search_index.json").read_text())
    text = "\n".join(f"{entry['title']}\n{entry['text']}" for entry in index["docs"])
    for word in WORDS:
        if word not in text:
            yield f"the search index does not have {word!r}"


def main(site: Path) -> None:
    """Print what is wrong, and exit with 1 if anything is."""
    found = list(problems(site.resolve(), Path(__file__).parents[1]))
    for problem in found:
        print(problem, file=sys.stderr)
    if found:
        raise SystemExit(1)
    pages = sum(1 for _ in site.rglob("*.html"))
    print(f"{pages} pages in {site}; to read them: python3 -m http.server -d {site}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
