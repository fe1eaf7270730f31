"""Move the fragments in this folder into CHANGELOG.md: python changes/merge.py [VERSION].

With a version, what was unreleased becomes that release, dated today.
"""

from __future__ import annotations

import datetime
import re
import sys
import textwrap
from pathlib import Path

KINDS = ("added", "changed", "deprecated", "removed", "fixed", "security")
UNRELEASED = "## [Unreleased]\n"
FOLDER = Path(__file__).parent


def fragments(folder: Path) -> dict[Path, str]:
    """Return the kind of every fragment."""
    found = {}
    for path in sorted(folder.glob("*.md")):
        if path.name == "README.md":
            continue
        _, _, kind = path.stem.rpartition(".")
        if kind not in KINDS or not path.stem[: -len(kind) - 1] or not path.read_text().strip():
            names = ", ".join(KINDS)
            raise SystemExit(f"{path}: expected one sentence in <topic>.<kind>.md, kind: {names}")
        found[path] = kind
    return found


def merge(text: str, entries: list[tuple[str, str]]) -> str:
    """Add entries, each a kind and a sentence, to the unreleased changes of a changelog."""
    before, heading, rest = text.partition(UNRELEASED)
    if not heading:
        raise SystemExit(f"CHANGELOG.md has no line {UNRELEASED.strip()!r}")
    older = re.search(r"^## ", rest, re.M)
    unreleased, after = (rest[: older.start()], rest[older.start() :]) if older else (rest, "")
    introduction, *parts = re.split(r"^### (\w+)\n", unreleased, flags=re.M)
    sections = dict(zip(parts[::2], map(str.strip, parts[1::2]), strict=True))
    for kind, sentence in entries:
        bullet = textwrap.fill(
            f"- {' '.join(sentence.split())}", 100, subsequent_indent="  ",
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
        known = sections.get(kind.title(), "")
        sections[kind.title()] = f"{known}\n{bullet}".strip()
    titles = [kind.title() for kind in KINDS if kind.title() in sections]
    body = "".join(f"### {title}\n\n{sections[title]}\n\n" for title in titles)
    introduction = f"\n{introduction.strip()}\n\n" if introduction.strip() else "\n"
    return f"{before}{heading}{introduction}{body}{after}".rstrip() + "\n"


def release(text: str, version: str, day: datetime.date) -> str:
    """Make the unreleased changes those of a version."""
    if f"## [{version}]" in text:
        raise SystemExit(f"CHANGELOG.md has a version {version} already")
    return text.replace(UNRELEASED, f"{UNRELEASED}\n## [{version}] - {day.isoformat()}\n", 1)


def main(changelog: Path, version: str | None = None) -> None:
    """Merge, and erase what was merged."""
    found = fragments(changelog.parent / "changes")
    text = merge(changelog.read_text(), [(kind, path.read_text()) for path, kind in found.items()])
    changelog.write_text(release(text, version, datetime.date.today()) if version else text)
    for path in found:
        path.unlink()


if __name__ == "__main__":
    main(FOLDER.parent / "CHANGELOG.md", *sys.argv[1:])
