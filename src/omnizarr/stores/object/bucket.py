"""Buckets and containers of clouds, as data that can be pickled, and the credentials for them."""

from __future__ import annotations

import configparser
import hashlib
import hmac
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, urlsplit
from urllib.request import getproxies

from omnizarr.concurrency.cache import Key, typed_key
from omnizarr.concurrency.retry import Retry
from omnizarr.errors import InvalidArgument, MissingModule, StoreError, descriptor_shortage
from omnizarr.stores import identity
from omnizarr.stores.base import redact_urls
from omnizarr.stores.object import obstore as obstore_library

# Options that are credentials; obstore reads the variables that have their names.
_CREDENTIALS = {
    "s3": (
        *("access_key_id", "web_identity_token_file"),
        *("container_credentials_relative_uri", "container_credentials_full_uri"),
    ),
    "gs": (
        *("service_account", "service_account_path", "service_account_key"),
        *("application_credentials", "bearer_token"),
    ),
    "az": (
        *("account_key", "access_key", "key", "sas_key", "sas_token", "token", "client_secret"),
        *("federated_token_file", "connection_string", "msi_endpoint", "identity_endpoint"),
    ),
}
# The beginnings of their variables, and of longer names of options.
_PREFIXES = {"s3": ("aws_",), "gs": ("google_",), "az": ("azure_storage_", "azure_")}
# Variables that name another server than the cloud's own, in order of precedence; obstore reads
# most of them, but plain HTTP has to be allowed here.
_ENDPOINT_VARIABLES = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "gs": ("GOOGLE_BASE_URL", "STORAGE_EMULATOR_HOST"),
    "az": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
}


@dataclass(frozen=True, slots=True)
class BotoCredentials:
    """Credentials that botocore finds for a profile: single sign-on, roles, processes."""

    profile: str

    def __call__(self) -> dict[str, Any]:
        from botocore.session import Session  # noqa: PLC0415 - optional

        found = Session(profile=self.profile).get_credentials()
        if found is None:
            raise StoreError(f"botocore finds no credentials for the AWS profile {self.profile!r}")
        keys = found.get_frozen_credentials()
        return {
            "access_key_id": keys.access_key,
            "secret_access_key": keys.secret_key,
            "token": keys.token,
            "expires_at": getattr(found, "_expiry_time", None),
        }


