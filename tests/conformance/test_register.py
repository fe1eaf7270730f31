"""docs/formats.md says what is supported of the public register of extensions."""

from __future__ import annotations

from tests.conformance.register import DATE, NAMES, PAGE, shown_table, table


def test_the_table_of_registered_names_is_what_the_library_does() -> None:
    assert shown_table() == table(), "run: python -m tests.conformance.register"
    assert DATE in PAGE.read_text()


def test_every_registered_name_is_in_the_table_once() -> None:
    shown: dict[str, list[str]] = {}
    for line in shown_table().splitlines()[2:]:
        kind, names = line.strip("| ").split(" | ")[:2]
        shown.setdefault(kind.replace(" ", "_"), []).extend(names.split("`")[1::2])
    wanted = {kind: sorted(names) for kind, names in NAMES.items()}
    found = {kind: sorted(n.replace("r<bits>", "r") for n in shown[kind]) for kind in shown}
    assert found == wanted
