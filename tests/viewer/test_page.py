"""The viewer of planes, in a browser: pictures, moving, channels, contrast, values, links."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, BrowserContext, expect

import omnizarr as oz
from tests.viewer.browser import Viewed, context, viewed

PAGE = Path(oz.__file__).parent / "viewer" / "page"


def test_a_plane_is_drawn_with_its_values_as_colours(page: Viewed) -> None:
    page.open("#/plain/ramp?view=100.5,200.5,20&contrast=0,510")
    assert page.color() == (150, 150, 150)  # 300 of 510
    assert page.color(right=60) == (152, 152, 152)
    page.point(right=20, down=-40)
    expect(page.readout.locator(".value")).to_have_text("299")
    expect(page.readout).to_contain_text("axis 0 98")


def test_values_are_exact_when_what_is_drawn_is_not(page: Viewed) -> None:
    page.open("#/plain/ramp?view=100.5,200.5,0.25")  # every fourth pixel is fetched
    page.point()
    expect(page.readout.locator("[data-exact=true]")).to_have_text("300")
    page.open("#/plain/big-integers?view=0.5,0.5,60")  # which JavaScript rounds
    page.page.reload()
    page.wait()
    page.point()
    expect(page.readout.locator(".value")).to_have_text(str(2**60 + 1))


def test_dragging_and_the_wheel_move_and_zoom(page: Viewed) -> None:
    page.open("#/plain/ramp?view=100.5,200.5,20")
    page.point()
    page.page.mouse.down()
    page.point(right=40)
    page.page.mouse.up()
    page.wait_for_link(r"view=100\.5,198\.5,20(&|$)")
    page.page.mouse.wheel(0, -100)
    page.wait_for_link(r"view=100\.\d+,\d+\.\d+,27\.9")
    page.wait()
    page.point(right=41)
    expect(page.readout.locator(".value")).to_have_text("300")


def test_the_level_of_a_pyramid_fits_the_zoom(page: Viewed) -> None:
    page.open("#/cells?view=128,128,4")
    assert paths_of_values(page) == {"cells/0"}
    page.requests.clear()
    page.open("#/cells?view=128,128,0.25")
    page.page.reload()
    page.wait()
    assert paths_of_values(page) == {"cells/2"}


def paths_of_values(page: Viewed) -> set[str]:
    found = [re.search(r"/api/values\?path=([^&]*)", one) for one in page.requests]
    return {match[1].replace("%2F", "/") for match in found if match}


def test_only_what_is_visible_is_fetched(page: Viewed) -> None:
    page.open("#/plain/large?view=256,256,4")
    tiles = [one for one in page.requests if "/api/values" in one]
    assert 1 <= len(tiles) <= 6
    for tile in tiles:
        (select,) = re.findall(r"select=([^&]*)", tile)
        ranges = [part.split("%3A") for part in select.split("%2C")]
        assert all(int(stop) - int(start) <= 1024 and int(stop) <= 1024 for start, stop in ranges)


def test_a_plain_array_is_read_with_a_step_when_it_is_small_on_the_screen(page: Viewed) -> None:
    page.open("#/plain/large")
    tiles = [one for one in page.requests if "/api/values" in one]
    assert tiles
    assert all(re.search(r"%3A(8|16)%2C", one) for one in tiles)


def test_requests_of_what_is_not_visible_any_more_are_cancelled(page: Viewed) -> None:
    page.page.route("**/api/values**", lambda route: None)  # no answer ever comes
    page.page.goto(f"{page.url}#/plain/large?view=256,256,4")
    expect(page.canvas).to_be_visible()
    with page.page.expect_event("requestfailed") as failed:
        page.canvas.focus()
        for _ in range(80):
            page.page.keyboard.press("ArrowRight")
    assert "ABORTED" in str(failed.value.failure)
    page.page.unroute_all(behavior="ignoreErrors")


def test_what_was_fetched_once_is_not_fetched_again(page: Viewed) -> None:
    page.open("#/plain/ramp?view=100.5,200.5,20")
    page.canvas.focus()
    page.page.keyboard.press("ArrowLeft")
    page.page.keyboard.press("ArrowRight")
    page.wait()
    page.requests.clear()
    page.page.keyboard.press("+")
    page.wait_for_link("view=100.5,200.5,30")
    page.wait()
    assert paths_of_values(page) == set()


def test_a_colour_map_can_be_chosen_and_inverted(page: Viewed) -> None:
    page.open("#/plain/ramp?view=0.5,0.5,20&contrast=0,1000")
    assert page.color() == (0, 0, 0)
    page.page.get_by_label("Colours", exact=True).select_option("viridis")
    page.wait()
    assert page.color() == (0x44, 0x01, 0x54)
    page.page.get_by_label("inverted").check()
    page.wait()
    assert page.color() == (0xFD, 0xE7, 0x25)
    page.wait_for_link("map=-viridis")


def test_channels_are_added_in_their_colours(page: Viewed) -> None:
    channels = "FF0000:0:255;0000FF:0:255"
    page.open(f"#/cells?view=100.5,100.5,8&at=0,0,0,0&channels={channels}")
    assert page.color() == (100, 0, 100)
    page.page.get_by_label("Show nuclei").uncheck()
    page.wait()
    assert page.color() == (0, 0, 100)
    page.page.get_by_label("Show walls").uncheck()
    page.page.get_by_label("Show nuclei").check()
    page.page.get_by_label("Colour of nuclei").fill("#00ff00")
    page.wait()
    assert page.color() == (0, 100, 0)
    page.wait_for_link("channels=00FF00:0:255;-0000FF:0:255")


def test_a_photograph_is_shown_in_its_colours(page: Viewed) -> None:
    page.open("#/plain/photograph?view=20.5,30.5,8")
    assert page.color() == (200, 100, 50)
    expect(page.page.locator(".slider")).to_have_count(0)
    expect(page.page.locator(".channels li")).to_have_count(3)


def test_a_slider_moves_along_another_axis_with_its_unit(page: Viewed) -> None:
    page.open("#/cells?view=100.5,100.5,8&at=1,0,0,0&map=gray&contrast=0,2100")
    assert page.color() == (12, 12, 12)
    page.page.get_by_label("z", exact=True).fill("2")
    page.wait()
    assert page.color() == (255, 255, 255)
    expect(page.page.locator(".slider", has_text="z").locator("output")).to_have_text("4 µm")
    page.wait_for_link("at=1,2,0,0")
    page.point()
    expect(page.readout.locator(".value")).to_have_text("2100")
    expect(page.readout).to_contain_text("x 100 50 µm")


def test_contrast_follows_handles_numbers_and_the_button(page: Viewed) -> None:
    page.open("#/plain/ramp?view=100.5,200.5,20&contrast=0,510")
    high = page.page.get_by_label("High end of the contrast")
    high.fill("")  # which changes nothing
    page.page.keyboard.press("Tab")
    expect(high).to_have_value("510")
    high.fill("300")
    page.page.keyboard.press("Tab")
    page.wait_for_link("contrast=0,300")
    page.wait()
    assert page.color() == (255, 255, 255)
    handle = page.page.get_by_role("slider", name="Darkest value")
    handle.focus()
    page.page.keyboard.press("ArrowRight")
    page.wait_for_link(r"contrast=[\d.]*[1-9][\d.]*,300")
    page.page.get_by_role("button", name="Auto").click()
    page.wait_for_link(r"contrast=2\d\d,3\d\d")  # of the visible part, around 300
    bars = page.page.locator(".histogram")
    box = bars.bounding_box()
    assert box is not None
    page.page.mouse.click(box["x"] + box["width"] * 0.75, box["y"] + 20)
    assert int(float(high.input_value())) < 340


SLOW = "const set = setTimeout; window.setTimeout = (act, delay) => set(act, 20 * delay)"


def test_a_contrast_typed_before_the_histogram_is_drawn_counts(page: Viewed) -> None:
    page.page.add_init_script(SLOW)
    page.open("#/plain/ramp?view=100.5,200.5,20&contrast=0,510")
    page.page.get_by_label("High end of the contrast").fill("300")
    page.page.keyboard.press("Tab")
    page.wait_for_link("contrast=0,300")


def test_the_last_change_is_in_a_copied_link_and_in_the_history(page: Viewed) -> None:
    page.page.add_init_script(SLOW)
    page.open("#/plain/ramp?view=100.5,200.5,20")
    page.page.evaluate("navigator.clipboard.writeText = (text) => { window.copied = text; }")
    page.canvas.focus()
    page.page.keyboard.press("+")
    page.page.get_by_role("button", name="Link").click()
    assert "view=100.5,200.5,30" in page.page.evaluate("window.copied")
    page.canvas.focus()
    page.page.keyboard.press("+")
    page.page.get_by_role("treeitem", name="some").click()
    page.wait_for_link("#/plain/some")
    page.page.go_back()
    page.wait_for_link("#/plain/ramp.*view=100.5,200.5,45")


def test_the_node_before_does_not_change_the_address_any_more(page: Viewed) -> None:
    page.open("#/plain/ramp?view=100.5,200.5,20&contrast=0,510")
    page.page.route("**/api/node?path=plain%2Fsome", lambda route: None)  # no answer ever comes
    try:
        with page.page.expect_request("**/api/node?path=plain%2Fsome"):
            page.page.evaluate("location.hash = '#/plain/some'")
        page.requests.clear()
        change = "one => { one.value = 300; one.dispatchEvent(new Event('change')); }"
        page.page.get_by_label("High end of the contrast").evaluate(change)
        page.page.wait_for_timeout(300)  # longer than it takes to write the address
        assert page.page.evaluate("location.hash") == "#/plain/some"
        assert not [one for one in page.requests if "/api/" in one]
    finally:
        page.page.unroute_all(behavior="ignoreErrors")


def test_the_value_is_that_of_the_plane_which_is_drawn(page: Viewed) -> None:
    page.open("#/cells?view=100.5,100.5,8&at=1,0,0,0&map=gray&contrast=0,2100")
    z = page.page.get_by_label("z", exact=True)
    for text in ("2", "0"):  # so that both planes are there
        z.fill(text)
        page.wait()
    page.point()
    expect(page.readout.locator(".value")).to_have_text("100")
    page.canvas.focus()
    z.focus()
    page.canvas.focus()
    page.page.keyboard.press("]")
    page.page.keyboard.press("]")
    expect(page.readout).to_contain_text("z 2")
    expect(page.readout.locator(".value")).to_have_text("2100")


def test_the_focus_stays_when_settings_are_made_anew(page: Viewed) -> None:
    page.open("#/cells")
    page.page.get_by_label("Colours", exact=True).focus()
    for _ in range(2):  # away from the colours of channels, and on
        page.page.keyboard.press("ArrowDown")
    page.wait_for_link("map=(?!channels|gray)")
    assert page.page.evaluate("document.activeElement.ariaLabel") == "Colours"


def test_the_map_of_chunks_follows_the_plane(page: Viewed) -> None:
    page.open("#/cells/0?at=0,0,0,0")
    page.page.get_by_text("Stored chunks").click()
    map_ = page.page.locator("canvas.presence")
    expect(page.page.locator(".presence-section p")).to_contain_text("chunks are stored")
    before = map_.evaluate("one => one.toDataURL()")
    page.page.get_by_label("Down").select_option("z")
    page.page.wait_for_function(
        "before => document.querySelector('canvas.presence').toDataURL() !== before", arg=before
    )


def test_a_damaged_chunk_is_shown_where_it_is(page: Viewed) -> None:
    page.open("#/plain/damaged?view=160.5,224.5,2&contrast=0,1000")
    red, green, _blue = page.color(right=20, down=20)
    assert red > green + 10  # hatched
    page.point(right=20, down=20)
    expect(page.readout.locator(".problem")).to_contain_text("chunk (2, 3)")
    page.point(right=-80)  # its neighbour is there
    expect(page.readout.locator(".value")).to_have_text(str(160 + 184))


def test_a_line_profile_is_drawn_along_a_line(page: Viewed) -> None:
    page.open("#/plain/ramp?view=100,200,4")
    page.page.get_by_role("button", name="Line profile").click()
    page.point(right=-100)
    page.page.mouse.down()
    page.point(right=100)
    page.page.mouse.up()
    expect(page.page.get_by_label("Line profile", exact=True)).to_contain_text("50 pixels")
    page.wait_for_link("line=100,175,100,225")
    page.page.get_by_role("button", name="Remove the line").click()
    expect(page.page.get_by_label("Line profile", exact=True)).to_be_hidden()


def test_the_values_of_a_pixel_are_plotted_along_another_axis(page: Viewed) -> None:
    page.open("#/cells?view=100.5,100.5,8&at=1,1,0,0&map=gray&contrast=0,2100")
    page.page.get_by_role("button", name="Series along another axis").click()
    panel = page.page.get_by_role("region", name="Series")
    expect(panel).to_contain_text("y 50 µm, x 50 µm along")
    page.page.get_by_label("Axis of the series").select_option("z")
    page.wait_for_link("series=100,100,1")
    page.point(right=16)
    page.page.mouse.down()
    page.page.mouse.up()
    page.wait_for_link("series=100,102,1")
    expect(panel).to_have_attribute("data-state", "ready")
    assert any("select=1%2C0%3A3%2C100%2C102" in one for one in page.requests)


def test_a_link_restores_the_view_exactly(page: Viewed, window: BrowserContext, url: str) -> None:
    page.open("#/cells")
    page.page.get_by_label("Show nuclei").uncheck()
    page.page.get_by_label("z", exact=True).fill("2")
    page.canvas.focus()
    for key in ("+", "+", "ArrowDown", "g"):
        page.page.keyboard.press(key)
    page.wait_for_link("grid=1")
    page.wait()
    link = page.page.evaluate("location.hash")
    picture = page.page.evaluate("document.querySelector('canvas.plane').toDataURL()")
    with viewed(window, url) as again:
        again.open(link)
        assert again.page.evaluate("location.hash") == link
        same = again.page.evaluate("document.querySelector('canvas.plane').toDataURL()")
        assert same == picture


def test_an_image_has_a_scale_bar_and_is_saved_as_a_picture(page: Viewed, tmp_path: Path) -> None:
    page.open("#/cells")
    with page.page.expect_download() as saved:
        page.page.get_by_role("button", name="Save the picture").click()
    assert saved.value.suggested_filename == "cells.png"
    saved.value.save_as(tmp_path / "cells.png")
    assert (tmp_path / "cells.png").read_bytes().startswith(b"\x89PNG")
    script = """() => {
        const canvas = document.querySelector("canvas.plane");
        const [x, y] = [canvas.width - 17, canvas.height - 15];
        return [...canvas.getContext("2d").getImageData(x, y, 1, 1).data];
    }"""
    assert page.page.evaluate(script) == [255, 255, 255, 255]


def test_the_page_works_with_keys_alone(page: Viewed) -> None:
    page.open("#/plain")
    press = page.page.keyboard.press
    page.page.get_by_role("treeitem", name="plain").focus()
    press("ArrowRight")
    expect(page.page.get_by_role("treeitem", name="ramp")).to_be_visible()
    for _ in range(20):
        if "ramp" in page.page.evaluate("document.activeElement.textContent"):
            break
        press("ArrowDown")
    press("Enter")
    expect(page.canvas).to_be_visible()
    page.wait()
    for _ in range(40):  # to the picture
        if page.page.evaluate("document.activeElement.tagName") == "CANVAS":
            break
        press("Tab")
    press("+")
    press("Shift+ArrowRight")
    expect(page.readout.locator(".value")).to_have_text("512")
    expect(page.page.get_by_role("status")).to_contain_text("512")
    press("?")
    expect(page.page.get_by_role("dialog", name="Keys")).to_be_visible()
    press("Escape")
    expect(page.page.get_by_role("dialog", name="Keys")).to_be_hidden()


def test_keys_work_without_a_click_on_the_picture(page: Viewed) -> None:
    page.open("#/plain/ramp?view=100.5,200.5,20")
    page.page.keyboard.press("+")
    page.wait_for_link(r"view=100\.5,200\.5,30(&|$)")
    page.page.get_by_role("treeitem", name="ramp").first.focus()
    page.page.keyboard.press("g")
    page.wait_for_link("grid=1")
    page.open("#/plain/long")
    page.page.keyboard.press("+")
    page.wait_for_link("range=")


def test_labels_have_the_colours_that_the_file_states(
    tmp_path: Path, window: BrowserContext
) -> None:
    label = {"colors": [{"label-value": 7, "rgba": [10, 200, 30, 255]}, {"label-value": 8}]}
    attributes = {"ome": {"version": "0.5", "image-label": label}}
    data = np.array([[7, 7, 0], [7, 7, 9]], "u2")
    oz.create_array(tmp_path / "labels.zarr", data=data, attributes=attributes)
    with oz.serving(tmp_path / "labels.zarr") as url, viewed(window, url) as page:
        page.open("#/?view=0.5,0.5,40")
        assert page.color() == (10, 200, 30)


def test_a_map_without_colours_is_shown_in_a_perceptual_one(page: Viewed) -> None:
    page.open("#/ocean/sst")
    page.wait_for_link("map=viridis")
    page.open("#/plain/ramp")
    page.wait_for_link("map=gray")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_white_curve_can_be_seen(chromium: Browser, url: str, scheme: Any) -> None:
    script = """async ([color, back]) => (await import("./page/colors.js")).legible(color, back)"""
    with context(chromium, color_scheme=scheme) as window, viewed(window, url) as page:
        page.open("#/plain/ramp")
        back = page.page.evaluate(
            "getComputedStyle(document.body).getPropertyValue('--back').trim()"
        )
        for color in ("#FFFFFF", "#000000", back, "#FFFF00", "#0000FF"):
            found = page.page.evaluate(script, [color, back])
            lights = [sum(int(c[i : i + 2], 16) for i in (1, 3, 5)) for c in (found, back)]
            assert abs(lights[0] - lights[1]) > 150, (color, found)


def test_a_telephone_shows_everything_below_each_other(chromium: Browser, url: str) -> None:
    size = {"width": 390, "height": 844}
    with (
        context(chromium, viewport=size, has_touch=True, is_mobile=True) as window,
        viewed(window, url) as page,
    ):
        page.open("#/cells")
        assert page.page.evaluate("document.documentElement.scrollWidth") == 390
        expect(page.page.get_by_role("tree")).to_be_hidden()
        page.page.get_by_role("button", name="hierarchy").tap()
        expect(page.page.get_by_role("treeitem", name="ocean")).to_be_visible()
        box = page.canvas.bounding_box()
        assert box is not None
        assert box["width"] == 390
        assert box["height"] > 300


def test_the_page_is_small_and_asks_nobody_else() -> None:
    files = list(PAGE.iterdir())
    assert sum(file.stat().st_size for file in files) <= 200_000
    for file in files:
        for address in re.findall(r"https?://[^\s\"'`)]+", file.read_text()):
            assert address.startswith("http://www.w3.org/")  # names of SVG, not requests


def test_the_page_never_parses_text_as_html() -> None:
    forbidden = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser"
    )
    for file in PAGE.glob("*.js"):
        assert not forbidden.search(file.read_text()), file.name
    document = (PAGE / "index.html").read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', document)
    assert policy is not None
    assert "default-src 'self'" in policy[1]
    assert "unsafe" not in policy[1]


def test_all_modules_are_fetched_at_once() -> None:
    document = (PAGE / "index.html").read_text()
    preloaded = set(re.findall(r'modulepreload" href="page/([^"]*)"', document))
    assert preloaded == {file.name for file in PAGE.glob("*.js")} - {"main.js"}