def find_credentials(kind: str, options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return further options with which obstore uses credentials, or None if there are none."""
    names = _CREDENTIALS[kind]
    if any(options.get(name) for name in (*names, "credential_provider")):
        return {}
    variables = [f"{prefix}{name}".upper() for prefix in _PREFIXES[kind] for name in names]
    if "profile" not in options and any(map(os.environ.get, [*variables, "IDENTITY_ENDPOINT"])):
        return {}
    if kind == "s3":
        return _aws_profile(options.get("profile"))
    if kind == "gs":
        folder = os.environ.get("CLOUDSDK_CONFIG") or Path.home() / ".config" / "gcloud"
        path = Path(folder) / "application_default_credentials.json"
        return {"application_credentials": str(path)} if path.is_file() else None
    folder = os.environ.get("AZURE_CONFIG_DIR") or Path.home() / ".azure"
    login = Path(folder) / "azureProfile.json"
    return {"use_azure_cli": True} if login.is_file() else None


def endpoint(kind: str, profile: str | None) -> str | None:
    """Return the server that the environment or the AWS configuration names, if any."""
    ignored = os.environ.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "").lower() == "true"
    if kind == "s3" and ignored:
        return None
    for name in _ENDPOINT_VARIABLES[kind]:
        found = os.environ.get(name)
        if found:
            return found
    return _aws_sections(profile)[1].get("endpoint_url") if kind == "s3" else None


def server_url(given: str) -> str:
    """Return the URL of a server, completed to HTTP; raise for others, where the client panics."""
    text = given.strip()
    text = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(text)
        valid = parts.scheme.lower() in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        valid = False
    if not valid or re.search(r"\s", text):
        shown = text if "@" not in text else "…"
        raise InvalidArgument(
            f"the endpoint {shown!r} is not the URL of a server; write http://host:port, or"
            " https://host"
        )
    return text


def azure_environment() -> dict[str, Any]:
    """Return the options in variables of Azure's own tools that obstore does not read."""
    text = os.environ.get("AZURE_STORAGE_CONNECTION_STRING", "")
    parts = dict(p.split("=", 1) for p in text.split(";") if "=" in p)
    found = {
        "account_name": parts.get("AccountName") or os.environ.get("AZURE_STORAGE_ACCOUNT"),
        "account_key": parts.get("AccountKey") or os.environ.get("AZURE_STORAGE_KEY"),
        "sas_key": parts.get("SharedAccessSignature", "").lstrip("?"),
        "endpoint": parts.get("BlobEndpoint"),
    }
    return {name: value for name, value in found.items() if value}


def _aws_sections(profile: str | None) -> tuple[str, dict[str, str]]:
    """Return the name of the AWS profile, and its settings in the two configuration files."""
    name = profile or os.environ.get("AWS_PROFILE") or "default"
    home = Path.home() / ".aws"
    merged: dict[str, str] = {}
    for variable, default, section in (
        ("AWS_CONFIG_FILE", home / "config", name if name == "default" else f"profile {name}"),
        ("AWS_SHARED_CREDENTIALS_FILE", home / "credentials", name),
    ):
        parser = configparser.RawConfigParser()
        path = Path(os.environ.get(variable) or default).expanduser()
        try:
            with path.open() as file:
                parser.read_file(file)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError):
            continue  # this user has no such file
        except (OSError, UnicodeDecodeError, configparser.Error) as e:
            raise StoreError(f"cannot read the AWS settings {str(path)!r}: {e}") from e
        if parser.has_section(section):
            merged |= _with_services(parser, dict(parser[section]))
    if profile and not merged:
        raise StoreError(f"there is no AWS profile {profile!r} in {str(home)!r}")
    return name, merged


def _with_services(parser: configparser.RawConfigParser, section: dict[str, str]) -> dict[str, str]:
    """Return a profile with the endpoint for S3 of its section ``[services NAME]``."""
    services = f"services {section.get('services', '')}"
    if parser.has_option(services, "s3"):
        for line in parser.get(services, "s3").splitlines():
            name, _, value = line.partition("=")
            if name.strip() == "endpoint_url":
                return {**section, "endpoint_url": value.strip()}
    return section


_BY_BOTOCORE = ("sso_session", "sso_start_url", "credential_process", "role_arn")


def _aws_profile(profile: str | None) -> dict[str, Any] | None:
    name, section = _aws_sections(profile)
    if not section and os.environ.get("AWS_PROFILE"):
        raise StoreError(f"there is no AWS profile {name!r}, which AWS_PROFILE names")
    if "aws_access_key_id" in section:
        names = ("access_key_id", "secret_access_key", "session_token")
        return {name: section[f"aws_{name}"] for name in names if section.get(f"aws_{name}")}
    if not section.keys().isdisjoint(_BY_BOTOCORE):
        try:
            import botocore  # noqa: F401, PLC0415 - optional
        except ImportError as e:
            raise MissingModule(
                f"the AWS profile {name!r} takes botocore to log in; pip install botocore"
            ) from e
        return {"credential_provider": BotoCredentials(name)}
    return None


Access = Literal["credentials", "anonymous", "instance"]
# Options of S3 with which a URL says all.
_DIRECT = {"endpoint", "region", "access_key_id", "secret_access_key", "session_token"}
_DIRECT |= {"unsigned_payload"}  # which reading has none of
_VARIABLES = {f"AWS_{name.upper()}" for name in (*_DIRECT, "default_region")}  # that such a URL has
_VARIABLES |= {*_ENDPOINT_VARIABLES["s3"]}
_TIMES = {"timeout", "connect_timeout", "allow_http"}  # of a client that sends what others would
_SIGNED_FOR = 3600  # seconds

