"""Reports of a verification: limits and JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnizarr.bulk.checks import findings
from omnizarr.bulk.checks.findings import KINDS, Finding, VerifyReport
from omnizarr.errors import Problem

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
