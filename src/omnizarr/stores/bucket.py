"""A bucket or container of a cloud: what it takes to reach it, as data that can be pickled."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from typing import Any, Literal
from urllib.parse import urlsplit

from omnizarr.errors import InvalidMetadata, StoreError
from omnizarr.model.typed_key import Key, typed_key
from omnizarr.stores import cloud_library, credentials, identity
from omnizarr.stores.descriptors import shortage
from omnizarr.stores.retry import Retry
from omnizarr.stores.url import without_secrets

Access = Literal["credentials", "anonymous", "instance"]

_CLASSES = {"s3": "S3Store", "gs": "GCSStore", "az": "AzureStore"}
_SCHEMES = {
    **dict.fromkeys(("s3", "s3a"), "s3"),
    **dict.fromkeys(("gs", "gcs"), "gs"),
    **dict.fromkeys(("az", "azure", "abfs", "abfss", "adl"), "az"),
}
# Other names of options, as s3fs, gcsfs, adlfs and the clouds' own tools call them.
_ALIASES = {
    "s3": {
        "endpoint_url": "endpoint",
        "key": "access_key_id",
        "secret": "secret_access_key",
        "token": "session_token",
        "anon": "anonymous",
    },
    "gs": {"endpoint": "base_url", "endpoint_url": "base_url", "anon": "anonymous"},
    "az": {
        "endpoint_url": "endpoint",
        "account": "account_name",
        "sas_token": "sas_key",
        "anon": "anonymous",
    },
}


# Variables that obstore reads when a client is made begin so.
_ENVIRONMENT = (
    *("AWS_", "GOOGLE_", "AZURE_", "IDENTITY_", "MSI_"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_"),
)
_PREFIXES = {"s3": ("aws_",), "gs": ("google_",), "az": ("azure_storage_", "azure_")}


def _option(kind: str, name: str) -> str:
    """Return obstore's short name of an option: ``endpoint`` for ``AWS_ENDPOINT_URL``."""
    name = name.lower()
    for prefix in _PREFIXES[kind]:
        if name.startswith(prefix):
            name = name.removeprefix(prefix)
            break
    return _ALIASES[kind].get(name, name)


