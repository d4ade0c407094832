"""The section `storage` of a job file: how object stores are reached, for everything that the job has in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from sordini.cli.common.settings_tree import Section
from sordini.pipeline.jobs.job_file_tree import check_named
from sordini.pipeline.tables.azure_storage import AccountKey, SasToken, ServicePrincipal
from sordini.pipeline.tables.object_storage import (
    Credentials,
    Implicit,
    Keys,
    ObjectStorage,
    Provider,
    check_storage,
)

_FUNCTION: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_REGIONS: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")


def storage_of(section: Section, home: Path, environment: Mapping[str, str]) -> ObjectStorage:
    """What the file leaves out comes from the environment, under the names that AWS's tools have for it.

    Of Azure only the file counts: its libraries read the environment themselves.
    """
    account = section.text("account", "")
    endpoint = section.text("endpoint", "" if account else _first(environment, _ENDPOINTS))
    http = environment.get("AWS_ALLOW_HTTP", "").lower() in {"1", "true"} and "endpoint" not in section
    storage = ObjectStorage(
        endpoint=endpoint,
        region=section.text("region", _first(environment, _REGIONS)),
        credentials=_credentials(section, home),
        path_style=section.truth("path_style", default=True),
        allow_http=section.truth("allow_http", default=http),
        options=section.options("options"),
        account=account,
        working_folder=_folder(section, home),
    )
    section.finish()
    if account or "endpoint" in section or "allow_http" in section:
        check_named(section, lambda: check_storage(storage))
    return storage


def _credentials(section: Section, home: Path) -> Credentials:
    if section.is_section("credentials"):
        inner = section.section("credentials")
        found = _group(inner)
        inner.finish()
        return found
    written = section.text("credentials", "environment")
    if written in {one.value for one in Implicit}:
        return Implicit(written)
    if not _FUNCTION.fullmatch(written):
        # The text may be a key in the wrong place, so it is not repeated.
        section.wrong(
            "credentials",
            "is none of environment, anonymous, `module:function` (a function that returns keys) and a group of "
            "access_key, secret_key and session_token; or of account_key; of sas_token; of tenant_id, client_id and "
            "client_secret",
        )
    return Provider(written, str(home))


def _group(section: Section) -> Credentials:
    """Of S3, unless the first name is one of Azure's."""
    match section.names()[:1]:
        case ["account_key"]:
            return AccountKey(section.text("account_key"))
        case ["sas_token"]:
            return SasToken(section.text("sas_token").removeprefix("?"))
        case ["tenant_id" | "client_id" | "client_secret"]:
            return ServicePrincipal(section.text("tenant_id"), section.text("client_id"), section.text("client_secret"))
    return Keys(section.text("access_key"), section.text("secret_key"), section.text("session_token", ""))


def _folder(section: Section, home: Path) -> str:
    if "working_folder" not in section:
        return ""
    written = section.text("working_folder")
    return written if "://" in written else str((home / Path(written).expanduser()).resolve())


def _first(environment: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((environment[name] for name in names if environment.get(name)), "")
