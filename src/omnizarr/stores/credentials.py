"""Whether there are credentials for a cloud, in the places where its own tools keep them."""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnizarr.errors import MissingModule, StoreError

# Options and variables of the environment that are credentials; obstore reads the variables.
_OPTIONS = {
    "s3": ("access_key_id", "web_identity_token_file", "container_credentials_relative_uri"),
    "gs": ("service_account", "service_account_key", "application_credentials", "bearer_token"),
    "az": ("account_key", "sas_key", "token", "client_secret", "federated_token_file"),
}
_VARIABLES = {
    "s3": (
        *("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE"),
        *("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"),
    ),
    "gs": (
        *("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_SERVICE_ACCOUNT", "GOOGLE_BEARER_TOKEN"),
        *("GOOGLE_SERVICE_ACCOUNT_PATH", "GOOGLE_SERVICE_ACCOUNT_KEY"),
    ),
    "az": (
        *("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_SAS_TOKEN"),
        *("AZURE_STORAGE_SAS_KEY", "AZURE_STORAGE_TOKEN", "AZURE_CLIENT_SECRET"),
        *("AZURE_STORAGE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE"),
        *("AZURE_MSI_ENDPOINT", "AZURE_IDENTITY_ENDPOINT", "IDENTITY_ENDPOINT"),
    ),
}
# Variables that name another server than the cloud's own, the first before the others; obstore
# reads most of them, but not where plain HTTP has to be allowed.
_ENDPOINTS = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "gs": ("GOOGLE_BASE_URL", "STORAGE_EMULATOR_HOST"),
    "az": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
}
PLACES = {
    "s3": "storage_options, AWS_* variables, ~/.aws and the instance's own role",
    "gs": "storage_options, GOOGLE_* variables, gcloud's default login and the instance's account",
    "az": "storage_options, AZURE_* variables, the az command and the managed identity",
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


def find(kind: str, options: Mapping[str, Any]) -> dict[str, Any] | None:
    """What obstore must be told beyond `options` to use credentials, or None without any."""
    if any(options.get(name) for name in (*_OPTIONS[kind], "credential_provider")):
        return {}
    if "profile" not in options and any(os.environ.get(name) for name in _VARIABLES[kind]):
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
    """Return the server that the environment or the files of AWS's tools name, if they do."""
    ignored = os.environ.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "").lower() == "true"
    if kind == "s3" and ignored:
        return None
    for name in _ENDPOINTS[kind]:
        found = os.environ.get(name)
        if found:
            return found if "://" in found else f"http://{found}"  # an emulator's host and port
    return _aws_sections(profile)[1].get("endpoint_url") if kind == "s3" else None


def aws_region(profile: str | None) -> str | None:
    """The region that the configuration files of AWS's tools give."""
    _, section = _aws_sections(profile)
    return section.get("region")


def _aws_sections(profile: str | None) -> tuple[str, dict[str, str]]:
    """The profile in use and all that the two files say of it."""
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
            continue  # this user has none there
        except (OSError, UnicodeDecodeError, configparser.Error) as e:
            raise StoreError(f"cannot read the AWS settings {str(path)!r}: {e}") from e
        if parser.has_section(section):
            merged |= dict(parser[section])
    if profile and not merged:
        raise StoreError(f"there is no AWS profile {profile!r} in {str(home)!r}")
    return name, merged


def _aws_profile(profile: str | None) -> dict[str, Any] | None:
    name, section = _aws_sections(profile)
    if "aws_access_key_id" in section:
        found = {
            "access_key_id": section["aws_access_key_id"],
            "secret_access_key": section.get("aws_secret_access_key", ""),
        }
        token = section.get("aws_session_token")
        return found | ({"session_token": token} if token else {})
    if any(word in section for word in ("sso_session", "sso_start_url", "credential_process")) or (
        "role_arn" in section
    ):
        try:
            import botocore  # noqa: F401, PLC0415 - optional
        except ImportError as e:
            raise MissingModule(
                f"the AWS profile {name!r} takes botocore to log in; pip install botocore"
            ) from e
        return {"credential_provider": BotoCredentials(name)}
    return None
