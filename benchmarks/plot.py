"""The main results as a figure: ``docs/generated/benchmarks.png``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib
from matplotlib import pyplot
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from benchmarks.harness import OURS, Row
from benchmarks.report import show, topics

matplotlib.use("Agg")

FASTER, SLOWER, REFERENCE, TARGET, TEXT = "#1b7f79", "#c8553d", "#3d405b", "#e09f3e", "#333333"
SHORT = {"zarr-python": "zarr-python", "zarr-python Fused": "Fused", "zarr-python zarrs": "zarrs"}


def draw(rows: Sequence[Row], path: Path, subtitle: str) -> None:
    """Draw bars of the ratio to the fastest peer, grouped by topic, on a log scale."""
    main = [row for row in rows if row.main and row.ratio(OURS[0]) is not None]
    chosen = [row for some in topics(main).values() for row in some]
    positions, titles, height = _positions(chosen)
    figure, axes = pyplot.subplots(figsize=(10.5, 0.235 * height + 1.5), dpi=130)
    ratios = [row.ratio(OURS[0]) or 0.0 for row in chosen]
    low = min([0.3, *(0.8 * r for r in ratios)])
    high = 2.2 * max(ratios)
    for row, y, ratio in zip(chosen, positions, ratios, strict=True):
        _bar(axes, row, y, ratio)
    for y, title in titles:
        axes.text(
            -0.005,
            y,
            title,
            ha="right",
            va="center",
            weight="bold",
            size=8.5,
            transform=axes.get_yaxis_transform(),
            color=TEXT,
        )
    axes.axvline(1, color=TEXT, linewidth=1.2)
    axes.set(xscale="log", xlim=(low, high), ylim=(height, -1))
    axes.set_yticks(positions, [row.label for row in chosen], size=8)
    ticks = [t for t in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200) if low <= t <= high]
    axes.set_xticks(ticks, [f"{t:g}×" for t in ticks])
    axes.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labeltop=True, top=True, labelsize=8)
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("left", "right", "top", "bottom"):
        axes.spines[side].set_visible(False)
    _captions(figure, axes, subtitle)
    figure.savefig(path, bbox_inches="tight", facecolor="white")
    pyplot.close(figure)


def _positions(rows: Sequence[Row]) -> tuple[list[float], list[tuple[float, str]], float]:
    """Return the vertical positions of rows and of titles, and the total height."""
    positions: list[float] = []
    titles: list[tuple[float, str]] = []
    y = 0.0
    for topic, some in topics(rows).items():
        titles.append((y, topic))
        positions += [y + 1 + i for i in range(len(some))]
        y += len(some) + 1.5
    return positions, titles, y


def _bar(axes: pyplot.Axes, row: Row, y: float, ratio: float) -> None:
    colour = FASTER if ratio >= 1 else SLOWER
    axes.barh(y, ratio - 1, left=1, height=0.72, color=colour)
    reference = row.ratio(OURS[1])
    if reference is not None:
        axes.plot(
            reference,
            y,
            "D",
            color=REFERENCE,
            markersize=3.6,
            markeredgecolor="white",
            markeredgewidth=0.5,
            zorder=4,
        )
    targets = [t.ratio for t in row.targets if t.who == OURS[0] and t.ratio and not t.against]
    for target in targets:
        axes.plot([target] * 2, [y - 0.45, y + 0.45], color=TARGET, linewidth=2, zorder=3)
    fastest = row.fastest_peer() or ""
    times = f"{show(row.value(OURS[0]), row.unit)} – {SHORT.get(fastest, fastest)} "
    axes.text(
        max(ratio, reference or 0, *targets, 1.02) * 1.06,
        y,
        f"{ratio:.2g}×   {times}{show(row.value(fastest), row.unit)}",
        va="center",
        size=7.2,
        color=TEXT,
        zorder=5,
    )


def _captions(figure: pyplot.Figure, axes: pyplot.Axes, subtitle: str) -> None:
    legend = [
        Patch(color=FASTER, label="omnizarr, faster than all others"),
        Patch(color=SLOWER, label="omnizarr, slower than the fastest other"),
        Line2D(
            [],
            [],
            color=REFERENCE,
            marker="D",
            linestyle="",
            markersize=4,
            label="omnizarr without its compiled kernel",
        ),
        Line2D([], [], color=TARGET, linewidth=2, label="target"),
    ]
    axes.set_title(
        "Speed of omnizarr relative to the fastest of zarr-python (three pipelines), tensorstore"
        f" and zarrista\n{subtitle}",
        size=9,
        loc="right",
        color=TEXT,
        pad=22,
    )
    figure.legend(
        handles=legend,
        loc="upper center",
        bbox_to_anchor=(0.5, 0.08),
        ncols=2,
        fontsize=8,
        frameon=False,
    )
