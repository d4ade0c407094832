"""How an object store is reached: endpoint, region and credentials, in the form that each library takes.

Delta tables, the job's state and counts go through Rust's object_store (in deltalake and obstore), Iceberg tables
through pyiceberg's file system. With credentials from the environment nothing secret is passed on at all: every process
reads its own. Otherwise keys travel to Spark's tasks inside their pickled functions, and nothing prints them.
"""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from importlib import import_module
from typing import Any, Final

from sordini.pipeline.errors import BadSetting, PipelineError
from sordini.pipeline.tables import azure_storage
from sordini.pipeline.tables.azure_storage import AccountKey, AzureCredentials, SasToken

STORES: Final = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    "gcs": "gs",
    "az": "az",
    "adl": "az",
    "azure": "az",
    "abfs": "az",
    "abfss": "az",
}
"""Schemes of URIs, and the kind of store they are in."""

RETRIES: Final = "sordini.pipeline.tables.iceberg.retries.StoreRetries"
"""By name, as pyiceberg takes it."""

REFRESH_BEFORE: Final = dt.timedelta(minutes=5)
"""Keys of a provider are requested again this long before they expire."""


@dataclass(frozen=True)
class Keys:
    """Keys of S3. Their text has no secret."""

    access_key: str
    secret_key: str = field(repr=False)
    session_token: str = field(default="", repr=False)


@dataclass(frozen=True)
class Provider:
    """A function `module:function` that returns keys; modules in the folder `home` take precedence.

    It returns a mapping with `access_key` and `secret_key`, and with `session_token` for keys that expire; of Azure one
    with `account_key` or `sas_token`. `expires_at` (a datetime with a zone) is when they expire.
    """

    function: str
    home: str = ""


class Implicit(Enum):
    """Credentials that are not named."""

    ENVIRONMENT = "environment"
    """What the libraries find themselves: AWS_ACCESS_KEY_ID, a web identity, the role of a container or machine."""
    ANONYMOUS = "anonymous"
    """Requests are not signed."""


Credentials = Keys | AzureCredentials | Provider | Implicit


@dataclass(frozen=True)
class ObjectStorage:
    """The section `storage` of a job file. What is empty is left to the libraries."""

    endpoint: str = ""
    """Of a store that speaks S3's protocol, or of Azure's if there is an account; empty is AWS, or Azure."""
    region: str = ""
    credentials: Credentials = Implicit.ENVIRONMENT
    path_style: bool = True
    """Whether the bucket is in the path instead of the host name, where there is an endpoint."""
    allow_http: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    """object_store's settings, such as azure_storage_account_name; with a dot in the name pyiceberg's."""
    account: str = ""
    """Of Azure, for locations without one and for an endpoint; empty: those that locations name."""
    working_folder: str = ""
    """Where Spark's own checkpoints are while a query runs whose state is in a store; empty: a temporary folder."""

    def resolved(self) -> ObjectStorage:
        """The same with a provider's current keys in its place. Raises PipelineError if it fails."""
        if not isinstance(self.credentials, Provider):
            return self
        return replace(self, credentials=_keys_of(self.credentials))

    def object_store_options(self, location: str) -> dict[str, str]:
        """What deltalake and obstore take for this location; nothing for a folder."""
        store = store_of(location)
        if not store:
            return {}
        found = {name: value for name, value in self.options.items() if "." not in name}
        if store == "az":
            return self._azure_options() | found
        if store != "s3":
            return ({"allow_http": "true"} if self.allow_http else {}) | found
        endpoint = self._endpoint_of("s3")
        ours = {"aws_endpoint": endpoint, "aws_region": self.region}
        if endpoint:
            ours["aws_virtual_hosted_style_request"] = "false" if self.path_style else "true"
        if self.allow_http:
            ours["aws_allow_http"] = "true"
        match self.resolved().credentials:
            case Keys(access_key, secret_key, session_token):
                ours |= {"aws_access_key_id": access_key, "aws_secret_access_key": secret_key}
                ours["aws_session_token"] = session_token
            case Implicit.ANONYMOUS:
                ours["aws_skip_signature"] = "true"
        return {name: value for name, value in ours.items() if value} | found

    def pyiceberg_properties(self, location: str) -> dict[str, str]:
        """What pyiceberg's file system takes for this location; nothing for a folder."""
        store = store_of(location)
        if not store:
            return {}
        found = {name: value for name, value in self.options.items() if "." in name}
        if store == "az":
            return self._azure_properties() | found
        if store != "s3":
            return found
        endpoint = self._endpoint_of("s3")
        ours = {"s3.endpoint": endpoint, "s3.region": self.region, "s3.retry-strategy-impl": RETRIES}
        if endpoint:
            ours["s3.force-virtual-addressing"] = "false" if self.path_style else "true"
        match self.resolved().credentials:
            case Keys(access_key, secret_key, session_token):
                ours |= {"s3.access-key-id": access_key, "s3.secret-access-key": secret_key}
                ours["s3.session-token"] = session_token
            case Implicit.ANONYMOUS:
                ours["s3.anonymous"] = "true"
        return {name: value for name, value in ours.items() if value} | found

    def _endpoint_of(self, store: str) -> str:
        return self.endpoint if (store == "az") == bool(self.account) else ""

    def _azure_options(self) -> dict[str, str]:
        ours = {"azure_storage_account_name": self.account, "azure_storage_endpoint": self._endpoint_of("az")}
        if self.allow_http:
            ours["allow_http"] = "true"
        ours |= azure_storage.object_store_login(self.resolved().credentials)
        return {name: value for name, value in ours.items() if value}

    def _azure_properties(self) -> dict[str, str]:
        ours = {"py-io-impl": azure_storage.FILES, **azure_storage.pyiceberg_login(self.resolved().credentials)}
        if self.account:
            ours["adls.account-name"] = self.account
        if endpoint := self._endpoint_of("az"):
            ours |= azure_storage.pyiceberg_endpoint(endpoint, self.account)
        return ours


