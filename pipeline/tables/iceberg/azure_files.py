"""Azure's stores as pyiceberg's file system, through Arrow, which needs no further library.

pyiceberg prefers adlfs, and by its own use of Arrow the account in `abfss://CONTAINER@ACCOUNT.HOST/path` would be part
of the container. Credentials that no property has are those of the process: the variables that object_store reads, too,
and after them what Azure's own library finds (a workload identity, a managed identity, a login of its tools).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from pyarrow.fs import FileSystem
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.typedef import EMPTY_DICT, Properties

from sordini.pipeline.tables.object_storage import STORES

_ARGUMENTS: Final = {
    "account_key": "adls.account-key",
    "sas_token": "adls.sas-token",
    "tenant_id": "adls.tenant-id",
    "client_id": "adls.client-id",
    "client_secret": "adls.client-secret",
    "blob_storage_authority": "adls.blob-storage-authority",
    "dfs_storage_authority": "adls.dfs-storage-authority",
    "blob_storage_scheme": "adls.blob-storage-scheme",
    "dfs_storage_scheme": "adls.dfs-storage-scheme",
}
"""Arguments of Arrow's file system, and the properties that have them."""
_LOGINS: Final = ("account_key", "sas_token", "client_secret")
_KEYS: Final = ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY")
_TOKENS: Final = ("AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY")


class AzureFiles(PyArrowFileIO):
    """Files by `abfss://CONTAINER@ACCOUNT.HOST/path`, or by `abfss://CONTAINER/path` of the properties' account."""

    @staticmethod
    def parse_location(location: str, properties: Properties = EMPTY_DICT) -> tuple[str, str, str]:
        """Scheme, host of the account or nothing, and container with path; other locations as pyiceberg has them."""
        parts = urlsplit(location)
        if STORES.get(parts.scheme) != "az":
            return PyArrowFileIO.parse_location(location, properties)
        container, _, host = parts.netloc.partition("@")
        # Not the parsed path: an object's name may have a question mark or a number sign.
        return parts.scheme, host, container + location.partition("://")[2].removeprefix(parts.netloc)

    def _initialize_fs(self, scheme: str, netloc: str | None = None) -> FileSystem:
        if STORES.get(scheme) != "az":
            return super()._initialize_fs(scheme, netloc)
        from pyarrow.fs import AzureFileSystem  # Not in every build of Arrow.

        return AzureFileSystem(**arguments_of(self.properties, netloc or "", os.environ))


def arguments_of(properties: Mapping[str, Any], host: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Arguments of Arrow's file system for the account of a host, or for that of the properties or environment.

    A REST catalog may have a token for the host. Raises ValueError, which pyiceberg reports, if there is no account.
    """
    account = (
        host.partition(".")[0]
        or properties.get("adls.account-name")
        or environment.get("AZURE_STORAGE_ACCOUNT_NAME", "")
    )
    if not account:
        raise ValueError("no account is named, neither in the location nor by adls.account-name")
    found = {name: str(properties[key]) for name, key in _ARGUMENTS.items() if properties.get(key)}
    if not any(name in found for name in _LOGINS):
        found |= _login(properties.get(f"adls.sas-token.{host}", ""), environment)
    if "sas_token" in found:
        # Arrow appends it to its URLs as it is.
        found["sas_token"] = f"?{found['sas_token'].removeprefix('?')}"
    return {"account_name": str(account), **found}


def _login(token: str, environment: Mapping[str, str]) -> dict[str, str]:
    """A catalog's token, else what the environment has; nothing leaves it to Azure's library."""
    if token:
        return {"sas_token": token}
    for name, variables in (("account_key", _KEYS), ("sas_token", _TOKENS)):
        if found := next((environment[each] for each in variables if environment.get(each)), ""):
            return {name: found}
    return {}
