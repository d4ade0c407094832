"""Azure's Blob Storage as Microsoft's emulator has it, Azurite. Its conditional puts are atomic (tests/pipeline/test_stores.py).

It has no hierarchical namespace and no roles; its accounts have keys, and what a signature (SAS) grants.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlencode

from pyarrow.fs import AzureFileSystem

from sordini.pipeline.tables.azure_storage import AccountKey
from sordini.pipeline.tables.object_storage import ObjectStorage
from tests.outside.needs import need_azurite, need_program
from tests.outside.ports import free_port, is_listening
from tests.outside.processes import OutsideProcess

ACCOUNT = "lakeaccount"
SECRET = base64.b64encode(b"a secret of the tests, 32 bytes.").decode()
_VERSION = "2022-11-02"
"""Of the format of signatures."""


class AzureServer(OutsideProcess):
    """Containers are in its memory."""

    name = "azurite"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._program = need_azurite()
        self._node = need_program("node", "nodejs")
        self.port = free_port()

    @property
    def endpoint(self) -> str:
        return self.endpoint_at(self.port)

    @staticmethod
    def endpoint_at(port: int) -> str:
        """The account's address, its own or that of a proxy before it."""
        return f"http://127.0.0.1:{port}/{ACCOUNT}"

    @property
    def storage(self) -> ObjectStorage:
        return ObjectStorage(self.endpoint, credentials=AccountKey(SECRET), allow_http=True, account=ACCOUNT)

    @property
    def settings(self) -> dict[str, object]:
        """What else a job file's `storage` has of it."""
        return {"account": ACCOUNT, "credentials": {"account_key": SECRET}}

    def make_bucket(self, name: str) -> str:
        """The URI of a new container."""
        host = f"127.0.0.1:{self.port}"
        AzureFileSystem(
            ACCOUNT,
            account_key=SECRET,
            blob_storage_authority=host,
            dfs_storage_authority=host,
            blob_storage_scheme="http",
            dfs_storage_scheme="http",
        ).create_dir(name)
        return f"abfss://{name}@{ACCOUNT}.dfs.core.windows.net"

    def command(self) -> Sequence[str]:
        return [
            *(self._node, str(self._program), "--blobPort", str(self.port), "--inMemoryPersistence"),
            *("--silent", "--disableTelemetry"),
            "--skipApiVersionCheck",  # Arrow's library is newer than Azurite's newest release.
        ]

    def environment(self) -> Mapping[str, str]:
        return {**super().environment(), "AZURITE_ACCOUNTS": f"{ACCOUNT}:{SECRET}"}

    def is_ready(self) -> bool:
        return is_listening(self.port)


def signature(permissions: str, container: str, expires: dt.datetime, secret: str = SECRET) -> str:
    """A token of a container that grants what its letters say: r, a, c, w, d, l. Microsoft documents its fields."""
    ends = expires.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    place = f"/blob/{ACCOUNT}/{container}"
    fields = [permissions, "", ends, place, "", "", "https,http", _VERSION, "c", *[""] * 7]
    digest = hmac.new(base64.b64decode(secret), "\n".join(fields).encode(), hashlib.sha256).digest()
    return urlencode(
        {
            "sv": _VERSION,
            "sr": "c",
            "sp": permissions,
            "se": ends,
            "spr": "https,http",
            "sig": base64.b64encode(digest).decode(),
        }
    )
