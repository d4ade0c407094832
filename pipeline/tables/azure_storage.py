"""Azure's stores: what reaches one, and its form for each library.

A container is named with its account, as Spark, Hadoop and Iceberg do, or alone, and then `account` has to be set:

    abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/tables/views
    az://CONTAINER/tables/views

An endpoint of its own has the account in its host, or as its path, as emulators have it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from sordini.pipeline.errors import BadSetting

FILES: Final = "sordini.pipeline.tables.iceberg.azure_files.AzureFiles"
"""By name, as pyiceberg takes it."""
_DFS: Final = "dfs.core.windows.net"


@dataclass(frozen=True)
class AccountKey:
    """A key of the whole account. Its text has no secret."""

    account_key: str = field(repr=False)


@dataclass(frozen=True)
class SasToken:
    """A shared access signature: the query of a URL that grants what it lists. Its text has no secret."""

    sas_token: str = field(repr=False)


@dataclass(frozen=True)
class ServicePrincipal:
    """A login of Microsoft Entra. Its text has no secret."""

    tenant_id: str
    client_id: str
    client_secret: str = field(repr=False)


AzureCredentials = AccountKey | SasToken | ServicePrincipal


def object_store_login(credentials: object) -> dict[str, str]:
    """Credentials as deltalake and obstore take them; nothing for those of other stores."""
    match credentials:
        case AccountKey(key):
            return {"azure_storage_account_key": key}
        case SasToken(token):
            return {"azure_storage_sas_token": token}
        case ServicePrincipal(tenant, client, secret):
            return {
                "azure_storage_tenant_id": tenant,
                "azure_storage_client_id": client,
                "azure_storage_client_secret": secret,
            }
    return {}


def pyiceberg_login(credentials: object) -> dict[str, str]:
    """Credentials as pyiceberg takes them; nothing for those of other stores."""
    match credentials:
        case AccountKey(key):
            return {"adls.account-key": key}
        case SasToken(token):
            return {"adls.sas-token": token}
        case ServicePrincipal(tenant, client, secret):
            return {"adls.tenant-id": tenant, "adls.client-id": client, "adls.client-secret": secret}
    return {}


def pyiceberg_endpoint(endpoint: str, account: str) -> dict[str, str]:
    """An endpoint as pyiceberg takes it: Arrow puts the account before a host that begins with a dot, else behind it.

    Raises BadSetting for an endpoint without the account.
    """
    parts = urlsplit(endpoint)
    host = parts.netloc
    if parts.path.strip("/") == account:
        blob = dfs = host
    elif host.startswith(f"{account}.") and not parts.path.strip("/"):
        blob = host.removeprefix(account)
        dfs = blob.replace(".blob.", ".dfs.", 1)
    else:
        raise BadSetting(
            f"endpoint: {endpoint} is not one of the account {account}: it is {parts.scheme}://{account}.HOST or, "
            f"of an emulator, {parts.scheme}://HOST:PORT/{account}"
        )
    return {
        "adls.blob-storage-authority": blob,
        "adls.dfs-storage-authority": dfs,
        "adls.blob-storage-scheme": parts.scheme,
        "adls.dfs-storage-scheme": parts.scheme,
    }


def named_with_account(location: str, account: str) -> str:
    """A location in the form that all readers of a table know. Raises BadSetting if the account is not known."""
    _, _, rest = location.partition("://")
    container, slash, path = rest.partition("/")
    if "@" in container:
        return location
    if not account:
        raise BadSetting(
            f"{location} has no account: readers of Iceberg tables know abfss://CONTAINER@ACCOUNT.{_DFS}/... alone, "
            "which `account` in `storage` also makes of it"
        )
    return f"abfss://{container}@{account}.{_DFS}{slash}{path}"
