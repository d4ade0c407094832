"""The location of an Iceberg table: its folder, its name, and the catalog with its newest metadata."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    CommitStateUnknownException,
    ForbiddenError,
    OAuthError,
    RESTError,
    UnauthorizedError,
)
from requests.exceptions import RequestException, SSLError

from sordini.pipeline.errors import BadSetting
from sordini.pipeline.tables.azure_storage import named_with_account
from sordini.pipeline.tables.local_files import local_path
from sordini.pipeline.tables.object_storage import NOWHERE, ObjectStorage, store_of
from sordini.pipeline.tables.table import TableError

CATALOG = "sordini"
"""The catalog's default name, by which pyiceberg's configuration may have properties of it."""


@dataclass(frozen=True)
class IcebergLocation:
    """`table` is `namespace.name`, by default `default.` and the folder's name; `catalog` pyiceberg's properties."""

    location: str
    table: str = ""
    catalog: dict[str, str] = field(default_factory=dict, repr=False)
    storage: ObjectStorage = NOWHERE

    @property
    def uri(self) -> str:
        """The location as Iceberg writes it. Raises BadSetting for one of Azure without an account."""
        folder = local_path(self.location)
        if folder:
            return f"file://{folder}"
        location = self.location.rstrip("/")
        return named_with_account(location, self.storage.account) if store_of(location) == "az" else location

    @property
    def identifier(self) -> tuple[str, ...]:
        """The namespaces and the name. Raises BadSetting if there are fewer than two parts."""
        name = self.table or f"default.{self.uri.rpartition('/')[2].replace('.', '_')}"
        parts = tuple(name.split("."))
        if len(parts) < 2 or not all(parts):
            raise BadSetting(f"an Iceberg table is named namespace.name, not '{name}'")
        return parts

    def open_catalog(self) -> Catalog | None:
        """The catalog of the options, else that in a SQLite file in the folder; None if there is no such file yet."""
        if self.catalog or self._sqlite().exists():
            return self.create_catalog()
        return None

    def create_catalog(self) -> Catalog:
        """As `open_catalog`, but creates a missing file."""
        if self.catalog:
            try:
                return load_catalog(self.catalog.get("name", CATALOG), **self.properties())
            except ValueError as error:
                raise BadSetting(f"the Iceberg catalog cannot be opened: {error}") from error
        file = self._sqlite()
        file.parent.mkdir(parents=True, exist_ok=True)
        return load_catalog(CATALOG, type="sql", uri=f"sqlite:///{file}", warehouse=self.uri)

    def properties(self) -> dict[str, str]:
        """The catalog's, with those of the job's storage for what it leaves out. Raises PipelineError."""
        ours = {name: value for name, value in self.catalog.items() if name != "name"}
        return {**self.storage.pyiceberg_properties(self.location), **ours}

    def _sqlite(self) -> Path:
        folder = local_path(self.location)
        if folder is None:
            raise BadSetting(
                f"'{self.location}' is not a folder: the options catalog.* name the table's catalog (docs/tables.md)"
            )
        return folder / "catalog.db"


@contextmanager
def catalog_errors(where: IcebergLocation) -> Iterator[None]:
    """Raise what a REST catalog refuses as TableError, which names the table's location and the catalog's host."""
    try:
        yield
    except (RequestException, RESTError) as error:
        parts = urlsplit(where.catalog.get("uri", ""))
        port = f":{parts.port}" if parts.port else ""
        raise TableError(
            f"{where.location}: the Iceberg catalog at {parts.scheme}://{parts.hostname}{port} {_refusal(error)}"
        ) from error


def _refusal(error: Exception) -> str:
    match error:
        case SSLError():
            return "is not trusted: its certificate is of another host or authority, or has expired"
        case RequestException():
            return "does not answer, or has ended the connection"
        case UnauthorizedError() | OAuthError() | AuthorizationExpiredError():
            return "refuses the login: catalog.credential or catalog.token has it"
        case ForbiddenError():
            return "refuses access: the login lacks a permission for the table, or for its namespace"
        case CommitStateUnknownException():
            return "failed in a commit, which it may have done: run the command again, which finds out"
        case _:
            return f"refuses a request, or fails: {str(error).splitlines()[0]}"
