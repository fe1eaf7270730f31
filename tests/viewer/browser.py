"""A browser that shows what a server serves, and data to look at."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect, sync_playwright

import omnizarr as oz
from tests.servers.processes import missing

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
HOSTILE = "<img src=x onerror=window.hacked=1>"
PEAK = 1_234_567  # of a long series, which one of many values would not show
PATIENCE = 60_000  # milliseconds, for machines that do much else
expect.set_options(timeout=PATIENCE)


@contextmanager
def browser() -> Iterator[Browser]:
    """Run the machine's Chromium; skip the test where there is none."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        missing("chromium is not installed (apt-get install chromium)")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=program)
        yield found
        found.close()


class Viewed:
    """A page in a browser, with helpers; `check` tells what must never happen."""

    def __init__(self, page: Page, url: str) -> None:
        self.page, self.url = page, url
        self.requests: list[str] = []
        self.errors: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._note)

    def _note(self, message: Any) -> None:
        # The browser itself notes every response with an error, also those that are shown.
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            self.errors.append(message.text)

    def check(self) -> None:
        """Raise if a script failed, or a request went anywhere else than to the server."""
        assert self.errors == []
        outside = [u for u in self.requests if not u.startswith((self.url, "blob:", "data:"))]
        assert outside == []
        assert self.page.evaluate("window.hacked") is None

    def open(self, fragment: str = "#/") -> None:
        """Open a link and wait until it is shown."""
        self.page.goto(f"{self.url}{fragment}")
        self.wait()

    def wait(self) -> None:
        """Wait until everything that is visible has come."""
        expect(self.page.locator("#view")).to_have_attribute("data-state", "ready")
        if self.page.locator(".stage").count():
            expect(self.stage).to_have_attribute("data-state", "ready")

    @property
    def stage(self) -> Locator:
        return self.page.locator(".stage")

    @property
    def canvas(self) -> Locator:
        return self.page.locator(".stage canvas")

    @property
    def readout(self) -> Locator:
        return self.page.locator(".readout")

    def settings(self) -> dict[str, str]:
        """Return the settings of the link, once it is written."""
        text = self.page.evaluate("location.hash")
        return dict(pair.split("=", 1) for pair in text.partition("?")[2].split("&") if pair)

    def wait_for_link(self, pattern: str) -> None:
        """Wait until the link matches a pattern."""
        self.page.wait_for_url(re.compile(pattern))

    def color(self, right: float = 0, down: float = 0) -> tuple[int, int, int]:
        """Return the colour of the picture at a distance from its centre."""
        script = """([right, down]) => {
            const canvas = document.querySelector(".stage canvas");
            const ratio = canvas.width / canvas.clientWidth;
            const [x, y] = [canvas.clientWidth / 2 + right, canvas.clientHeight / 2 + down];
            const context = canvas.getContext("2d");
            return [...context.getImageData(x * ratio, y * ratio, 1, 1).data].slice(0, 3);
        }"""
        red, green, blue = self.page.evaluate(script, [right, down])
        return red, green, blue

    def point(self, right: float = 0, down: float = 0) -> None:
        """Move the mouse to a distance from the centre of the picture."""
        box = self.canvas.bounding_box()
        assert box is not None
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        self.page.mouse.move(x + right, y + down)


@contextmanager
def context(browser: Browser, **options: Any) -> Iterator[BrowserContext]:
    """Open a window with a cache and settings of its own."""
    found = browser.new_context(**{"viewport": {"width": 1100, "height": 700}, **options})
    found.set_default_timeout(PATIENCE)
    try:
        yield found
    finally:
        found.close()


@contextmanager
def viewed(window: BrowserContext, url: str) -> Iterator[Viewed]:
    """Open an empty page, and check it in the end."""
    page = Viewed(window.new_page(), url)
    yield page
    page.check()
    page.page.close()


