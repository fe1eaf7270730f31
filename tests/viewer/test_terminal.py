"""Pictures in terminals: what is sent decodes to the same pixels."""

from __future__ import annotations

import base64
import re
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import omnizarr as oz
from omnizarr import InvalidArgument
from omnizarr.viewer import terminal
from omnizarr.viewer.terminal import draw


def drawn(array: oz.Array, protocol: terminal.Protocol) -> str:
    return draw(array, protocol=protocol)[1]


PIXELS = arrays("u1", st.tuples(st.integers(1, 14), st.integers(1, 20), st.just(3)))


@given(PIXELS)
def test_kitty_gets_the_pixels_in_pieces(image: np.ndarray) -> None:
    sent = re.findall("\x1b_G([^;]*);([^\x1b]*)\x1b\\\\", terminal.kitty(image))
    data = zlib.decompress(base64.b64decode("".join(piece for _, piece in sent)))
    assert np.array_equal(np.frombuffer(data, "u1").reshape(image.shape), image)
    assert f"s={image.shape[1]},v={image.shape[0]}," in sent[0][0]
    assert [keys[-3:] for keys, _ in sent] == ["m=1"] * (len(sent) - 1) + ["m=0"]


def test_large_pictures_are_sent_to_kitty_in_several_pieces() -> None:
    image = np.random.default_rng(0).integers(0, 256, (100, 100, 3), "u1")
    assert terminal.kitty(image).count("\x1b_G") > 2


def decode_sixels(text: str) -> np.ndarray:
    """Return the pixels of a sixel picture."""
    size, body = re.fullmatch('\x1bPq"1;1;([0-9;]+)(#.*)\x1b\\\\', text, re.DOTALL).groups()  # type: ignore[union-attr]
    width, height = map(int, size.split(";"))
    palette = {
        int(n): [int(c) for c in rgb] for n, *rgb in re.findall(r"#(\d+);2;(\d+);(\d+);(\d+)", body)
    }
    drawn = re.sub(r"#\d+;2;\d+;\d+;\d+", "", body)
    image = np.full((height, width, 3), -1)
    for band, line in enumerate(drawn.split("-")):
        for part in line.split("$"):
            number, codes = re.fullmatch(r"#(\d+)(.*)", part).groups()  # type: ignore[union-attr]
            column = 0
            for count, code in re.findall(r"(?:!(\d+))?([?-~])", codes):
                for _ in range(int(count or 1)):
                    for bit in range(6):
                        if (ord(code) - 63) >> bit & 1:
                            image[band * 6 + bit, column] = palette[int(number)]
                    column += 1
            assert column == width
    return image


@given(PIXELS)
def test_sixels_show_every_pixel_in_the_nearest_colour(image: np.ndarray) -> None:
    found = decode_sixels(terminal.sixel(image))
    assert (found >= 0).all()
    assert np.abs(found / 100 * 255 - image).max() <= 255 / 10 + 2


@given(PIXELS)
def test_half_blocks_show_two_rows_in_a_line(image: np.ndarray) -> None:
    lines = [*terminal.half_blocks(image)]
    assert len(lines) == -(-len(image) // 2)
    for number, line in enumerate(lines):
        upper = re.findall(r"38;2;(\d+);(\d+);(\d+)m", line)
        lower = re.findall(r"48;2;(\d+);(\d+);(\d+)m", line)
        assert np.array_equal(np.array(upper, int), image[2 * number])
        assert np.array_equal(np.array(lower, int), image[min(2 * number + 1, len(image) - 1)])
        assert line.endswith("\x1b[0m")


def test_plain_characters_are_darker_for_smaller_values() -> None:
    image = np.repeat(np.arange(0, 256, 5, dtype="u1"), 3).reshape(1, -1, 3)
    (line,) = terminal.shades(image)
    places = [terminal._SHADES.index(c) for c in line]
    assert places == sorted(places)
    assert (places[0], places[-1]) == (0, len(terminal._SHADES) - 1)


def test_names_cannot_control_the_terminal() -> None:
    array = oz.create_group(None).create_array(
        "a", data=np.zeros((3, 3)), dimension_names=["\x1b[2J", "x"], attributes={"units": "\x07"}
    )
    assert "\x1b" not in drawn(array, protocol="plain")
    assert "\x07" not in drawn(array, protocol="plain")
    texts = oz.create_array(None, data=np.array(["\x1b]0;x\x07"]))
    assert "\x1b" not in drawn(texts, protocol="plain")


def test_plots_have_bars_from_the_smallest_to_the_largest_value() -> None:
    lines = drawn(oz.create_array(None, data=np.arange(16.0)), protocol="plain")
    rows = lines.splitlines()
    assert rows[1] == "15"
    assert rows[-2] == "0"
    assert [row.count("█") for row in rows[2:-2]] == sorted(row.count("█") for row in rows[2:-2])
    nothing = oz.create_array(None, data=np.full(5, np.nan))
    assert "no finite values" in drawn(nothing, protocol="plain")


@pytest.mark.parametrize("protocol", terminal.PROTOCOLS)
def test_every_protocol_shows_every_kind(protocol: terminal.Protocol) -> None:
    for data in (np.zeros((2, 50, 40)), np.arange(4), np.array(["x"]), np.array(True)):
        assert drawn(oz.create_array(None, data=data), protocol=protocol)


def test_an_unknown_protocol_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="unknown protocol 'ascii'; known: kitty"):
        drawn(oz.create_array(None, data=np.zeros((2, 2))), protocol="ascii")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"\x1b[?62;4;22c", True),
        (b"\x1b[?62;4c", True),
        (b"\x1b[?64;1;2;6c", False),
        (b"\x1b[?4c", False),
        (b"", False),
    ],
)
def test_the_answer_of_a_terminal_is_understood(answer: bytes, expected: bool) -> None:
    assert terminal.has_sixel_ability(answer) is expected


def test_without_a_terminal_there_are_no_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    assert terminal.supported_protocol() == "plain"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm-kitty")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert terminal.supported_protocol() == "kitty"
    monkeypatch.setenv("NO_COLOR", "1")
    assert terminal.supported_protocol() == "plain"
