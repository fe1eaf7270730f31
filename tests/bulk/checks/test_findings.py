"""Reports of a verification: limits, JSON, and the file of all findings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnizarr.bulk.checks import findings
from omnizarr.bulk.checks.findings import KINDS, Finding, FindingsFile, VerifyReport, check_kind
from omnizarr.errors import InvalidArgument, Problem, StoreError

some_findings = st.builds(
    Finding,
    path=st.sampled_from(["/", "/a"]),
    key=st.text(max_size=8),
    message=st.text(max_size=8),
    chunk=st.none() | st.tuples(st.integers(0, 9), st.integers(0, 9)),
    level=st.sampled_from(["error", "warning"]),
    kind=st.sampled_from(KINDS),
    field=st.sampled_from(["", "codecs[1].configuration.level"]),
    rule=st.sampled_from(["", "Zarr 3, codecs"]),
)


@given(st.lists(st.lists(some_findings, max_size=6), max_size=6), st.integers(0, 8))
def test_any_parts_give_the_same_counts_and_at_most_the_limit(
    parts: list[list[Finding]], limit: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(findings, "MAX_FINDINGS", limit)
        total = VerifyReport()
        for part in parts:
            report = VerifyReport(chunks=1)
            for finding in part:
                report.add(finding)
            total.merge(VerifyReport.from_json(json.loads(json.dumps(report.to_json()))))
    every = [finding for part in parts for finding in part]
    assert total.chunks == len(parts)
    assert total.errors == sum(f.level == "error" for f in every)
    assert total.warnings == len(every) - total.errors
    assert total.ok == (total.errors == 0)
    for kind in KINDS:
        number = sum(f.kind == kind for f in every)
        assert total.counts.get(kind, 0) == number
        assert sum(f.kind == kind for f in total.findings) == min(number, limit)
        bad = sum(f.kind == kind and f.level == "error" for f in every)
        assert total.error_counts.get(kind, 0) == bad
    assert total.omitted == len(every) - len(total.findings)
    assert VerifyReport.from_json(json.loads(json.dumps(total.to_json()))) == total


def test_a_finding_names_field_pointer_and_rule() -> None:
    problem = Problem("a/zarr.json", "codecs[0].configuration.level", "expected an integer")
    found = Finding.of(problem, "a", "metadata")
    assert found.pointer == "/codecs/0/configuration/level"
    assert str(found) == (
        "/a ('a/zarr.json', codecs[0].configuration.level): expected an integer [Zarr 3, codecs]"
    )
    assert found.to_json()["kind"] == "metadata"


def test_every_kind_is_known() -> None:
    assert set(KINDS) == set(get_args(findings.Kind))
    assert check_kind("orphan") == "orphan"
    with pytest.raises(InvalidArgument, match="did you mean 'orphan'"):
        check_kind("orphans")


def test_a_file_has_every_finding_once_also_after_an_interruption(tmp_path: Path) -> None:
    every = [Finding("/", f"c/{i}", "is damaged", (i,)) for i in range(5)]
    file = tmp_path / "report.jsonl"
    FindingsFile(file).write(every[:3], "lake/a.zarr")
    with file.open("ab") as torn:
        torn.write(b'{"store": "lake/a.zarr", "pa')
    FindingsFile(file, resume=True).write(every[1:], "lake/a.zarr")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["chunk"] for line in lines] == [[0], [1], [2], [3], [4]]
    assert {line["store"] for line in lines} == {"lake/a.zarr"}
    FindingsFile(file).write(every[:1])
    assert len(file.read_text().splitlines()) == 1


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot write the report"):
        FindingsFile(tmp_path / "nowhere" / "report.jsonl")
