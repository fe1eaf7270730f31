"""The chart of the landing page shows the figures of the page of benchmarks."""

from __future__ import annotations

from benchmarks import chart


def test_the_chart_is_that_of_the_current_page() -> None:
    page = (chart.GENERATED / "benchmarks.md").read_text()
    drawn = (chart.GENERATED / "speed.svg").read_text()
    assert drawn == chart.chart(page), "python -m benchmarks.chart"
    ratios = [ratio for _, ratio, _ in chart.ratios(page)]
    assert len(ratios) == len(chart.SHOWN)
    assert all(0 < ratio < 5 for ratio in ratios), "the chart has room up to 5×"
