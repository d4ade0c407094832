"""The folder of a job's state: small files of JSON that are there whole or not at all, and one lock.

    .sordini/views/
        lock                        held while a job writes (on a local disk)
        started.json                where the first run began
        topics.json                 the ids of the topics, to notice one that was deleted and made again
        load/intent.json            the piece that is being loaded, written before anything of it is
        load/done.json              the last piece that is wholly in the sink and the dead letters
        stream/current.json         which of Spark's checkpoints is in force, see checkpoints.py
        stream/0/                   a checkpoint, Spark's own

On a local disk a file is written beside, synced and renamed; an object store shows an object only when it is whole.
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
    """A folder by path or URI (what pyarrow.fs knows: file, s3, gs, hdfs, ...). It is made with the first file."""

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
        """What a file of JSON says; None where there is none. Raises StateError."""
        text = self.read_text(name)
        if text is None:
            return None
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise StateError(f"{self.location}/{name} is damaged: remove it, and the job goes by the tables' own notes")
        return found

    def read_text(self, name: str) -> str | None:
        """A file's text; None where there is none. Raises StateError."""
        path = f"{self._root}/{name}"
        try:
            if self._files.get_file_info(path).type is not fs.FileType.File:
                return None
            with self._files.open_input_stream(path) as stream:
                return bytes(stream.read()).decode()
        except (OSError, UnicodeDecodeError) as error:
            raise StateError(f"{self.location}/{name} cannot be read: {error}") from None

    def write(self, name: str, value: Mapping[str, Any]) -> None:
        """Put a file there, in the place of what was; it survives a crash once this returns. Raises StateError."""
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
        """The names in a folder; none where there is no such folder."""
        selector = fs.FileSelector(f"{self._root}/{folder}", allow_not_found=True)
        try:
            return sorted(info.base_name for info in self._files.get_file_info(selector))
        except OSError as error:
            raise StateError(f"{self.location}/{folder} cannot be listed: {error}") from None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other runs of the job away; where the folder is not on a local disk nobody is. Raises StateError."""
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
