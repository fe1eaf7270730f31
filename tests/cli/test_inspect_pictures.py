"""Pictures from the command line."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import run


def test_a_picture_is_written_and_replaced_only_on_demand(ocean: Path) -> None:
    assert run("preview", ocean, "a.png").stdout == "a.png\n"
    before = Path("a.png").read_bytes()
    assert before.startswith(b"\x89PNG")
    refused = run("preview", ocean, "a.png")
    assert refused.exit_code == 2
    assert "a.png exists; replace it? Nothing was changed; give --yes" in refused.output
    done = run("preview", ocean, "a.png", "--yes", "--pixels", 4, "--json")
    assert json.loads(done.stdout)["output"] == "a.png"
    assert Path("a.png").read_bytes() != before


def test_wrong_positions_are_named(ocean: Path) -> None:
    for position, text in (("t", "KEY=VALUE"), ("=3", "KEY=VALUE"), ("nowhere=1", "no other axis")):
        wrong = run("preview", ocean, "a.png", "--at", position)
        assert (wrong.exit_code, text in wrong.output) == (2, True)
    assert not Path("a.png").exists()