@dataclass(frozen=True)
class Bucket:
    """Which bucket of which cloud, and how to log in."""

    kind: str
    name: str
    config: dict[str, Any] = field(default_factory=dict, repr=False)
    client_options: dict[str, Any] = field(default_factory=dict, repr=False)
    retry_config: dict[str, Any] = field(default_factory=dict, repr=False)
    access: Access = "credentials"
    chosen: bool = True  # the access was asked for, so no other is tried

    @classmethod
    def from_url(cls, url: str, options: dict[str, Any], retry: Retry) -> tuple[Bucket, str]:
        """The bucket that a URL names, and the prefix in it; takes all `options`."""
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
                f"{without_secrets(url)!r} is not {parts.scheme}://bucket/path; credentials and the"
                " like go into storage_options"
            )
        return cls.make(kind, name, given, retry), prefix

    @classmethod
    def make(cls, kind: str, name: str, given: dict[str, Any], retry: Retry) -> Bucket:
        """A bucket with credentials as given, or as found, or else without."""
        config = dict(given)
        client = dict(config.pop("client_options", {}))
        client.setdefault("timeout", timedelta(seconds=retry.timeout))
        client.setdefault("connect_timeout", timedelta(seconds=min(10.0, retry.timeout)))
        setting = "base_url" if kind == "gs" else "endpoint"
        if not config.get(setting):
            stated = credentials.endpoint(kind, config.get("profile"))
            config |= {} if stated is None else {setting: stated}
        if str(config.get(setting) or "").lower().startswith("http://"):
            client.setdefault("allow_http", True)
        anonymous = config.pop("anonymous", None)
        found = None if anonymous else credentials.find(kind, config)
        profile = config.pop("profile", None)
        if kind == "s3" and "region" not in config:
            region = credentials.aws_region(profile)
            config |= {"region": region} if region else {}
        no_repeats = {"max_retries": 0, "retry_timeout": timedelta(seconds=retry.timeout)}
        bucket = cls(kind, name, config, client, no_repeats)
        if found is not None:
            return replace(bucket, config=config | found)
        access: Access = "instance" if anonymous is False else "anonymous"
        return replace(bucket, access=access, chosen=anonymous is not None)

    @classmethod
    def of(cls, store: Any) -> tuple[Bucket, str]:
        """The bucket behind an object of obstore, and the prefix in it."""
        kinds = {name: kind for kind, name in _CLASSES.items()}
        kind = kinds.get(type(store).__name__)
        if kind is None or not hasattr(store, "__getnewargs_ex__"):
            raise StoreError(
                f"{type(store).__name__} is not a store of obstore; known: {', '.join(kinds)}"
            )
        _, given = store.__getnewargs_ex__()
        config = dict(given.get("config") or {})
        if given.get("credential_provider") is not None:
            config["credential_provider"] = given["credential_provider"]
        name = str(config.pop("bucket", None) or config.pop("container_name", ""))
        bucket = cls(
            kind, name, config, dict(given.get("client_options") or {}), given.get("retry_config")
        )
        return bucket, (given.get("prefix") or "").strip("/")

    def place(self, path: str) -> identity.Place:
        """Return where a path in the bucket is."""
        return identity.bucket(self.kind, self.endpoint, self.name, path)

    def sent(self, value: memoryview | bytes) -> memoryview | bytes:
        """Return a value as the client may have it."""
        return value

    def with_access(self, access: Access) -> Bucket:
        """The same bucket, with another way to log in."""
        return replace(self, access=access)

    @property
    def client(self) -> Any:
        """The object of obstore that reaches it; one for all equal buckets of this process."""
        held: cloud_library.Client | None = self.__dict__.get("_held")
        if held is None or held.process != os.getpid():
            held = cloud_library.client(self._recipe(), self._make)
            self.__dict__["_held"] = held  # as long as this bucket is there
        return held.made

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @property
    def endpoint(self) -> str:
        """The server that has the bucket, or the account; empty for the cloud's own."""
        stated = self.config.get("endpoint") or self.config.get("base_url")
        if stated is None and self.kind == "s3":
            stated = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        if stated is None and self.kind == "az":
            stated = f"https://{self.config.get('account_name', '')}.blob.core.windows.net"
        return str(stated or "")

    def _recipe(self) -> Key | None:
        """All that a client is made from; None where an object among it may be anything."""
        seen = {n: v for n, v in os.environ.items() if n.upper().startswith(_ENVIRONMENT)}
        options = self.config, self.client_options, self.retry_config or {}, seen
        given = [sorted(each.items()) for each in options]
        return typed_key((self.kind, self.name, self.access, given), _profile)

    def _make(self, library: Any) -> Any:
        config = dict(self.config)
        if self.access == "anonymous":
            config["skip_signature"] = True
        client = dict(self.client_options)
        if self.access == "instance":  # who has no such role waits no longer than this
            client["connect_timeout"] = timedelta(seconds=2)
        provider = config.pop("credential_provider", None)
        extra = {} if provider is None else {"credential_provider": provider}
        try:
            return getattr(library.store, _CLASSES[self.kind])(
                self.name,
                config=config,
                client_options=client or None,
                retry_config=self.retry_config or None,
                **extra,
            )
        except library.exceptions.UnknownConfigurationKeyError as e:
            reason = without_secrets(str(e).partition("\n")[0])
            raise InvalidMetadata(f"storage_options for {self}: {reason}") from None
        except (library.exceptions.BaseError, ValueError, TypeError) as e:
            reason = shortage() or without_secrets(str(e).partition("\n")[0])
            raise StoreError(f"cannot reach {self}: {reason}") from None

    def __str__(self) -> str:
        return f"{self.kind}://{self.name}"


def _profile(given: Any) -> Key | None:
    """What tells credentials of a profile from others."""
    return (given.profile,) if type(given) is credentials.BotoCredentials else None
