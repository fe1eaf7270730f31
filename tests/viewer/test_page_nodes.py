"""The page apart from planes: the hierarchy, plots, tables, conventions, hostile names, errors."""

from __future__ import annotations

import re
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.request import urlopen

import numpy as np
from playwright.sync_api import Browser, BrowserContext, expect

import omnizarr as oz
from tests.viewer.browser import HOSTILE, PEAK, Viewed, context, viewed


def test_the_tree_is_fetched_when_it_is_opened(page: Viewed) -> None:
    page.open()
    tree = page.page.get_by_role("tree")
    expect(tree.get_by_role("treeitem", name="plain")).to_be_visible()
    expect(tree.get_by_role("treeitem", name="ramp")).to_have_count(0)
    assert not any("path=plain" in one for one in page.requests)
    tree.get_by_role("treeitem", name="plain").click()
    ramp = tree.get_by_role("treeitem", name="ramp")
    expect(ramp).to_contain_text("512 × 512 uint16")
    expect(ramp).to_contain_text("512 KiB")
    ramp.click()
    expect(page.canvas).to_be_visible()
    expect(page.page.get_by_label("Path of the node")).to_have_text("/plain/ramp")
    page.page.go_back()
    expect(page.page.get_by_role("cell", name="ramp")).to_be_visible()


def test_many_members_come_in_pages(page: Viewed) -> None:
    page.open("#/many")
    tree = page.page.get_by_role("tree")
    tree.get_by_role("treeitem", name="many").focus()
    page.page.keyboard.press("ArrowRight")
    expect(tree.get_by_role("treeitem", name="a199")).to_be_attached()
    expect(tree.get_by_role("treeitem", name="a249")).to_have_count(0)
    tree.get_by_role("treeitem", name="more").click()
    expect(tree.get_by_role("treeitem", name="a249")).to_be_attached()


def test_a_group_shows_pictures_and_a_summary_of_its_members(page: Viewed) -> None:
    page.open("#/plain")
    row = page.page.locator(".members tr", has_text="ramp")
    expect(row.locator("canvas")).to_have_count(1)
    expect(row).to_contain_text("64 × 64")
    expect(page.page.locator(".about")).to_contain_text("arrays,")
    damaged = page.page.locator(".members tr", has_text="damaged")
    expect(damaged).to_contain_text("512 × 512")
    page.open("#/")
    image = page.page.locator(".members tr", has_text="cells")
    expect(image.locator("canvas")).to_have_count(1)


def test_a_link_opens_the_tree_down_to_its_node(page: Viewed) -> None:
    page.open("#/plain/ramp")
    selected = page.page.locator('[role=treeitem][aria-selected="true"]')
    expect(selected).to_contain_text("ramp")


def test_details_show_chunks_codecs_and_attributes(page: Viewed) -> None:
    page.open("#/ocean/sst")
    details = page.page.get_by_label("Details of the node")
    expect(details).to_contain_text("time 120 × lat 18 × lon 36")
    expect(details.get_by_role("img", name="chunks")).to_be_visible()
    expect(details).to_contain_text("scale_factor 0.01")
    details.get_by_text("Codecs", exact=True).click()
    expect(details.get_by_role("listitem").first).to_be_visible()


def test_names_and_attributes_are_text_only(page: Viewed) -> None:
    page.open()
    page.page.get_by_text("Attributes").click()
    item = page.page.get_by_role("treeitem", name=HOSTILE)
    expect(item).to_be_visible()
    item.click()
    link = page.page.get_by_role("cell", name=f'">{HOSTILE}').get_by_role("link")
    expect(link).to_be_visible()
    link.click()
    expect(page.canvas).to_be_visible()
    page.wait()
    expect(page.page).to_have_title(f'{HOSTILE}/">{HOSTILE} · omnizarr')
    assert page.page.locator("img[src=x]").count() == 0
    page.page.reload()
    page.wait()
    assert page.page.evaluate("window.hacked") is None


def test_a_node_that_is_not_understood_says_why(page: Viewed) -> None:
    page.open("#/broken")
    expect(page.page.get_by_role("alert")).to_contain_text("required, but missing")
    page.open("#/not/there")
    expect(page.page.get_by_role("alert")).to_contain_text("no array or group")


