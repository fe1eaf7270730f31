"""A folder of hierarchies: each below its path, in every view, and nothing else of the folder."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from playwright.sync_api import BrowserContext, expect

import omnizarr as oz
from omnizarr.stores.wrappers import PrefixStore
from omnizarr.viewer import folder
from tests.viewer.browser import viewed
from tests.viewer.conftest import client_of, raw_get
from tests.viewer.test_keys import HOSTILE

DATA = np.arange(20.0).reshape(4, 5)


def make_lake(root: Path) -> Path:
    """Write hierarchies of every format, a ZIP file, and what is none of them."""
    oz.create_array(root / "a.zarr", data=DATA)
    group = oz.create_group(root / "more" / "b.zarr", zarr_format=2)
    group.create_array("t", data=DATA, chunks=(2, 5))
    with oz.storage.ZipStore(root / "more" / "d.zip", mode="w") as archive:
        oz.create_group(archive, zarr_format=3).create_array(
            "x/t", data=DATA, dimension_names=["y", "x"]
        )
        oz.create_array(archive, path="x/x", data=np.arange(5.0), dimension_names=["x"])
    (root / "notes.txt").write_text("secret")
    (root / "more" / "key").write_text("secret")
    (root / "empty").mkdir()
    return root


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_lake(tmp_path_factory.mktemp("top") / "lake")


@pytest.fixture(scope="module")
def client(lake: Path) -> Iterator[httpx.Client]:
    with client_of(lake) as client:
        yield client


def _members(client: httpx.Client, path: str = "") -> Any:
    return client.get("api/members", params={"path": path}).raise_for_status().json()["members"]


def test_members_are_hierarchies_and_folders(client: httpx.Client) -> None:
    found = [(m["name"], m["kind"]) for m in _members(client)]
    assert found == [("a.zarr", "array"), ("empty", "folder"), ("more", "folder")]
    found = [(m["path"], m["kind"], m["zarr_format"]) for m in _members(client, "more")]
    assert found == [
        ("more/b.zarr", "group", 2),
        ("more/d.zip", "group", 3),
    ]
    assert _members(client, "empty") == []
    assert [m["path"] for m in _members(client, "more/d.zip/x")] == [
        "more/d.zip/x/t",
        "more/d.zip/x/x",
    ]
    page = client.get("api/members", params={"offset": 1, "limit": 1}).json()
    assert ([m["name"] for m in page["members"]], page["next"]) == (["empty"], 2)


def test_every_path_of_a_description_is_one_of_the_folder(client: httpx.Client) -> None:
    def describe(path: str) -> Any:
        return client.get("api/node", params={"path": path}).raise_for_status().json()

    root = describe("")
    assert (root["kind"], root["display"]["kind"]) == ("folder", "none")
    node = describe("more/d.zip/x/t")
    assert (node["path"], node["info"][0]) == ("more/d.zip/x/t", ["path", "/more/d.zip/x/t"])
    assert [level["path"] for level in node["display"]["levels"]] == ["more/d.zip/x/t"]
    coordinates = [axis["coordinate"] for axis in node["display"]["axes"]]
    assert coordinates == [None, "more/d.zip/x/x"]
    assert describe("more/d.zip")["name"] == "d.zip"
    assert client.get("api/node", params={"path": "none"}).status_code == 404


@pytest.mark.parametrize("path", ["a.zarr", "more/b.zarr/t", "more/d.zip/x/t"])
def test_values_and_chunks_of_each_are_served(client: httpx.Client, path: str) -> None:
    params = {"path": path, "select": "1:3,0:5"}
    answer = client.get("api/values", params=params).raise_for_status()
    np.testing.assert_array_equal(np.frombuffer(answer.content).reshape(2, 5), DATA[1:3])
    assert client.get("api/chunks", params={"path": path}).status_code == 200


@pytest.mark.parametrize("view", ["v2", "v3"])
@pytest.mark.parametrize("path", ["a.zarr", "more/b.zarr", "more/d.zip"])
def test_programs_open_each_in_both_views(client: httpx.Client, view: str, path: str) -> None:
    # A store, since a URL with this ending is taken for that of a ZIP file.
    found = oz.open(oz.storage.HTTPStore(f"{client.base_url}{view}/{path}"))
    assert found.zarr_format == int(view[1])
    if path == "a.zarr":
        np.testing.assert_array_equal(found[:], DATA)
    else:
        np.testing.assert_array_equal(found["t" if path == "more/b.zarr" else "x/t"][:], DATA)


def test_stored_keys_of_each_are_below_its_path(client: httpx.Client, lake: Path) -> None:
    for key in ("a.zarr/zarr.json", "more/b.zarr/t/.zarray", "more/b.zarr/t/0.0", "more/d.zip"):
        answer = client.get(f"store/{key}").raise_for_status()
        assert answer.content == (lake / key).read_bytes()
        assert answer.headers["etag"]
    inside = client.get("store/more/d.zip/x/t/zarr.json").json()
    assert inside["shape"] == [4, 5]
    np.testing.assert_array_equal(oz.open(f"{client.base_url}store/a.zarr")[:], DATA)
    np.testing.assert_array_equal(oz.open(f"{client.base_url}store/more/d.zip")["x/t"][:], DATA)


@pytest.mark.parametrize("key", ["notes.txt", "more/key", "more", "empty/x", "none/zarr.json"])
@pytest.mark.parametrize("start", ["store", "v2", "v3"])
def test_other_files_of_the_folder_are_not_served(
    client: httpx.Client, start: str, key: str
) -> None:
    answer = client.get(f"{start}/{key}")
    assert answer.status_code == 404
    assert set(answer.json()) == {"error"}
    assert "secret" not in answer.text


@pytest.mark.parametrize("start", [b"/store/", b"/v3/", b"/store/a.zarr/", b"/v2/more/d.zip/"])
def test_no_path_leads_outside(client: httpx.Client, start: bytes) -> None:
    for target in HOSTILE:
        status, body = raw_get(client, start + target)
        assert status in (400, 404), (target, body)
        assert set(json.loads(body)) == {"error"}
        assert str(Path.cwd()).encode() not in body
    deep = client.get("store/" + "a/" * 2000 + "zarr.json")
    assert deep.status_code == 404


def test_links_out_of_the_folder_are_listed_and_not_followed(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    oz.create_array(lake / "a.zarr", data=DATA)
    oz.create_array(tmp_path / "secret.zarr", data=DATA)
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "file").write_text("secret")
    (lake / "out.zarr").symlink_to(tmp_path / "secret.zarr")
    (lake / "out").symlink_to(tmp_path)
    (lake / "again.zarr").symlink_to(lake / "a.zarr")
    oz.create_array(lake / "more" / "a.zarr", data=DATA)
    (lake / "up").symlink_to(lake / "more")
    with client_of(lake) as client:
        found = {m["name"]: m for m in _members(client)}
        kinds = {name: member["kind"] for name, member in found.items()}
        assert kinds == dict.fromkeys(("out", "out.zarr", "up"), "error") | dict.fromkeys(
            ("a.zarr", "again.zarr"), "array"
        ) | {"more": "folder"}
        assert "leads out of the folder" in found["out.zarr"]["error"]
        assert str(tmp_path) not in json.dumps(found)
        for path in ("out.zarr", "out/secret.zarr", "out/lake/a.zarr", "up/a.zarr", "out"):
            assert client.get(f"store/{path}/zarr.json").status_code == 404
            assert client.get(f"v3/{path}/zarr.json").status_code == 404
            params = {"path": path, "select": "0,0"}
            assert client.get("api/values", params=params).status_code == 404
        assert client.get("store/out/beside/file").status_code == 404
        assert client.get("api/members", params={"path": "out/beside"}).status_code == 404
        assert client.get("v3/again.zarr/zarr.json").status_code == 200


def _linked(root: Path, outside: Path) -> Any:
    """Write a hierarchy with links of every kind that lead out of it, and one that does not."""
    group = oz.create_group(root)
    for name in ("chunk", "shard", "folder", "inner", "plain"):
        shards = {"shards": (4, 2)} if name == "shard" else {}
        group.create_array(name, data=np.arange(16).reshape(4, 4), chunks=(2, 2), **shards)
    oz.create_array(outside / "member", data=np.arange(16).reshape(4, 4), chunks=(2, 2))
    for path in ("chunk/c/0/0", "shard/c/0/0", "folder/c/1"):
        target = outside / path
        target.parent.mkdir(parents=True, exist_ok=True)
        (root / path).rename(target)
        (root / path).symlink_to(target)
    (root / "inner/c/0").rename(root / "moved")
    (root / "inner/c/0").symlink_to(root / "moved")
    (root / "member").symlink_to(outside / "member")
    (outside / "file").write_text("secret")
    (root / "file").symlink_to(outside / "file")
    return group


def test_links_in_a_hierarchy_do_not_lead_out_of_it(tmp_path: Path) -> None:
    root, outside = tmp_path / "lake" / "a.zarr", tmp_path / "outside"
    _linked(root, outside)
    everything = {"select": "0:4,0:4"}
    inside = ("plain", "inner")
    closed = {"chunk": "chunk/c/0/0", "shard": "shard/c/0/0", "folder": "folder/c/1/0"}
    for served, start in ((root, ""), (tmp_path / "lake", "a.zarr/")):
        for follow in (False, True):
            with client_of(served, follow_links=follow) as client:
                for name in inside:
                    for view in ("store", "v3"):
                        assert client.get(f"{view}/{start}{name}/c/0/0").status_code == 200
                    params = {"path": start + name, **everything}
                    assert client.get("api/values", params=params).status_code == 200
                for name, key in closed.items():
                    status = 200 if follow else 403
                    assert client.get(f"store/{start}{key}").status_code == status
                    assert client.get(f"v3/{start}{key}").status_code == status
                    params = {"path": start + name, **everything}
                    answer = client.get("api/values", params=params)
                    assert answer.status_code == status
                    assert "-1" not in answer.text
                    assert follow or "--follow-links" in answer.json()["error"]
                    assert str(tmp_path) not in answer.text
                    extremes = {"path": start + name, "select": "0:4:4,0", "extremes": "1"}
                    found = client.get("api/values", params={**extremes}).status_code
                    assert found == (403 if key.endswith("0/0") and not follow else found)
                    chunks = client.get("api/chunks", params={"path": start + name})
                    assert chunks.status_code == (status if name == "shard" else 200)
                answer = client.get(f"store/{start}file")
                assert (answer.status_code, "secret" in answer.text) == (status, follow)
                for route in ("node", "values", "members"):
                    params = {"path": f"{start}member", **everything}
                    assert client.get(f"api/{route}", params=params).status_code == status
                found = {m["name"]: m["kind"] for m in _members(client, start.rstrip("/"))}
                member = "array" if follow else "error"
                assert found == {**dict.fromkeys((*inside, *closed), "array"), "member": member}


def test_what_comes_later_is_found_and_a_new_archive_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "SECONDS", 0.0)
    (tmp_path / "more").mkdir()
    for number in (1, 2):
        with oz.storage.ZipStore(tmp_path / "new.zip", mode="w") as archive:
            oz.save(archive, np.full(3, number))
        os.replace(tmp_path / "new.zip", tmp_path / "b.zip")
        if number == 1:
            running = client_of(tmp_path)
            client = running.__enter__()
        params = {"path": "b.zip", "select": "0:3"}
        assert np.frombuffer(client.get("api/values", params=params).content)[0] == number
    assert client.get("v3/more/c.zarr/zarr.json").status_code == 404
    oz.create_group(tmp_path / "more" / "c.zarr")
    assert client.get("v3/more/c.zarr/zarr.json").status_code == 200
    running.__exit__(None, None, None)


def test_a_folder_may_be_in_any_store_that_lists(lake: Path) -> None:
    store = oz.storage.MemoryStore()
    for file in filter(Path.is_file, lake.rglob("*")):
        store.set(f"top/{file.relative_to(lake)}", file.read_bytes())
    with client_of(PrefixStore(store, "top/")) as client:
        assert [m["name"] for m in _members(client)] == ["a.zarr", "more"]
        found = oz.open(f"{client.base_url}v2/more/d.zip/x/t")
        np.testing.assert_array_equal(found[:], DATA)
        assert client.get("store/notes.txt").status_code == 404


def test_the_page_shows_each_hierarchy_of_a_folder(window: BrowserContext, lake: Path) -> None:
    with oz.serving(lake) as url, viewed(window, url) as page:
        page.open()
        tree = page.page.get_by_role("tree")
        tree.get_by_role("treeitem", name="more").click()
        expect(tree.get_by_role("treeitem", name="b.zarr")).to_contain_text("group, Zarr 2")
        link = page.page.get_by_role("cell", name="d.zip").get_by_role("link")
        link.click()
        page.wait_for_link("#/more/d.zip")
        page.page.get_by_role("cell", name="x").get_by_role("link").click()
        page.page.get_by_role("cell", name="t").get_by_role("link").click()
        expect(page.canvas).to_be_visible()
        page.wait()
        page.point()
        expect(page.readout).to_contain_text("x 2")
        details = page.page.get_by_label("Details of the node")
        details.get_by_text("Addresses").click()
        expect(details).to_contain_text(f"{url}v3/more/d.zip/x/t")
