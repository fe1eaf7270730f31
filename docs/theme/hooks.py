"""Build the site from pages that are written for the repository host, in CommonMark.

MkDocs calls the functions whose names begin with ``on_``. They add the documents at the root of the
repository as pages, make links to other files of the repository work on the site, and put SVG
pictures into the pages, so that they take the colours of the page.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pymdownx.slugs import slugify

ROOT = Path(__file__).parents[2]
ALONE = ("index.md", "troubleshooting.md")  # pages that are not part of a section
FIRST = ("reference/open-create", "reference/operations", "reference/checking")
LAST = ("design/", "generated/", "kernel", "project/")
CHOSEN = {"chunks.md": 4}  # how-tos that many words of other pages hide
FENCE = re.compile(r"^ *(```+|~~~+)")
ITEM = re.compile(r"^( *)(?:[-*+]|\d+[.)]) +")
LINK = re.compile(r"(\]\()(?!\w+:|#)([^)#\s]+)(#[^)\s]*)?(?=\))")
PICTURE = re.compile(r"^!\[([^\]]*)\]\(([^)\s]+\.svg)\)$")
CODE = re.compile(r"(`+).*?\1")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Give headings the same anchors as on the repository host."""
    config.mdx_configs["toc"]["slugify"] = slugify(case="lower")
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the documents at the root, and the files elsewhere to which pages have links."""
    pages = {file.src_uri: file.content_string for file in files.documentation_pages()}
    for document in sorted(ROOT.glob("*.md")):
        if document.name != "README.md":
            uri = site_uri(document.name)
            pages[uri] = document.read_text()
            files.append(File.generated(config, uri, content=pages[uri]))
    linked = {
        target
        for uri, text in pages.items()
        for target in _targets(text, origin(uri))
        if not target.startswith("docs/") and (ROOT / target).is_file()
    }
    for target in sorted(linked):
        if not target.endswith(".md") or "/" in target:
            content = (ROOT / target).read_bytes()
            files.append(File.generated(config, site_uri(target), content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Change what the repository host and Python-Markdown treat differently."""
    uri = page.file.src_uri
    path = origin(uri)
    if uri in ALONE:
        page.meta["hide"] = ["navigation"]
    page.meta["search"] = {"boost": search_boost(uri)}

    def change(line: str) -> str:
        picture = PICTURE.match(line)
        if picture:
            return inline_picture(ROOT / posixpath.dirname(path) / picture[2], picture[1])
        return LINK.sub(lambda link: _moved(link, path, uri), line)

    return _outside_code(as_python_markdown(markdown), change)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Let tables and blocks of code be scrolled with the keyboard."""
    return output.replace("<pre>", '<pre tabindex="0">')


def search_boost(uri: str) -> float:
    """Return the weight of a page in search results: names first, what programs wrote last."""
    if uri.startswith("reference/") and uri != "reference/aio.md":  # the same names once more
        return 3 if uri.startswith(FIRST) else 2
    if uri.startswith("generated/"):
        return 1e-6
    return 0.3 if uri.startswith(LAST) else CHOSEN.get(uri, 1)


def origin(uri: str) -> str:
    """Return the path in the repository of a page of the site."""
    folder, _, name = uri.partition("/")
    if folder == "project":
        for document in ROOT.glob("*.md"):
            if document.name.lower() == name:
                return document.name
    return f"docs/{uri}"


def site_uri(path: str) -> str:
    """Return the place on the site of a file of the repository, given by its path."""
    if path in ("README.md", "docs/README.md"):
        return "index.md"
    if path.startswith("docs/"):
        found = ROOT / path
        return posixpath.join(path.removeprefix("docs/"), "README.md" if found.is_dir() else "")
    if path.endswith(".md") and "/" not in path:
        return f"project/{path.lower()}"
    # As text, which browsers show; of Markdown, MkDocs would make pages.
    return f"project/files/{path}.txt"


def _moved(link: re.Match[str], path: str, uri: str) -> str:
    """Return the beginning of a link, with its target on the site."""
    target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link[2]))
    if not (ROOT / target).exists():
        return link[0]  # which MkDocs will report
    moved = posixpath.relpath(site_uri(target).rstrip("/"), posixpath.dirname(uri) or ".")
    return f"{link[1]}{moved}{link[3] or ''}"


def _targets(text: str, path: str) -> list[str]:
    found: list[str] = []

    def collect(line: str) -> str:
        for link in LINK.finditer(line):
            joined = posixpath.join(posixpath.dirname(path), link[2])
            found.append(posixpath.normpath(joined))
        return line

    _outside_code(text, collect)
    return found


def inline_picture(file: Path, description: str) -> str:
    """Return an SVG file as HTML for a page, on one line, with its description."""
    text = re.sub(r"<\?xml.*?\?>|<!--.*?-->", "", file.read_text(), flags=re.DOTALL)
    text = " ".join(text.split())
    label = description.replace("&", "&amp;").replace('"', "&quot;")
    text = text.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
    return f'<figure class="oz-picture" markdown="0">{text}</figure>'


def as_python_markdown(text: str) -> str:
    """Indent what belongs to list items by four spaces, and put empty lines before lists.

    CommonMark needs neither, Python-Markdown both.
    """
    lines: list[str] = []
    widths: list[int] = []  # columns at which the text of the open items begins
    fence = ""
    for line in text.splitlines():
        opened = FENCE.match(line)
        indent = len(line) - len(line.lstrip())
        if not fence:
            item = ITEM.match(line)
            if line.strip():
                while widths and indent < widths[-1]:
                    widths.pop()
                if not widths and indent and not (lines and lines[-1].strip()):
                    item = None  # a block of code
            if item:
                blank = not lines or not lines[-1].strip()
                if not widths and not blank and not _in_list(lines):
                    lines.append("")
                lines.append("    " * len(widths) + line[indent:])
                widths.append(item.end())
                continue
        if opened and not fence:
            fence = opened[1]
        elif fence and line.strip() == fence:
            fence = ""
        cut = min(widths[-1], indent) if widths else 0
        lines.append("    " * len(widths) + line[cut:] if line.strip() else "")
    return "\n".join(lines) + "\n"


def _in_list(lines: list[str]) -> bool:
    """Return True if the paragraph at the end of the lines is that of a list item."""
    for line in reversed(lines):
        if ITEM.match(line):
            return True
        if not line.strip() or not line.startswith(" "):
            return False
    return False


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    """Change the lines that are not in a block of code, and leave code in them as it is."""
    lines: list[str] = []
    fence = ""
    for line in text.splitlines():
        opened = FENCE.match(line)
        if fence or opened:
            if not fence and opened:
                fence = opened[1]
            elif line.strip() == fence:
                fence = ""
            lines.append(line)
            continue
        codes: list[str] = []

        def hide(code: re.Match[str], codes: list[str] = codes) -> str:
            codes.append(code[0])
            return f"\0{len(codes) - 1}\0"

        changed = change(CODE.sub(hide, line))
        lines.append(re.sub("\0(\\d+)\0", lambda m, c=codes: c[int(m[1])], changed))
    return "\n".join(lines) + "\n"
