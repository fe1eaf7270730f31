"""Samples of what arrays, groups and others look like, and their pictures in docs/look.

``python -m tests.look`` makes the pictures again, with Chromium and Pillow.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import omnizarr as oz

DOCS = Path(__file__).parents[1] / "docs"
WIDTH = 800  # of a card in pixels
COLORS = {"light": "background:#fff;color:#111", "dark": "background:#111318;color:#ddd"}
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")


def samples() -> dict[str, Any]:
    """Return objects by the name of their picture, made in the current folder."""
    root = oz.create_group("ocean.zarr", attributes={"title": "Ocean", "Conventions": "CF-1.11"})
    heat = root.create_array(
        "heat",
        shape=(365, 720, 1440),
        chunks=(30, 180, 360),
        dtype="f4",
        dimension_names=["time", "lat", "lon"],
        attributes={"units": "K", "long_name": "sea surface temperature"},
    )
    heat[:30, :180, :360] = np.arange(30)[:, None, None]
    root.create_array(
        "deep/currents",
        shape=(4, 64, 2048, 2048),
        chunks=(1, 16, 256, 256),
        shards=(1, 32, 1024, 1024),
        dtype="i2",
    )
    root.create_array("deep/depth", data=np.linspace(0, 4000, 64), dimension_names=["depth"])
    root.create_array("reference", data=np.float64(273.15))
    channels = [oz.ome.Channel("DAPI", "0000FF"), oz.ome.Channel("GFP", "00FF00")]
    image = oz.ome.write(
        "cell.ome.zarr",
        np.zeros((2, 8, 256, 256), "u2"),
        axes="czyx",
        scale=(1, 0.5, 0.1, 0.1),
        unit="micrometer",
        levels=2,
        channels=channels,
    )
    return {
        "array": heat.info,
        "sharded": root["deep/currents"],
        "tree": root.tree(),
        "view": heat.view[0],
        "image": image,
        "report": oz.verify("ocean.zarr"),
    }


def page(html: str) -> str:
    """Return a page with HTML in the colours of a light and of a dark notebook."""
    cells = "".join(
        f"<div style='{css};padding:14px;width:{WIDTH}px'>{html}</div>" for css in COLORS.values()
    )
    style = "margin:0;font:13px 'DejaVu Sans',sans-serif"
    start = f"<!doctype html><meta charset='utf-8'><body style='{style}'>"
    return f"{start}<div>{cells}</div>"


def picture(html: str, target: Path) -> None:
    """Make a picture of HTML in a headless browser, cut below what is shown."""
    from PIL import Image, ImageChops

    with tempfile.TemporaryDirectory() as folder:
        source, taken = Path(folder, "page.html"), Path(folder, "page.png")
        source.write_text(page(html))
        size = f"--window-size={WIDTH + 28},1600"
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", size]
        command = [CHROMIUM, *flags, f"--screenshot={taken}", source.as_uri()]
        subprocess.run(command, check=True, capture_output=True)
        image = Image.open(taken).convert("RGB")
    white = Image.new("RGB", image.size, "white")
    box = ImageChops.difference(image, white).getbbox()
    assert box is not None
    cut = image.crop((0, 0, image.width, box[3]))
    cut.quantize(48).save(target, optimize=True)


def main() -> None:
    target = DOCS / "look"
    target.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, item in samples().items():
            html = item._repr_html_()
            if name == "array":  # others are folded, as in a notebook
                html = html.replace("<details>", "<details open='open'>")
            picture(html, target / f"{name}.png")
            print(name, (target / f"{name}.png").stat().st_size, file=sys.stderr)


if __name__ == "__main__":
    main()
