"""The public cases of ome/ngff-spec, from a checkout outside this project.

``python -m tests.conventions.ome.ngff_suite FOLDER`` wants a folder with the branches 0.4 and 0.5
as subfolders, and prints how many verdicts agree.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from omnizarr.conventions.ome.rules import ADVICE
from omnizarr.conventions.validate import validate

MEMBER = {"image": "multiscales", "label": "image-label", "plate": "plate", "well": "well"}


def cases(folder: Path) -> Iterator[tuple[str, dict[str, Any], str, bool, bool]]:
    """Yield name, attributes, the member that must be there, whether strict, whether valid."""
    for file in sorted(folder.glob("tests/*_suite.json")):
        suite = json.loads(file.read_text())
        kind = file.stem.removesuffix("_suite").removeprefix("strict_")
        for test in suite["tests"]:
            strict = file.stem.startswith("strict_")
            yield (
                f"{file.stem} {test['formerly']}",
                test["data"],
                MEMBER[kind],
                strict,
                test["valid"],
            )
    for file in sorted(folder.glob("examples/*/*.json")):
        if file.name != ".config.json":
            lines = file.read_text().splitlines()
            text = "\n".join(line for line in lines if not line.lstrip().startswith("//"))
            document = json.loads(text)
            yield f"examples {file.stem}", document.get("attributes", document), "", False, True


def verdict(attributes: dict[str, Any], member: str, strict: bool) -> list[str]:
    """Return the reason why attributes are invalid; empty if they are valid."""
    problems = validate(attributes)
    counted = [
        str(p)
        for p in problems
        if p.level == "error" or (strict and not p.message.startswith(ADVICE))
    ]
    inner = attributes.get("ome", attributes)
    if member and (not isinstance(inner, dict) or member not in inner):
        counted.append(f"{member} is missing")
    return counted


def main(folder: Path) -> int:
    wrong = 0
    for version in ("0.4", "0.5"):
        count = 0
        for name, attributes, member, strict, valid in cases(folder / version):
            count += 1
            found = verdict(attributes, member, strict)
            if valid == bool(found):
                wrong += 1
                print(f"{version} {name}: expected {'valid' if valid else 'invalid'}, {found}")
        print(f"{version}: {count} cases")
    print(f"{wrong} wrong verdicts")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