def make_data(root: Path) -> None:
    """Write a hierarchy with something of everything that the page shows."""
    group = oz.create_group(root, attributes={"title": "sea", "<b>key</b>": f"{HOSTILE}text"})
    _make_image(root)
    _make_climate(root)
    plain = group.create_group("plain")
    ramp = np.add.outer(np.arange(512), np.arange(512)).astype("u2")
    plain.create_array("ramp", data=ramp, chunks=(64, 64))
    plain.create_array("damaged", data=ramp, chunks=(64, 64))
    (root / "plain" / "damaged" / "c" / "2" / "3").write_bytes(b"not a chunk")
    some = plain.create_array("some", shape=(100, 100), dtype="f4", chunks=(10, 10))
    some[10:30, 20:50] = 1.5
    plain.create_array("large", shape=(8192, 8192), dtype="u1", chunks=(256, 256))
    plain.create_array("big-integers", data=np.array([[2**60 + 1, 1], [2, 3]]))
    long = np.sin(np.arange(3_000_000) / 1e5).astype("f4")
    long[PEAK] = 5
    plain.create_array("long", data=long)
    plain.create_array("number", data=np.array(42.5))
    photograph = np.full((40, 60, 4), (200, 100, 50, 0), "u1")
    plain.create_array("photograph", data=photograph, chunks=(20, 20, 4))
    odd = group.create_group("odd")
    odd.create_array("one", data=np.ones((1, 1)))
    odd.create_array("nothing", data=np.full((6, 6), np.nan))
    odd.create_array("infinite", data=np.full((2, 2), np.inf))
    odd.create_array("five", data=np.full((2, 3, 4, 5, 6), 7))
    odd.create_array("row", data=np.full((1, 9000), True))
    odd.create_array("single", data=np.array([3.0]))
    tables = group.create_group("tables")
    tables.create_array("names", data=np.array([f"station {i}" for i in range(250)]))
    records = np.array([(i, i / 2) for i in range(9)], [("id", "i4"), ("height", "f8")])
    tables.create_array("records", data=records)
    hostile = group.create_group(HOSTILE, attributes={"a": f"</script>{HOSTILE}"})
    hostile.create_array(f'">{HOSTILE}', data=np.ones((3, 3)))
    group.create_group("many").create_array("a000", shape=(1,), dtype="u1")
    for i in range(1, 250):
        shutil.copytree(root / "many" / "a000", root / "many" / f"a{i:03}")
    (root / "broken").mkdir()
    (root / "broken" / "zarr.json").write_text('{"zarr_format": 3, "node_type": "array"}')


def _make_image(root: Path) -> None:
    """Write two channels: the first is 100 everywhere, the second grows with the column."""
    data = np.zeros((2, 3, 256, 256), "u2")
    data[0] = 100
    data[1] = np.arange(256)
    data[1] += np.arange(3, dtype="u2")[:, None, None] * 1000
    scale, channels = (1, 2, 0.5, 0.5), ["nuclei", "walls"]
    options: dict[str, Any] = {"levels": 3, "chunks": (1, 1, 64, 64), "channels": channels}
    oz.ome.write(root / "cells", data, axes="czyx", scale=scale, unit="micrometer", **options)


def _make_climate(root: Path) -> None:
    ocean = oz.cf.create(root / "ocean", attributes={"Conventions": "CF-1.8"})
    times = np.arange("2001-01-01", "2001-05-01", dtype="M8[D]").astype("M8[s]")
    axes: dict[str, tuple[Any, str]] = {
        "time": (times, "days since 1970-01-01"),
        "lat": (np.linspace(-85, 85, 18), "degrees_north"),
        "lon": (np.linspace(5, 355, 36), "degrees_east"),
    }
    for name, (values, units) in axes.items():
        attributes = {"units": units}
        ocean.create_variable(name, values, dimensions=[name], attributes=attributes)
    sst = np.broadcast_to(np.linspace(0, 17, 18)[:, None], (len(times), 18, 36)).copy()
    sst[:, 9, 18] = np.nan
    packed = {"scale_factor": 0.01, "_FillValue": -32768, "units": "degC"}
    ocean.create_variable("sst", sst, dimensions=list(axes), dtype="i2", attributes=packed)
    mean = 10 + np.arange(len(times)) / 4
    ocean.create_variable("mean", mean, dimensions=["time"], attributes={"units": "degC"})


if __name__ == "__main__":  # look at the data: python -m tests.viewer.browser FOLDER
    make_data(Path(sys.argv[1]))
    subprocess.run([sys.executable, "-m", "omnizarr", "serve", sys.argv[1]], check=True)
