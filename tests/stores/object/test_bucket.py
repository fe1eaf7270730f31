"""Credentials and servers as the clouds' own tools find them."""

from __future__ import annotations

import hashlib
import os
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

import omnizarr as oz
from omnizarr.concurrency.retry import Retry
from omnizarr.stores import resolve
from omnizarr.stores.object.bucket import Bucket
from tests.servers.processes import s3_options
from tests.servers.s3 import SimpleStorage
from tests.servers.web import running


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home directory, and an environment without clouds."""
    for name in os.environ:
        if name.startswith(("AWS_", "AZURE_", "GOOGLE_", "CLOUDSDK_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".aws").mkdir()
    return tmp_path


def config(kind: str, **options: Any) -> dict[str, Any]:
    return Bucket.make(kind, "bucket", options, Retry()).config


def profiles(home: Path) -> None:
    (home / ".aws/config").write_text(
        "[default]\nregion = us-east-1\n"
        "[profile lab]\nregion = eu-west-1\nservices = lab-services\n"
        "[services lab-services]\ns3 =\n  endpoint_url = http://127.0.0.1:9000\n"
    )
    (home / ".aws/credentials").write_text(
        "[default]\naws_access_key_id = A\naws_secret_access_key = a\n"
        "[lab]\naws_access_key_id = B\naws_secret_access_key = b\n"
    )


def test_a_profile_has_keys_region_and_endpoint(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profiles(home)
    lab = {
        "access_key_id": "B",
        "secret_access_key": "b",
        "region": "eu-west-1",
        "endpoint": "http://127.0.0.1:9000",
    }
    assert config("s3")["access_key_id"] == "A"
    assert config("s3", profile="lab") == lab
    monkeypatch.setenv("AWS_PROFILE", "lab")
    assert config("s3") == lab
    assert Bucket.make("s3", "bucket", {}, Retry()).client_options["allow_http"] is True
    monkeypatch.setenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true")
    assert "endpoint" not in config("s3")


@pytest.mark.parametrize("name", ["AWS_REGION", "AWS_DEFAULT_REGION"])
def test_the_region_of_the_environment_comes_before_that_of_a_profile(
    home: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    profiles(home)
    monkeypatch.setenv(name, "ap-south-1")
    assert "region" not in config("s3")  # obstore reads the variable
    assert config("s3", region="us-west-2")["region"] == "us-west-2"


def test_a_profile_that_does_not_exist_is_an_error(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profiles(home)
    with pytest.raises(oz.StoreError, match="no AWS profile 'lap'"):
        config("s3", profile="lap")
    monkeypatch.setenv("AWS_PROFILE", "lap")
    with pytest.raises(oz.StoreError, match="no AWS profile 'lap', which AWS_PROFILE names"):
        config("s3")
    assert "access_key_id" not in config("s3", anonymous=True)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "C")  # which comes first
    assert "access_key_id" not in config("s3")


def test_the_variables_of_the_az_command_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", "acc")
    monkeypatch.setenv("AZURE_STORAGE_KEY", "a2V5")
    assert config("az") == {"account_name": "acc", "account_key": "a2V5"}
    assert config("az", account_name="other")["account_name"] == "other"


def test_a_connection_string_has_account_key_and_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "AZURE_STORAGE_CONNECTION_STRING",
        "DefaultEndpointsProtocol=http;AccountName=acc;AccountKey=a2V5PT0=;"
        "BlobEndpoint=http://127.0.0.1:10000/acc;",
    )
    bucket = Bucket.make("az", "container", {}, Retry())
    assert bucket.config == {
        "account_name": "acc",
        "account_key": "a2V5PT0=",
        "endpoint": "http://127.0.0.1:10000/acc",
    }
    assert bucket.client_options["allow_http"] is True
    monkeypatch.setenv(
        "AZURE_STORAGE_CONNECTION_STRING", "AccountName=acc;SharedAccessSignature=?sv=1&sig=a%3D"
    )
    assert config("az") == {"account_name": "acc", "sas_key": "sv=1&sig=a%3D"}


def test_the_key_file_of_a_google_account_is_left_to_the_client(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of gcloud's default login is used only without the variable."""
    login = home / ".config/gcloud/application_default_credentials.json"
    login.parent.mkdir(parents=True)
    login.write_text("{}")
    assert config("gs") == {"application_credentials": str(login)}
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(home / "key.json"))
    assert config("gs") == {}


@pytest.mark.parametrize(("kind", "setting"), [("s3", "endpoint"), ("gs", "base_url")])
def test_an_endpoint_without_a_scheme_is_completed_and_another_is_refused(
    kind: str, setting: str
) -> None:
    """L7: the client ended in a panic, which is no Exception."""
    assert config(kind, **{setting: "localhost:9000"})[setting] == "http://localhost:9000"
    assert config(kind, **{setting: "https://host/x"})[setting] == "https://host/x"
    for wrong in ("http://", "http://[::1", "http://a b", "ftp://host", "http://host:99999"):
        with pytest.raises(oz.InvalidArgument, match="is not the URL of a server"):
            config(kind, **{setting: wrong})
    with pytest.raises(oz.InvalidArgument, match=r"endpoint '…'"):
        config(kind, **{setting: "ftp://me:secret@host"})


def certificate(folder: Path) -> str:
    """Return the path of a new certificate for the loopback address, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - timedelta(1)).not_valid_after(now + timedelta(1))
    names = [x509.IPAddress(ip_address("127.0.0.1"))]
    signed = made.add_extension(x509.SubjectAlternativeName(names), False).sign(key, SHA256())
    encoding, plain = Encoding.PEM, NoEncryption()
    path = folder / "certificate.pem"
    path.write_bytes(
        signed.public_bytes(encoding) + key.private_bytes(encoding, PrivateFormat.PKCS8, plain)
    )
    return str(path)


@pytest.mark.parametrize("secure", [True, False])
def test_values_are_hashed_for_signatures_without_tls_only(secure: bool, tmp_path: Path) -> None:
    server: Any = SimpleStorage()
    if secure:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate(tmp_path))
        server._server.socket = context.wrap_socket(server._server.socket, server_side=True)
    server.buckets = {"b": {}}
    client = {"allow_invalid_certificates": True} if secure else {}
    with running(server):
        url = server.url.replace("http:", "https:") if secure else server.url
        for options, hashed in (({}, not secure), ({"unsigned_payload": not secure}, secure)):
            server.log.clear()
            given = s3_options(url, client_options=client, **options)
            store = resolve("s3://b/x", storage_options=given)
            store.set("k", b"12345")
            assert store.get("k") == b"12345"
            (_, _, headers), *_ = (each for each in server.log if each[0] == "PUT")
            digest = hashlib.sha256(b"12345").hexdigest()
            assert headers["x-amz-content-sha256"] == (digest if hashed else "UNSIGNED-PAYLOAD")
