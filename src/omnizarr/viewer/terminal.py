"""Pictures in a terminal: by the protocols of kitty or sixel, or as coloured characters."""

from __future__ import annotations

import base64
import os
import select
import shutil
import sys
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from omnizarr.errors import InvalidArgument
from omnizarr.extension import value_text
from omnizarr.viewer.picture import Picture, choose, colors, table_lines

Protocol: TypeAlias = Literal["kitty", "sixel", "colors", "plain"]
PROTOCOLS: tuple[Protocol, ...] = ("kitty", "sixel", "colors", "plain")
PIXELS = 480  # along the longer side, where a terminal shows pixels
_SHADES = " .:-=+*#%@"
_BARS = " ▁▂▃▄▅▆▇█"
_PIECE = 4096  # bytes that kitty takes at a time
_LEVELS = 6  # of red, green and blue each in sixels, which have at most 256 colours
_WAIT = 0.2  # seconds for the answer of a terminal
RGB: TypeAlias = npt.NDArray[np.uint8]


def draw(
    node: Any, at: Mapping[str, int] | None = None, protocol: Protocol | None = None
) -> tuple[Picture, str]:
    """Return a picture of a node and its text, by default for the terminal that is used."""
    chosen = protocol or supported_protocol()
    if chosen not in PROTOCOLS:
        raise InvalidArgument(f"unknown protocol {chosen!r}; known: {', '.join(PROTOCOLS)}")
    width, height = shutil.get_terminal_size((80, 24))
    sharp = chosen in ("kitty", "sixel")
    picture = choose(node, at, PIXELS if sharp else max(2, min(width, 2 * (height - 4))))
    return picture, "\n".join([_heading(picture), *_body(picture, chosen, width, height)])


def supported_protocol() -> Protocol:
    """Return what the terminal at the standard output can show."""
    if not sys.stdout.isatty() or "NO_COLOR" in os.environ:
        return "plain"
    term = os.environ.get("TERM", "")
    if term == "dumb":
        return "plain"
    if "kitty" in term or "ghostty" in term or "KITTY_WINDOW_ID" in os.environ:
        return "kitty"
    return "sixel" if _has_sixels() else "colors"


def _has_sixels() -> bool:
    """Ask the terminal for its abilities; 4 is that of showing sixels."""
    try:
        import termios  # noqa: PLC0415 - not on Windows
        import tty  # noqa: PLC0415
    except ImportError:
        return False
    if not sys.stdin.isatty():
        return False
    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)
    answer = b""
    try:
        tty.setcbreak(number, termios.TCSANOW)
        os.write(sys.stdout.fileno(), b"\x1b[c")
        while select.select([number], [], [], _WAIT)[0] and not answer.endswith(b"c"):
            answer += os.read(number, 64)
    except OSError:
        return False
    finally:
        termios.tcsetattr(number, termios.TCSANOW, before)
    return has_sixel_ability(answer)


def has_sixel_ability(answer: bytes) -> bool:
    """Return True if the answer of a terminal lists sixels, such as in ``ESC [ ? 62 ; 4 c``."""
    inner = answer.rpartition(b"\x1b[?")[2].removesuffix(b"c")
    return b"4" in inner.split(b";")[1:]


def _heading(picture: Picture) -> str:
    lines = [picture.title, *picture.notes]
    if picture.kind == "plane":
        sizes = [f"{axis.label} {_ends(axis.places)}" for axis in picture.axes]
        lines.append(", ".join(sizes) + (f", values in {picture.unit}" if picture.unit else ""))
    return "\n".join(_printable(line) for line in lines)


def _ends(places: Any) -> str:
    if not len(places):
        return ""
    first, last = (
        value_text(p) if places.dtype.kind == "M" else f"{p:g}" for p in (places[0], places[-1])
    )
    return f"{first} to {last}"