_CLASSES = {"s3": "S3Store", "gs": "GCSStore", "az": "AzureStore"}
_SCHEMES = {
    **dict.fromkeys(("s3", "s3a"), "s3"),
    **dict.fromkeys(("gs", "gcs"), "gs"),
    **dict.fromkeys(("az", "azure", "abfs", "abfss", "adl"), "az"),
}
# Other names of options, as s3fs, gcsfs, adlfs and the clouds' own tools call them.
_ANY = {"endpoint_url": "endpoint", "anon": "anonymous"}
_ALIASES = {
    "s3": _ANY | {"key": "access_key_id", "secret": "secret_access_key", "token": "session_token"},
    "gs": _ANY | {"endpoint": "base_url", "endpoint_url": "base_url"},
    "az": _ANY | {"account": "account_name", "sas_token": "sas_key"},
}
# Variables that obstore reads when a client is made begin so.
_ENVIRONMENT = (
    *("AWS_", "GOOGLE_", "AZURE_", "IDENTITY_", "MSI_"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_"),
)


@cache
def _is_option(name: str) -> bool:
    """Return True if obstore has this option of S3, which it also reads from the environment."""
    library = obstore_library.library()
    try:
        library.store.S3Store(config={f"aws_{name}": ""})
    except Exception as e:  # of known ones, since the bucket has no name
        return not isinstance(e, library.exceptions.UnknownConfigurationKeyError)
    return True


def _option(kind: str, name: str) -> str:
    """Return obstore's short name of an option: ``endpoint`` for ``AWS_ENDPOINT_URL``."""
    name = name.lower()
    prefix = next((each for each in _PREFIXES[kind] if name.startswith(each)), "")
    name = name.removeprefix(prefix)
    return _ALIASES[kind].get(name, name)


@dataclass(frozen=True)
class Bucket:
    """A bucket of a cloud, and how to log in."""

    kind: str
    name: str
    config: dict[str, Any] = field(default_factory=dict, repr=False, hash=False)
    client_options: dict[str, Any] = field(default_factory=dict, repr=False, hash=False)
    # Both may change with a request.
    access: Access = field(default="credentials", hash=False)
    chosen: bool = field(default=True, hash=False)  # by the user, so that no other is tried

    @classmethod
    def from_url(cls, url: str, options: dict[str, Any], retry: Retry) -> tuple[Bucket, str]:
        """Return the bucket that a URL names, and the prefix in it; takes all `options`."""
        parts = urlsplit(url)
        kind = _SCHEMES[parts.scheme.lower()]
        name, prefix = parts.netloc, parts.path.strip("/")
        given = {_option(kind, n): v for n, v in options.items() if v is not None}
        options.clear()
        if kind == "az" and "@" in name:  # container@account.dfs.core.windows.net
            name, _, host = name.partition("@")
            given.setdefault("account_name", host.partition(".")[0])
        if not name or "@" in name or parts.query or parts.fragment:
            raise StoreError(
                f"{redact_urls(url)!r} is not {parts.scheme}://bucket/path; credentials and the"
                " like go into storage_options"
            )
        return cls.make(kind, name, given, retry), prefix

    @classmethod
    def make(cls, kind: str, name: str, given: dict[str, Any], retry: Retry) -> Bucket:
        """Return a bucket with credentials as given, or as found, or else without."""
        config = dict(given)
        client = dict(config.pop("client_options", {}))
        client.setdefault("timeout", timedelta(seconds=retry.timeout))
        client.setdefault("connect_timeout", timedelta(seconds=min(10.0, retry.timeout)))
        if kind == "az" and not config.get("anonymous"):
            config = {**azure_environment(), **config}
        setting = "base_url" if kind == "gs" else "endpoint"
        if not config.get(setting):
            server = endpoint(kind, config.get("profile"))
            config |= {} if server is None else {setting: server}
        if isinstance(config.get(setting), str):
            config[setting] = server_url(config[setting])
        if str(config.get(setting) or "").lower().startswith("http://"):
            client.setdefault("allow_http", True)
        anonymous = config.pop("anonymous", None)
        found = None if anonymous else find_credentials(kind, config)
        profile = config.pop("profile", None)
        stated = any(map(os.environ.get, ("AWS_REGION", "AWS_DEFAULT_REGION")))  # obstore reads it
        if kind == "s3" and "region" not in config and not stated:
            region = _aws_sections(profile)[1].get("region")
            config |= {"region": region} if region else {}
        bucket = cls(kind, name, config, client)
        if found is not None:
            return replace(bucket, config=config | found)
        access: Access = "instance" if anonymous is False else "anonymous"
        return replace(bucket, access=access, chosen=anonymous is not None)

    @classmethod
    def from_obstore(cls, store: Any) -> tuple[Bucket, str]:
        """Return the bucket of a store of obstore, and the prefix in it."""
        kinds = {name: kind for kind, name in _CLASSES.items()}
        kind = kinds.get(type(store).__name__)
        if kind is None or not hasattr(store, "__getnewargs_ex__"):
            raise StoreError(
                f"{type(store).__name__} is not a bucket of obstore ({', '.join(kinds)}); give the"
                " path of a directory, the URL of a web server, or use MemoryStore of omnizarr"
            )
        _, given = store.__getnewargs_ex__()
        config = dict(given.get("config") or {})
        if given.get("credential_provider") is not None:
            config["credential_provider"] = given["credential_provider"]
        name = str(config.pop("bucket", None) or config.pop("container_name", ""))
        bucket = cls(kind, name, config, dict(given.get("client_options") or {}))
        return bucket, (given.get("prefix") or "").strip("/")

    def identity(self, path: str) -> identity.StorageIdentity:
        """Return the identity of the storage of a path in the bucket."""
        return identity.bucket(self.kind, self.endpoint, self.name, path)

    @property
    def client(self) -> Any:
        """The store of obstore; one for all equal buckets of this process."""
        held: obstore_library.Client | None = self.__dict__.get("_held")
        if held is None or held.process != os.getpid():
            held = obstore_library.client(self._client_key(), self._make)
            self.__dict__["_held"] = held  # as long as this bucket exists
        return held.store

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @property
    def endpoint(self) -> str:
        """The server that has the bucket, or the account; empty for the cloud's own."""
        stated = self.config.get("endpoint") or self.config.get("base_url")
        if stated is None and self.kind == "s3":  # of an object of obstore
            stated = next(filter(None, map(os.environ.get, _ENDPOINT_VARIABLES["s3"])), None)
        if stated is None and self.kind == "az":
            stated = f"https://{self.config.get('account_name', '')}.blob.core.windows.net"
        return str(stated or "")

    def urls(self, paths: Sequence[str]) -> list[str] | None:
        """Return URLs of values in S3, signed where that is needed; None if that is not certain."""
        unknown = self.config.keys() - _DIRECT or self.client_options.keys() - _TIMES
        unknown = unknown or getproxies().keys() - {"no"}
        if self.kind != "s3" or unknown or self.access == "instance":
            return None
        of, variable = self.config.get, os.environ.get
        options = {n[4:].lower() for n in os.environ.keys() - _VARIABLES if n.startswith("AWS_")}
        servers = {*filter(None, map(variable, _ENDPOINT_VARIABLES["s3"]))}
        if any(map(_is_option, options)) or (len(servers) > 1 and not of("endpoint")):
            return None  # of several such variables, obstore takes the last in the environment
        region = of("region") or variable("AWS_REGION") or variable("AWS_DEFAULT_REGION")
        region = str(region or "us-east-1")
        server = self.endpoint or f"https://s3.{region}.amazonaws.com"
        if server.startswith("http:") and not self.client_options.get("allow_http"):
            return None
        server, folder = server.rstrip("/"), f"/{self.name}/"
        if self.access == "anonymous":
            return [f"{server}{quote(folder + path)}" for path in paths]
        names = ("access_key_id", "secret_access_key", "session_token")
        key, secret, token = (of(n) or variable(f"AWS_{n.upper()}") for n in names)
        if not key or not secret:
            return None
        parts = urlsplit(server)
        host, start = parts.netloc, parts.path + folder
        signed = signed_queries(
            host, [quote(start + path) for path in paths], region, key, secret, token
        )
        return [f"{parts.scheme}://{host}{each}" for each in signed]

    def _client_key(self) -> Key | None:
        """Return a cache key of the arguments of a client; None if one is an unknown object."""
        seen = {n: v for n, v in os.environ.items() if n.upper().startswith(_ENVIRONMENT)}
        given = [sorted(each.items()) for each in (self.config, self.client_options, seen)]
        return typed_key((self.kind, self.name, self.access, given), _profile)

    def _make(self, library: Any) -> Any:
        config = dict(self.config)
        if self.access == "anonymous":
            config["skip_signature"] = True
        if self.kind == "s3" and not self.endpoint.startswith("http:"):
            # TLS protects values on their way; a digest for each would take a part of its time.
            config.setdefault("unsigned_payload", os.environ.get("AWS_UNSIGNED_PAYLOAD", True))
        if self.kind == "s3" and config.get("endpoint") and _is_option("endpoint_url_s3"):
            config["aws_endpoint_url_s3"] = config["endpoint"]  # or the variable would win
        client = dict(self.client_options)
        if self.access == "instance":  # a machine without such a role waits no longer than this
            client["connect_timeout"] = timedelta(seconds=2)
        provider = config.pop("credential_provider", None)
        extra = {} if provider is None else {"credential_provider": provider}
        try:
            return getattr(library.store, _CLASSES[self.kind])(
                self.name,
                config=config,
                client_options=client or None,
                retry_config={"max_retries": 0},  # `Retry` repeats requests
                **extra,
            )
        except library.exceptions.UnknownConfigurationKeyError as e:
            reason = redact_urls(str(e).partition("\n")[0])
            raise InvalidArgument(f"storage_options for {self}: {reason}") from None
        except (library.exceptions.BaseError, ValueError, TypeError) as e:
            reason = descriptor_shortage() or redact_urls(str(e).partition("\n")[0])
            raise StoreError(f"cannot reach {self}: {reason}") from None

    def __str__(self) -> str:
        return f"{self.kind}://{self.name}"


def signed_queries(
    host: str, paths: Sequence[str], region: str, key: str, secret: str, token: str | None
) -> Iterator[str]:
    """Yield quoted paths with a signature to read each (AWS Signature Version 4, in the query)."""
    time = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    scope = f"{time[:8]}/{region}/s3/aws4_request"
    signing = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        signing = hmac.digest(signing, part.encode(), "sha256")
    query = (
        f"X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={quote(f'{key}/{scope}', safe='')}"
        f"&X-Amz-Date={time}&X-Amz-Expires={_SIGNED_FOR}"
        f"{'' if token is None else '&X-Amz-Security-Token=' + quote(token, safe='')}"
        "&X-Amz-SignedHeaders=host"
    )
    for path in paths:
        asked = f"GET\n{path}\n{query}\nhost:{host}\n\nhost\nUNSIGNED-PAYLOAD"
        digest = hashlib.sha256(asked.encode()).hexdigest()
        text = f"AWS4-HMAC-SHA256\n{time}\n{scope}\n{digest}"
        signature = hmac.digest(signing, text.encode(), "sha256").hex()
        yield f"{path}?{query}&X-Amz-Signature={signature}"


def _profile(given: Any) -> tuple[str] | None:
    return (given.profile,) if type(given) is BotoCredentials else None
