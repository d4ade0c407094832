"""An emulator of Google's Cloud Storage. It has the JSON API; of the XML API, through which object_store lists and puts, it
lists nothing and has no conditional puts.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from sordini.pipeline.tables.object_storage import ObjectStorage
from tests.outside.needs import need_google_emulator
from tests.outside.ports import free_port, is_listening
from tests.outside.processes import OutsideProcess

BUCKET = "lake"
_HOUR_SECONDS = 3600


class GoogleServer(OutsideProcess):
    """One bucket, in its memory; any token will do."""

    name = "google"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._program = need_google_emulator()
        self.port = free_port()

    @property
    def storage(self) -> ObjectStorage:
        ends_ms = int((time.time() + _HOUR_SECONDS) * 1000)
        token = {"gcs.oauth2.token": "a-token", "gcs.oauth2.token-expires-at": str(ends_ms)}
        return ObjectStorage(options={"gcs.service.host": f"http://127.0.0.1:{self.port}", **token})

    def command(self) -> Sequence[str]:
        where = ("--host", "127.0.0.1", "--port", str(self.port))
        return [str(self._program), "start", *where, "--in-memory", "--default-bucket", BUCKET]

    def is_ready(self) -> bool:
        return is_listening(self.port)
