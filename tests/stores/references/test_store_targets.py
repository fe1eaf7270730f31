"""Targets: those in the folder of the references are read, others only with consent."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.errors import InvalidArgument, StoreError, TargetError
from omnizarr.storage import ReferenceStore
from omnizarr.stores import file_root, resolve
from omnizarr.stores.references.store import TargetPlace, Targets
from tests.servers.fixtures import Cloud
from tests.servers.web import Web, running

SECRET = b"not for everybody"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "refs"
    (made / "below").mkdir(parents=True)
    (made / "data.bin").write_bytes(b"0123456789")
    (made / "below" / "more.bin").write_bytes(b"abcdefghij")
    (tmp_path / "secret.bin").write_bytes(SECRET)
    (tmp_path / "refs-not").mkdir()
    (tmp_path / "refs-not" / "x.bin").write_bytes(SECRET)
    return made


def _store(folder: Path, target: str, **options: Any) -> ReferenceStore:
    (folder / "refs.json").write_text(json.dumps({"k": [target, 2, 3]}))
    return ReferenceStore(folder / "refs.json", **options)


@pytest.mark.parametrize(
    "target",
    ["data.bin", "./data.bin", "below/../data.bin", "{}/data.bin", "file://{}/data.bin",
     "file:{}/data.bin", "file://localhost{}/data.bin", "FILE://{}/data.bin", "local://{}/data.bin"],
)  # fmt: skip
def test_a_file_in_the_folder_is_read_however_it_is_written(folder: Path, target: str) -> None:
    assert _store(folder, target.format(folder)).get("k") == b"234"


def test_a_quoted_name_is_unquoted_unless_there_is_a_file_of_that_name(folder: Path) -> None:
    (folder / "a b.bin").write_bytes(b"0123456789")
    assert _store(folder, f"file://{folder}/a%20b.bin").get("k") == b"234"
    (folder / "a%20b.bin").write_bytes(b"9876543210")
    assert _store(folder, f"file://{folder}/a%20b.bin").get("k") == b"765"


@pytest.mark.parametrize(
    "target",
    ["../secret.bin", "below/../../secret.bin", "{}/secret.bin", "file://{}/secret.bin",
     "file:{}/secret.bin", "link.bin", "linked/secret.bin", "../refs-not/x.bin",
     "file://{}/refs/%2e%2e/secret.bin", "local://{}/secret.bin", "/etc/passwd"],
)  # fmt: skip
def test_a_file_outside_is_read_only_with_consent(
    folder: Path, tmp_path: Path, target: str
) -> None:
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    (folder / "linked").symlink_to(tmp_path)
    named = target.format(tmp_path)
    with pytest.raises(StoreError, match="read only with your consent") as error:
        _store(folder, named).get("k")
    assert named in str(error.value)
    assert "allow_targets" in str(error.value)
    for allow in ([tmp_path, "/etc"], True, ["/"], [f"file://{tmp_path}", "file:///etc"]):
        assert len(_store(folder, named, allow_targets=allow).get("k") or b"") == 3
    with oz.configure(allow_targets=[tmp_path, "/etc"]):
        assert len(_store(folder, named).get("k") or b"") == 3
    with pytest.raises(StoreError, match="consent"):
        _store(folder, named, allow_targets=[tmp_path / "refs-n", "/et", "s3://x"]).get("k")


def test_storage_options_carry_the_consent(folder: Path, tmp_path: Path) -> None:
    _store(folder, "../secret.bin")
    where = str(folder / "refs.json")
    options = {"allow_targets": str(tmp_path)}
    assert resolve(where, storage_options=options).get("k") == SECRET[2:5]
    with pytest.raises(StoreError, match="are for URLs"):
        resolve(where, storage_options={"anonymous": True})


@pytest.mark.parametrize(
    "target",
    ["simplecache::file:///x", "zip://a::/x", "sqlite:///x.db", "zip:///x.zip", "data:text,abc",
     "reference:///x", "unix:///run/redis.sock", "file://otherhost/x", "file:relative", "a\0b"],
)  # fmt: skip
def test_what_is_not_a_file_is_refused_even_with_consent(folder: Path, target: str) -> None:
    with pytest.raises(StoreError, match=r"chain|no URL of a file|another host|not the full path"):
        _store(folder, target, allow_targets=True).get("k")


def test_only_regular_files_are_read(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    for name in ("pipe", "below"):
        with pytest.raises(StoreError, match=r"regular file|cannot read|does not exist"):
            _store(folder, name).get("k")
    with pytest.raises(StoreError, match="regular file"):
        _store(folder, "/dev/zero", allow_targets=True).get("k")


def test_a_link_that_takes_the_place_of_a_target_is_not_followed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, locate = _store(folder, "data.bin"), Targets.locate

    def locate_then_swap(targets: Targets, url: str, key: str) -> Any:
        found = locate(targets, url, key)
        (folder / "data.bin").unlink()
        (folder / "data.bin").symlink_to(tmp_path / "secret.bin")
        return found

    for read in (store.get, store.get_versioned, lambda key: store.get_many([(key, None)])):
        (folder / "data.bin").unlink()
        (folder / "data.bin").write_bytes(b"0123456789")
        with monkeypatch.context() as patch:
            patch.setattr(Targets, "locate", locate_then_swap)
            with pytest.raises(TargetError, match="cannot read"):
                read("k")


def test_a_missing_or_shorter_target_is_an_error_not_a_missing_chunk(folder: Path) -> None:
    with pytest.raises(StoreError, match="does not exist"):
        _store(folder, "none.bin").get("k")
    (folder / "data.bin").write_bytes(b"0123")
    with pytest.raises(StoreError, match="only 2 of 3 bytes"):
        _store(folder, "data.bin").get("k")
    (folder / "refs.json").write_text(json.dumps({"k": ["data.bin", 0, 2**62]}))
    with pytest.raises(StoreError, match="only 4 of"):
        ReferenceStore(folder / "refs.json").get("k")


def test_remote_references_read_their_own_folder_and_nothing_else(web: Web, folder: Path) -> None:
    refs = {
        "own": ["data.bin", 2, 3],
        "full": [f"{web.url}/a/data.bin", 2, 3],
        "above": ["../other.bin", 0, 3],
        "other": [f"{web.url}/other.bin", 0, 3],
        "quoted": [f"{web.url}/a/%2e%2e/other.bin", 0, 3],
        "local": [str(folder / "data.bin"), 0, 3],
        "file": [f"file://{folder}/data.bin", 0, 3],
        "host": ["http://169.254.169.254/latest", 0, 3],
        "s3": ["s3://bucket/x", 0, 3],
    }
    web.values = {
        "a/refs.json": json.dumps(refs).encode(),
        "a/data.bin": b"0123456789",
        "other.bin": b"abcdef",
    }
    store = resolve(f"{web.url}/a/refs.json")
    assert store.get("own") == store.get("full") == b"234"
    for key in ("above", "other", "local", "file", "host", "s3"):
        with pytest.raises(StoreError, match="consent"):
            store.get(key)
    with pytest.raises(StoreError, match="empty or"):
        store.get("quoted")
    allowed = resolve(f"{web.url}/a/refs.json", storage_options={"allow_targets": [web.url]})
    assert allowed.get("above") == allowed.get("other") == b"abc"


def test_local_references_read_servers_with_consent_and_options(
    web: Web, s3: Cloud, folder: Path
) -> None:
    web.values = {"deep/data.bin": b"0123456789"}
    url = f"{web.url}/deep/data.bin"
    with pytest.raises(StoreError, match="consent"):
        _store(folder, url).get("k")
    for allow in (web.url, f"{web.url}/deep/", f"{web.url}/deep/data.bin", "http://", True):
        assert _store(folder, url, allow_targets=allow).get("k") == b"234"
    for allow in (f"{web.url}/dee", "https://", "http://127.0.0.2", f"{web.url}0"):
        with pytest.raises(StoreError, match="consent"):
            _store(folder, url, allow_targets=allow).get("k")

    resolve(s3.url, storage_options=s3.options).set("x/y.bin", b"0123456789")
    options = {"allow_targets": [s3.url], "remote_options": {"s3": s3.options}}
    (folder / "refs.json").write_text(
        json.dumps({"k": [f"{s3.url}/x/y.bin", 2, 3], "whole": [f"{s3.url}/x/y.bin"]})
    )
    store = resolve(str(folder / "refs.json"), storage_options=options)
    assert store.get("k") == b"234"
    assert store.get("whole") == b"0123456789"
    with pytest.raises(StoreError, match="does not exist"):
        _store(folder, f"{s3.url}/none", **options).get("k")


def test_a_redirect_needs_the_same_consent_as_a_target(web: Web, folder: Path) -> None:
    with running(Web()) as other:
        other.values = {"secret.bin": SECRET}
        web.values = {"a/data.bin": b"0123456789", "b/data.bin": b"abcdefghij"}
        web.redirects = {
            "a/away": f"{other.url}/secret.bin",
            "a/twice": f"{web.url}/a/away",
            "a/beside": "/b/data.bin",
            "a/below": "data.bin",
        }
        refs = {name: [name, 2, 3] for name in ("data.bin", "away", "twice", "beside", "below")}
        web.values["a/refs.json"] = json.dumps(refs).encode()
        (folder / "refs.json").write_text(
            json.dumps({name: [f"{web.url}/a/{name}", 2, 3] for name in refs})
        )
        # Of the server of the references, and of another one that was allowed.
        for where, allowed in ((f"{web.url}/a/refs.json", []), (folder, [f"{web.url}/a"])):
            path = where if isinstance(where, str) else where / "refs.json"
            store = ReferenceStore(path, allow_targets=allowed)
            assert store.get("data.bin") == store.get("below") == b"234"
            for name in ("away", "twice", "beside"):
                with pytest.raises(TargetError, match="redirects to"):
                    store.get(name)
                with pytest.raises(TargetError, match="redirects to"):
                    store.generation(name)
            assert other.log == []
            more = [*allowed, web.url, f"{other.url}/secret.bin"]
            store = ReferenceStore(path, allow_targets=more)
            assert store.get("away") == store.get("twice") == SECRET[2:5]
            assert store.get("beside") == b"cde"
            other.log.clear()
            store.close()


def test_secrets_in_urls_are_not_shown(folder: Path) -> None:
    with pytest.raises(StoreError, match="consent") as error:
        _store(folder, "https://user:password@host/x?signature=abc").get("k")
    assert "password" not in str(error.value)
    assert "abc" not in str(error.value)


def test_references_in_memory_have_no_folder(folder: Path) -> None:
    with pytest.raises(StoreError, match="in memory"):
        ReferenceStore({"k": ["data.bin", 2, 3]}).get("k")
    made = {"k": [str(folder / "data.bin"), 2, 3], "v": b"inline"}
    with pytest.raises(StoreError, match="consent"):
        ReferenceStore(made).get("k")
    store = ReferenceStore(made, allow_targets=folder)
    assert store.get("k") == b"234"
    assert store.get("v") == b"inline"


def test_wrong_options_are_errors(folder: Path) -> None:
    for options in ({"allow_targets": 3}, {"allow_targets": [3]}, {"allow_targets": {"a": 1}},
                    {"remote_options": {"anonymous": True}}):  # fmt: skip
        with pytest.raises(InvalidArgument):
            _store(folder, "data.bin", **options)


parts = st.sampled_from(["..", ".", "a", "below", "", "%2e%2e", "link", "~", "refs", "secret.bin"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(parts, min_size=1, max_size=6), st.sampled_from(["", "/", "file://", "{}/"]))
def test_no_name_leads_outside(folder: Path, names: list[str], start: str) -> None:
    link = folder / "link"
    if not link.is_symlink():
        link.symlink_to(folder.parent)
    url = start.format(folder) + "/".join(names)
    try:
        store, name = Targets(str(folder)).locate(url, "k")
    except StoreError:
        return
    found = (file_root(store) or Path()) / name
    assert found.resolve().is_relative_to(folder.resolve())


def test_a_place_contains_what_is_below_it() -> None:
    bucket = TargetPlace.of("s3://bucket/a")
    assert bucket.contains(TargetPlace.of("s3a://bucket/a/b?c#d"))
    assert TargetPlace.of("s3://bucket/b?c#d").key == "b?c#d"
    assert not bucket.contains(TargetPlace.of("s3://bucket/ab"))
    assert not bucket.contains(TargetPlace.of("gs://bucket/a/b"))
    assert not bucket.contains(TargetPlace.of("s3://buckets/a/b"))
    assert TargetPlace.of("s3://").contains(bucket)
    assert TargetPlace.of("https://Host/x").contains(TargetPlace.of("https://host/x/%61"))