def _printable(text: str) -> str:
    """Return text without characters that would control the terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)


def _body(picture: Picture, protocol: Protocol, width: int, height: int) -> Iterator[str]:
    if picture.kind == "table":
        yield from map(_printable, table_lines(picture))
    elif picture.kind == "plot":
        yield from _plot_lines(picture, min(width, 100), min(height - 4, 12))
    elif protocol == "kitty":
        yield kitty(colors(picture))
    elif protocol == "sixel":
        yield sixel(colors(picture))
    elif protocol == "colors":
        yield from half_blocks(colors(picture))
    else:
        yield from shades(colors(picture))


def kitty(image: RGB) -> str:
    """Return a picture in the graphics protocol of kitty."""
    height, width = image.shape[:2]
    data = base64.b64encode(zlib.compress(np.ascontiguousarray(image).tobytes()))
    pieces = [data[i : i + _PIECE].decode() for i in range(0, len(data), _PIECE)]
    found = []
    for number, piece in enumerate(pieces):
        first = f"a=T,f=24,o=z,s={width},v={height}," if number == 0 else ""
        found.append(f"\x1b_G{first}m={int(number < len(pieces) - 1)};{piece}\x1b\\")
    return "".join(found)


def sixel(image: RGB) -> str:
    """Return a picture as sixels, with six levels of red, green and blue each."""
    step = 255 / (_LEVELS - 1)
    levels = np.rint(image / step).astype(int)
    indices = (levels[..., 0] * _LEVELS + levels[..., 1]) * _LEVELS + levels[..., 2]
    height, width = indices.shape
    rows = -(-height // 6)
    padded = np.full((rows * 6, width), -1)
    padded[:height] = indices
    used = np.unique(indices)
    palette = "".join(_sixel_color(int(number)) for number in used)
    bits = (1 << np.arange(6))[:, None]
    bands = []
    for band in padded.reshape(rows, 6, width):
        parts = []
        for number in np.unique(band[band >= 0]):
            pattern = ((band == number) * bits).sum(0) + 63
            parts.append(f"#{number}{_runs(pattern)}")
        bands.append("$".join(parts))
    return f'\x1bPq"1;1;{width};{height}{palette}{"-".join(bands)}\x1b\\'


def _sixel_color(number: int) -> str:
    parts = (number // _LEVELS**2, number // _LEVELS % _LEVELS, number % _LEVELS)
    red, green, blue = (round(part * 100 / (_LEVELS - 1)) for part in parts)
    return f"#{number};2;{red};{green};{blue}"


def _runs(codes: npt.NDArray[Any]) -> str:
    """Return characters with repetitions counted, as sixels may have them."""
    ends = np.flatnonzero(np.diff(codes)) + 1
    starts = np.concatenate([[0], ends])
    counts = np.diff(np.concatenate([starts, [len(codes)]]))
    return "".join(
        f"!{count}{chr(codes[start])}" if count > 3 else chr(codes[start]) * count
        for start, count in zip(starts, counts, strict=True)
    )


def half_blocks(image: RGB) -> Iterator[str]:
    """Yield lines in which each character shows two pixels, one above the other, in colour."""
    if len(image) % 2:
        image = np.concatenate([image, image[-1:]])
    for upper, lower in zip(image[::2], image[1::2], strict=True):
        cells = (
            f"\x1b[38;2;{a[0]};{a[1]};{a[2]}m\x1b[48;2;{b[0]};{b[1]};{b[2]}m▀"
            for a, b in zip(upper.tolist(), lower.tolist(), strict=True)
        )
        yield "".join(cells) + "\x1b[0m"


def shades(image: RGB) -> Iterator[str]:
    """Yield lines of characters, a darker one for a darker pixel; of two rows one is shown."""
    light = image.astype(int) @ (299, 587, 114)  # whole numbers: the same on every processor
    for row in light[::2]:
        yield "".join(_SHADES[int(v) * (len(_SHADES) - 1) // 255_000] for v in row)


def _plot_lines(picture: Picture, width: int, height: int) -> Iterator[str]:
    """Yield a plot made of bars, from the smallest to the largest value."""
    values = picture.layers[0].values.astype("f8")
    parts = np.array_split(values, min(width, len(values)))
    finite = [part[np.isfinite(part)] for part in parts]
    means = np.array([part.mean() if part.size else np.nan for part in finite])
    known = means[np.isfinite(means)]
    if not known.size:
        yield "no finite values"
        return
    low, high = float(known.min()), float(known.max())
    share = (means - low) / ((high - low) or 1.0)
    units = np.where(np.isfinite(share), 1 + np.nan_to_num(share) * (height * 8 - 1), 0).astype(int)
    yield f"{high:g} {_printable(picture.unit)}".rstrip()
    for row in range(height - 1, -1, -1):
        yield "".join(_BARS[min(max(int(n) - row * 8, 0), 8)] for n in units).rstrip()
    yield f"{low:g}"
    yield f"{_printable(picture.axes[0].label)}: {_ends(picture.axes[0].places)}"
