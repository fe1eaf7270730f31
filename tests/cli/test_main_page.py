"""docs/generated/commands.md, and what every command has."""

from __future__ import annotations

import click
import pytest

from omnizarr.cli.main import main
from tests.cli.page import MARK, PAGE, SAMPLES, all_commands, generated, json_shape

COMMANDS = {n: c for n, c in all_commands(main) if not isinstance(c, click.Group)}


def test_the_page_is_made_from_the_commands() -> None:
    """``python -m tests.cli.page`` rewrites it."""
    assert PAGE.read_text(encoding="utf-8").partition(MARK)[2] == generated()


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_every_command_ends_with_two_examples(name: str) -> None:
    epilog = COMMANDS[name].epilog or ""
    lines = [line.strip() for line in epilog.splitlines()]
    assert sum(f"omnizarr {name}" in line for line in lines) >= 2


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_prints_json_that_is_documented(name: str) -> None:
    options = {parameter.name for parameter in COMMANDS[name].params}
    assert "as_json" in options
    assert name in SAMPLES


def test_shapes_of_json_are_merged() -> None:
    assert json_shape([{"a": 1}, {"a": None, "b": [True, "x"]}]) == (
        "{\n  a: number or null\n  b?: [boolean or text]\n}"
    )
    assert json_shape([{"attributes": {"x": 1}, "e": []}]) == "{\n  attributes: {…}\n  e: […]\n}"
    assert json_shape([{"/a/b": 1, "/c": 2.5}]) == "{…: number}"
