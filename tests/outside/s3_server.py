"""A real S3 server over a folder: Versity's gateway. Its conditional puts are atomic (tests/pipeline/test_stores.py)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from sordini.pipeline.tables.object_storage import Keys, ObjectStorage
from tests.outside.needs import need_s3_server
from tests.outside.ports import free_port, is_listening
from tests.outside.processes import OutsideProcess

KEYS = Keys("tester", "a-secret-of-the-tests")
REGION = "us-east-1"


class S3Server(OutsideProcess):
    """Buckets are folders of `directory`/buckets."""

    name = "s3"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._program = need_s3_server()
        self.port = free_port()
        (directory / "buckets").mkdir(exist_ok=True)

    @property
    def endpoint(self) -> str:
        return self.endpoint_at(self.port)

    @staticmethod
    def endpoint_at(port: int) -> str:
        """Its address, or that of a proxy before it."""
        return f"http://127.0.0.1:{port}"

    @property
    def storage(self) -> ObjectStorage:
        return ObjectStorage(self.endpoint, REGION, KEYS, allow_http=True)

    @property
    def settings(self) -> dict[str, object]:
        """What else a job file's `storage` has of it."""
        keys = {"access_key": KEYS.access_key, "secret_key": KEYS.secret_key}
        return {"region": REGION, "credentials": keys}

    def make_bucket(self, name: str) -> str:
        """Its URI. A folder is a bucket."""
        (self.directory / "buckets" / name).mkdir()
        return f"s3://{name}"

    def command(self) -> Sequence[str]:
        return [
            str(self._program),
            "--quiet",
            "--port",
            f"127.0.0.1:{self.port}",
            "posix",
            str(self.directory / "buckets"),
        ]

    def environment(self) -> Mapping[str, str]:
        return {**os.environ, "ROOT_ACCESS_KEY": KEYS.access_key, "ROOT_SECRET_KEY": KEYS.secret_key}

    def is_ready(self) -> bool:
        return is_listening(self.port)
