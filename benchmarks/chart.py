"""A few results as a chart for the landing page: ``docs/generated/speed.svg``.

It takes the colours of the page, or light and dark ones of its own. ``python -m benchmarks.chart``
draws it from ``docs/generated/benchmarks.md``.
"""

from __future__ import annotations

from pathlib import Path

GENERATED = Path(__file__).parents[1] / "docs" / "generated"
# What the chart shows: a label, a section of the page and a row of its table.
SHOWN = (
    ("read an array", "Full read, version 3, uint16", "blosc lz4, 64³"),
    ("write an array", "Full write, version 3, uint16", "blosc lz4, 64³"),
    ("read shards", "Shards 128³ of 32³, uint16", "blosc lz4, read"),
    ("a small box from shards", "Shards 128³ of 32³, uint16", "blosc lz4, random 16³ box"),
    ("random points", "256 random points in 32³ chunks, uint16", "blosc lz4"),
    ("read a million strings", "1,000,000 strings", "zstd, read"),
    ("open an array", "Open one array", "version 3"),
    ("append", "Append 100 times, chunks of 100 × 1000 float32, blosc lz4", "100 rows"),
    ("import the library", "Import, beyond NumPy", "import"),
)
LEFT, UNIT, STEP, TOP = 190, 78, 24, 46  # of the axis, of 1×, between bars, above them
STYLE = """
    .oz-bg { fill: var(--md-default-bg-color, #fff) }
    .oz-text { fill: var(--md-default-fg-color, #222); font: 13px system-ui, "Noto Sans", Arial, sans-serif }
    .oz-note { fill: var(--md-default-fg-color--light, #666); font: 12px system-ui, "Noto Sans", Arial, sans-serif }
    .oz-end { text-anchor: end }
    .oz-middle { text-anchor: middle }
    .oz-faster { fill: var(--oz-faster, #1b7f79) }
    .oz-slower { fill: var(--oz-slower, #c8553d) }
    .oz-axis { stroke: var(--md-default-fg-color--light, #666) }
    @media (prefers-color-scheme: dark) {
      .oz-bg { fill: var(--md-default-bg-color, #1e2129) }
      .oz-text { fill: var(--md-default-fg-color, #ddd) }
      .oz-note { fill: var(--md-default-fg-color--light, #aaa) }
      .oz-axis { stroke: var(--md-default-fg-color--light, #aaa) }
    }
"""  # noqa: E501  (one rule a line)


def ratios(page: str) -> list[tuple[str, float, str]]:
    """Return for each bar its label, the ratio and the fastest other library with its time."""
    found = []
    for label, section, row in SHOWN:
        table = page.partition(f"## {section}\n")[2].partition("\n## ")[0]
        lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
        names = next(line for line in lines if "ratio" in line)
        values = dict(zip(names, next(line for line in lines if line[:1] == [row]), strict=True))
        peer = next(name for name, value in values.items() if value.startswith("**"))
        times = f"{values['omnizarr']}, {peer} {values[peer].strip('*')}"
        found.append((label, float(values["ratio"]), times))
    return found


def chart(page: str) -> str:
    """Return the chart of a page of benchmarks as SVG."""
    bars = ratios(page)
    height = TOP + STEP * len(bars) + 8
    end = TOP + STEP * len(bars) - 4
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 {height}">',
        "  <title>Speed of omnizarr relative to the fastest other library</title>",
        f"  <style>{STYLE}  </style>",
        f'  <rect class="oz-bg" width="720" height="{height}"/>',
        f'  <text class="oz-note oz-end" x="{LEFT - 10}" y="32">against the fastest other</text>',
    ]
    for tick in range(1, 5):
        x = LEFT + UNIT * tick
        lines.append(f'  <text class="oz-note oz-middle" x="{x}" y="32">{tick}×</text>')
    for number, (label, ratio, times) in enumerate(bars):
        y = TOP + STEP * number
        kind, width = ("faster" if ratio >= 1 else "slower"), UNIT * ratio
        lines += [
            f'  <text class="oz-text oz-end" x="{LEFT - 10}" y="{y + 13}">{label}</text>',
            f'  <rect class="oz-{kind}" x="{LEFT}" y="{y}" width="{width:.0f}" height="17"/>',
            f'  <text class="oz-note" x="{LEFT + max(width, UNIT) + 8:.0f}" y="{y + 13}">'
            f"{ratio:.2g}×: {times}</text>",
        ]
    x = LEFT + UNIT
    lines.append(f'  <path class="oz-axis" d="M{x} {TOP - 6}V{end}"/>')
    return "\n".join([*lines, "</svg>", ""])


def write() -> None:
    """Draw the chart of the current page."""
    page = (GENERATED / "benchmarks.md").read_text()
    (GENERATED / "speed.svg").write_text(chart(page))


if __name__ == "__main__":
    write()
