"""The folder of a Spark checkpoint: a path on this machine, or a URI of an object store (by pyarrow)."""

from __future__ import annotations

from typing import Any, Final

from sordini.admin.failure import Failure
from sordini.cli.common.input_files import read_text
from sordini.client.lag.spark_offsets import CheckpointFolder
from sordini.storage.disk import SystemDisk

HADOOP_SCHEMES: Final = {"s3a": "s3", "s3n": "s3"}
"""Spark's names of S3, and pyarrow's."""
FILE_BYTES_MAX: Final = 64 * 1024 * 1024


def open_checkpoint(location: str) -> CheckpointFolder:
    """Raises Failure."""
    scheme, has_scheme, rest = location.rstrip("/").partition("://")
    if not has_scheme or scheme == "file":
        return LocalFolder(location.removeprefix("file://").rstrip("/") or "/")
    return RemoteFolder(location.rstrip("/"), f"{HADOOP_SCHEMES.get(scheme, scheme)}://{rest}")


class LocalFolder:
    """On a disk of this machine."""

    def __init__(self, path: str) -> None:
        self.location = path
        self._disk = SystemDisk()
        if not self._disk.is_directory(path):
            raise Failure(f"{path}: there is no such directory")

    def names(self, folder: str) -> list[str]:
        try:
            return self._disk.list_directory(f"{self.location}/{folder}")
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise Failure(f"{self.location}/{folder}: {(error.strerror or str(error)).lower()}") from None

    def text_of(self, name: str) -> str | None:
        path = f"{self.location}/{name}"
        return read_text(path) if self._disk.exists(path) else None


class RemoteFolder:
    """In an object store, with the credentials that its libraries find (of S3: AWS_ACCESS_KEY_ID, profiles, roles)."""

    def __init__(self, location: str, uri: str) -> None:
        self.location = location
        try:
            from pyarrow import fs  # An extra, and slow to import.
        except ImportError:
            raise Failure(f"{location}: pyarrow reads object stores, install sordini[spark]") from None
        self._fs: Any = fs
        try:
            self._files, self._root = fs.FileSystem.from_uri(uri)
        except (OSError, ValueError) as error:
            raise Failure(f"{location} cannot be used: {error}") from None

    def names(self, folder: str) -> list[str]:
        selector = self._fs.FileSelector(f"{self._root}/{folder}", allow_not_found=True)
        try:
            return sorted(info.base_name for info in self._files.get_file_info(selector))
        except OSError as error:
            raise Failure(f"{self.location}/{folder} cannot be listed: {error}") from None

    def text_of(self, name: str) -> str | None:
        path = f"{self._root}/{name}"
        try:
            info = self._files.get_file_info(path)
            if info.type is not self._fs.FileType.File:
                return None
            if info.size > FILE_BYTES_MAX:
                raise Failure(f"{self.location}/{name}: more than {FILE_BYTES_MAX} bytes")
            with self._files.open_input_stream(path) as stream:
                return bytes(stream.read()).decode()
        except (OSError, UnicodeDecodeError) as error:
            raise Failure(f"{self.location}/{name} cannot be read: {error}") from None