def test_a_time_series_is_plotted_over_dates(page: Viewed) -> None:
    page.open("#/ocean/mean")
    page.canvas.focus()
    page.page.keyboard.press("Shift+ArrowRight")  # one after the middle
    expect(page.readout.locator(".value")).to_have_text("25.25 degC")
    expect(page.readout).to_contain_text("time 61 2001-03-03")
    page.page.keyboard.press("+")
    page.wait_for_link(r"range=20,100")
    page.wait()
    expect(page.page.get_by_label("Settings of the view")).to_contain_text("80 of 120 values")
    page.open("#/ocean/time")
    page.canvas.focus()
    page.page.keyboard.press("Shift+ArrowRight")
    expect(page.readout.locator(".value")).to_have_text("2001-03-03 00:00:00")


def test_a_long_series_is_drawn_by_its_extremes_until_it_is_zoomed(page: Viewed) -> None:
    page.open("#/plain/long")
    settings = page.page.get_by_label("Settings of the view")
    expect(settings).to_contain_text("drawn: the least and the greatest of every 512, so that no")
    assert [one for one in page.requests if "extremes=1" in one]
    box = page.canvas.bounding_box()
    assert box is not None
    left, width = 62, box["width"] - 74  # of the line, inside of the axes
    page.point(right=left + width * PEAK / 3_000_000 - box["width"] / 2)
    expect(page.readout.locator(".value")).to_have_text(re.compile(r"^−?0\.\d+ … 5$"))
    expect(page.readout).to_contain_text(re.compile(r"axis 0 12\d{5}–12\d{5}"))
    page.open("#/plain/long?range=1000,2000")
    expect(settings).to_have_text("1 000 of 3 000 000 values".replace(" ", "\u2009"))


def test_dates_of_another_calendar_are_those_of_the_calendar(
    window: BrowserContext, tmp_path: Path
) -> None:
    group = oz.create_group(tmp_path / "model.zarr")
    attributes = {"units": "days since 2001-01-01", "calendar": "360_day"}
    days = np.arange(59.0, 64.0)  # 30 February to 4 March
    group.create_array("time", data=days, dimension_names=["time"], attributes=attributes)
    group.create_array("mean", data=days / 4, dimension_names=["time"])
    with oz.serving(group) as url, viewed(window, url) as page:
        page.open("#/mean?range=0,2")
        page.canvas.focus()
        page.page.keyboard.press("Shift+ArrowLeft")
        expect(page.readout).to_contain_text("time 0 2001-02-30")
        page.open("#/time")  # as numbers, since a plot of dates would have those of the browser
        page.canvas.focus()
        page.page.keyboard.press("Shift+ArrowLeft")
        expect(page.readout.locator(".value")).to_have_text("61 days since 2001-01-01")


def test_packed_values_are_unpacked_and_north_is_up(page: Viewed) -> None:
    page.open("#/ocean/sst?at=3,0,0&view=4.5,10.5,20")
    page.point()
    expect(page.readout.locator(".value")).to_have_text("4 degC")
    expect(page.readout).to_contain_text("lat 4 −45°N")
    expect(page.readout).to_contain_text("time 3 2001-01-04")
    page.point(down=-20)
    expect(page.readout.locator(".value")).to_have_text("5 degC")
    page.open("#/ocean/sst?at=3,0,0&view=9.5,18.5,20")
    page.page.reload()
    page.wait()
    page.point()
    expect(page.readout.locator(".value")).to_have_text("NaN degC")


def test_strings_and_records_are_tables_in_pages(page: Viewed) -> None:
    page.open("#/tables/names")
    expect(page.page.get_by_role("cell", name="station 99")).to_be_visible()
    page.page.get_by_role("button", name="Next rows").click()
    expect(page.page.get_by_role("cell", name="station 100")).to_be_visible()
    page.wait_for_link("at=100")
    page.page.reload()
    expect(page.page.get_by_role("cell", name="station 100")).to_be_visible()
    page.open("#/tables/records")
    expect(page.page.get_by_role("columnheader", name="height")).to_be_visible()
    expect(page.page.get_by_role("row", name="5 5 2.5")).to_be_visible()


