"""Byte ranges are joined to few requests, and each response has exactly its range."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from omnizarr.stores import Range
from omnizarr.stores.byte_ranges import coalesce, each_in_parallel, fetch_together

VALUES = {"a": bytes(range(200)), "b": b"", "c": b"short"}

ranges = st.one_of(
    st.none(),
    st.builds(
        Range,
        st.integers(-250, 250),
        st.one_of(st.none(), st.integers(0, 250)),
    ),
)
asked = st.lists(st.tuples(st.sampled_from([*VALUES, "missing"]), ranges), max_size=12)


def expected(wanted: Sequence[tuple[str, Range | None]]) -> list[bytes | None]:
    whole = [VALUES.get(key) for key, _ in wanted]
    return [
        value if value is None or part is None else part.of(value)
        for value, (_, part) in zip(whole, wanted, strict=True)
    ]


@given(asked, st.integers(0, 60), st.integers(1, 120))
def test_joined_requests_return_exactly_the_requested_ranges(
    wanted: list[tuple[str, Range | None]], gap: int, largest: int
) -> None:
    fetches = coalesce(wanted, gap=gap, largest=largest)
    assert len(fetches) <= len(wanted)
    found: dict[int, bytes | None] = {}
    for fetch in fetches:
        (data,) = expected([(fetch.key, fetch.range)])
        for number, part in fetch.parts:
            assert number not in found
            found[number] = data if data is None or part is None else part.of(data)
    assert [found[i] for i in range(len(wanted))] == expected(wanted)


@given(asked)
def test_many_answers_are_those_of_single_requests(wanted: list[tuple[str, Range | None]]) -> None:
    each = each_in_parallel(lambda key, part: (expected([(key, part)])[0], key))
    found = fetch_together(each, wanted)
    assert [data for data, _ in found] == expected(wanted)
    assert [generation for _, generation in found] == [key for key, _ in wanted]


def test_distant_or_large_ranges_are_not_joined() -> None:
    def spans(*wanted: tuple[int, int]) -> list[Range | None]:
        parts = [("a", Range(*part)) for part in wanted]
        return [fetch.range for fetch in coalesce(parts, gap=10, largest=100)]

    assert spans((0, 10), (20, 10)) == [Range(0, 30)]
    assert spans((0, 10), (21, 10)) == [Range(0, 10), Range(21, 10)]
    assert spans((0, 60), (60, 60)) == [Range(0, 60), Range(60, 60)]
    assert spans((0, 500)) == [Range(0, 500)]
    assert spans((5, 10), (0, 30), (5, 10)) == [Range(0, 30)]