NOWHERE: Final = ObjectStorage()
"""All is left to the libraries."""


def store_of(location: str) -> str:
    """The kind of store of a location: s3, gs or az; empty for a folder and for other URIs."""
    scheme, is_uri, _ = location.partition("://")
    return STORES.get(scheme.lower(), "") if is_uri else ""


_Provided = Keys | AccountKey | SasToken
_provided: dict[Provider, tuple[_Provided, dt.datetime | None]] = {}
"""The last keys of each provider, and when they expire."""


def _keys_of(provider: Provider) -> _Provided:
    keys, expires_at = _provided.get(provider, (None, None))
    if keys is not None and expires_at is not None and dt.datetime.now(dt.UTC) + REFRESH_BEFORE < expires_at:
        return keys
    found = _called(provider)
    try:
        keys = _given(found)
        expires_at = found.get("expires_at")
        if expires_at is not None and expires_at.tzinfo is None:
            raise ValueError("expires_at has no time zone")
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise PipelineError(
            f"storage.credentials: {provider.function} returns no keys ({type(error).__name__}: {error}): a mapping "
            "with access_key and secret_key, or account_key, or sas_token, and session_token and expires_at for those "
            "that expire"
        ) from None
    _provided[provider] = keys, expires_at
    return keys


def _given(found: Mapping[str, Any]) -> _Provided:
    """What a provider has returned. Raises KeyError, TypeError and AttributeError."""
    if "account_key" in found:
        return AccountKey(str(found["account_key"]))
    if "sas_token" in found:
        return SasToken(str(found["sas_token"]))
    return Keys(str(found["access_key"]), str(found["secret_key"]), str(found.get("session_token") or ""))


def _called(provider: Provider) -> Mapping[str, Any]:
    module_name, _, function_name = provider.function.partition(":")
    if provider.home and provider.home not in sys.path:
        sys.path.insert(0, provider.home)
    try:
        function: Callable[[], Mapping[str, Any]] = getattr(import_module(module_name), function_name)
        return function()
    except Exception as error:  # noqa: BLE001 - all of them: the function is the user's.
        raise PipelineError(
            f"storage.credentials: {provider.function} failed: {type(error).__name__}: {error}"
        ) from None


def check_storage(storage: ObjectStorage) -> None:
    """Raises BadSetting for settings that contradict each other; the text begins with the setting's name."""
    if storage.endpoint and not storage.endpoint.startswith(("http://", "https://")):
        raise BadSetting(f"endpoint: '{storage.endpoint}' is no URL: https://host[:port]")
    if storage.endpoint.startswith("http://") and not storage.allow_http:
        raise BadSetting(
            f"endpoint: {storage.endpoint} is not encrypted: `allow_http: true` in `storage` allows that, "
            "for networks that no others can read"
        )
    if storage.account and storage.endpoint:
        azure_storage.pyiceberg_endpoint(storage.endpoint, storage.account)
    if storage.account and storage.credentials is Implicit.ANONYMOUS:
        raise BadSetting("credentials: Azure's stores grant anonymous requests to read at most, and a job writes")