def test_the_pager_of_a_table_keeps_the_focus_and_what_is_typed(page: Viewed) -> None:
    page.open("#/tables/names")
    page.page.get_by_role("button", name="Next rows").focus()
    page.page.keyboard.press("Enter")
    page.page.keyboard.press("Enter")  # perhaps before the rows of the first have come
    page.wait_for_link("at=200")
    expect(page.page.get_by_role("cell", name="station 249")).to_be_visible()
    page.page.keyboard.press("Enter")  # there are no more
    expect(page.page.get_by_role("spinbutton", name="row")).to_have_value("200")
    row = page.page.get_by_role("spinbutton", name="row")
    page.page.get_by_role("button", name="Previous rows").click()
    row.fill("30")  # while values come, or not
    expect(page.page.get_by_role("cell", name="station 199")).to_be_visible()
    expect(row).to_have_value("30")
    row.press("Enter")
    page.wait_for_link("at=30")
    row.fill("")
    row.press("Enter")
    expect(row).to_have_value("30")


def test_a_second_click_does_not_load_members_twice(page: Viewed) -> None:
    page.open("#/many")
    page.page.get_by_role("button", name="More").evaluate("one => (one.click(), one.click())")
    expect(page.page.get_by_role("cell", name="a249")).to_be_attached()
    expect(page.page.locator(".members tbody tr")).to_have_count(250)


def test_odd_arrays_are_shown(page: Viewed) -> None:
    values = {"one": "1", "nothing": "NaN", "infinite": "∞", "five": "7", "row": "1", "single": "3"}
    for name, value in values.items():
        page.page.goto("about:blank")
        page.open(f"#/odd/{name}")
        page.point(right=1, down=1)
        expect(page.readout.locator(".value")).to_have_text(value)
    page.open("#/plain/number")
    expect(page.page.get_by_label("Data").locator("output")).to_have_text("42.5")


def test_dark_and_light_can_be_chosen_and_are_kept(page: Viewed) -> None:
    page.open()
    page.page.evaluate("localStorage.clear()")
    back = "getComputedStyle(document.body).backgroundColor"
    light = page.page.evaluate(back)
    button = page.page.get_by_role("button", name="Colours: system")
    button.click()
    page.page.get_by_role("button", name="Colours: light").click()
    dark = page.page.evaluate(back)
    assert dark != light
    page.page.reload()
    expect(page.page.get_by_role("button", name="Colours: dark")).to_be_visible()
    assert page.page.evaluate(back) == dark
    page.page.evaluate("localStorage.clear()")


def test_a_server_that_is_busy_is_asked_again(page: Viewed) -> None:
    asked: list[str] = []

    def answer(route: object) -> None:
        asked.append("")
        if len(asked) == 1:
            route.fulfill(status=503, json={"error": "busy"})  # type: ignore[attr-defined]
        else:
            route.continue_()  # type: ignore[attr-defined]

    page.page.route("**/api/values**", answer)
    page.open("#/plain/some?view=15.5,25.5,40&contrast=0,3")
    assert len(asked) >= 2
    assert page.color() == (128, 128, 128)


def test_a_token_is_needed_once(chromium: Browser, root: Path) -> None:
    with (
        oz.serving(root, token="secret") as url,
        context(chromium) as window,
        viewed(window, url) as page,
    ):
        assert page.page.goto(url).status == 401
        page.page.goto(f"{url}?token=secret#/plain/ramp")
        page.wait()
        expect(page.canvas).to_be_visible()
        assert "secret" not in page.page.url


def test_a_notebook_of_another_origin_shows_the_page(
    window: BrowserContext, root: Path, tmp_path: Path
) -> None:
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with oz.serving(root) as url, ThreadingHTTPServer(("127.0.0.1", 0), handler) as notebook:
        (tmp_path / "index.html").write_text(f"<iframe src='{url}' width=900 height=600>")
        Thread(target=notebook.serve_forever).start()
        try:
            page = window.new_page()
            page.goto(f"http://127.0.0.1:{notebook.server_port}/")
            frame = page.frame_locator("iframe")
            expect(frame.get_by_role("treeitem", name="ocean")).to_be_visible()
            page.close()
        finally:
            notebook.shutdown()


def test_only_named_origins_show_the_page(root: Path) -> None:
    with oz.serving(root, origins=["https://example.org"]) as url, urlopen(url) as answer:
        policy = answer.headers["content-security-policy"]
        assert policy.endswith("frame-ancestors 'self' https://example.org")
