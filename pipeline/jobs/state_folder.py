"""The folder of a job's state: small JSON files, written atomically, and a lock.

    .sordini/views/
        lock                        held while a job writes (on a local disk)
        started.json                where the first run began
        topics.json                 the ids of the topics, to notice one that was deleted and made again
        load/intent.json            the piece that is being loaded, written before anything of it is
        load/done.json              the last piece that is completely in the sink and the dead letters
        stream/current.json         which of Spark's checkpoints is in force, see checkpoints.py
        stream/0/                   a checkpoint, Spark's own

On a local disk a temporary file is written, fsynced and renamed; object stores write objects atomically.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyarrow import fs

from sordini.pipeline.errors import PipelineError


class StateError(PipelineError):
    """The state of a job cannot be read or written, or another run holds it."""


class StateFolder:
    """A folder by path or URI (of pyarrow.fs: file, s3, gs, hdfs, ...). The first file creates it."""

    def __init__(self, location: str) -> None:
        self.location = location.rstrip("/")
        try:
            self._files, self._root = fs.FileSystem.from_uri(self.location)
        except (OSError, ValueError) as error:
            raise StateError(f"the state's folder {location} cannot be used: {error}") from None

    def below(self, name: str) -> StateFolder:
        """A folder in this one."""
        return StateFolder(f"{self.location}/{name}")

    def read(self, name: str) -> dict[str, Any] | None:
        """The contents of a JSON file; None if it does not exist. Raises StateError."""
        text = self.read_text(name)
        if text is None:
            return None
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise StateError(f"{self.location}/{name} is damaged: remove it, the tables have the position")
        return found

    def read_text(self, name: str) -> str | None:
        """A file's text; None if it does not exist. Raises StateError."""
        path = f"{self._root}/{name}"
        try:
            if self._files.get_file_info(path).type is not fs.FileType.File:
                return None
            with self._files.open_input_stream(path) as stream:
                return bytes(stream.read()).decode()
        except (OSError, UnicodeDecodeError) as error:
            raise StateError(f"{self.location}/{name} cannot be read: {error}") from None

    def write(self, name: str, value: Mapping[str, Any]) -> None:
        """Write or replace a file; it survives a crash once this returns. Raises StateError."""
        data = json.dumps(value, indent=1, sort_keys=True).encode()
        path = f"{self._root}/{name}"
        try:
            if isinstance(self._files, fs.LocalFileSystem):
                _write_local(Path(path), data)
                return
            with self._files.open_output_stream(path) as stream:
                stream.write(data)
        except OSError as error:
            raise StateError(f"{self.location}/{name} cannot be written: {error}") from None

    def names(self, folder: str) -> list[str]:
        """The names in a folder; none if it does not exist."""
        selector = fs.FileSelector(f"{self._root}/{folder}", allow_not_found=True)
        try:
            return sorted(info.base_name for info in self._files.get_file_info(selector))
        except OSError as error:
            raise StateError(f"{self.location}/{folder} cannot be listed: {error}") from None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the job against other runs, if the folder is on a local disk. Raises StateError."""
        if not isinstance(self._files, fs.LocalFileSystem):
            yield
            return
        folder = Path(self._root)
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise StateError(f"another run of this job is under way (it holds {folder / 'lock'})") from None
            yield


def _write_local(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.new")
    with beside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
