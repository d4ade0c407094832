"""Small files of a job's state, in a folder or in an object store: read, replaced atomically, listed, deleted.

In a store a file is replaced only if it is as it was last seen here: the store compares (If-Match, If-None-Match), so
of two runs that write one name, one is refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from sordini.pipeline.errors import PipelineError
from sordini.pipeline.tables.object_storage import ObjectStorage
from sordini.pipeline.tables.store_client import is_missing, open_store, problem_of

if TYPE_CHECKING:
    from obstore.store import ObjectStore


DELETED_AT_ONCE: Final = 256
"""In one request, Azure's limit: of several requests, those after one that reports something may not be sent."""


class StateError(PipelineError):
    """The state of a job cannot be read or written, or another run holds it."""


class Conflict(StateError):
    """Another run has written a file since it was read here."""


class StateFiles(Protocol):
    """The files of one folder. Names may have slashes. All methods raise StateError."""

    def read(self, name: str) -> bytes | None:
        """The contents; None if there is no such file."""
        ...

    def write(self, name: str, data: bytes) -> None:
        """Write or replace a file; it survives a crash once this returns. Raises Conflict."""
        ...

    def names(self, folder: str) -> list[str]:
        """The names in a folder, in order; none if it does not exist."""
        ...


class LocalFiles:
    """On a disk."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def read(self, name: str) -> bytes | None:
        try:
            return (self.root / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except OSError as error:
            raise StateError(f"{self.root / name} cannot be read: {error.strerror}") from None

    def write(self, name: str, data: bytes) -> None:
        path = self.root / name
        beside = path.with_name(f".{path.name}.new")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
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
        except OSError as error:
            raise StateError(f"{path} cannot be written: {error.strerror}") from None

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(path.name for path in (self.root / folder).iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise StateError(f"{self.root / folder} cannot be listed: {error.strerror}") from None


class StoredFile(NamedTuple):
    """An object's contents, and the tag by which the store knows this version."""

    data: bytes
    tag: str


class StoreFiles:
    """In an object store."""

    def __init__(self, location: str, storage: ObjectStorage) -> None:
        self._location = location
        self._storage = storage
        self._options: dict[str, str] = {}
        self._opened: ObjectStore | None = None
        self._tags: dict[str, str | None] = {}
        """What the store had when a name was read or written last; None where there was nothing."""

    def read(self, name: str) -> bytes | None:
        found = self.version(name)
        return found.data if found else None

    def version(self, name: str) -> StoredFile | None:
        """The contents with their tag."""
        with self._words(name, "read"):
            try:
                got = self._store().get(name)
                found = StoredFile(bytes(got.bytes()), str(got.meta["e_tag"]))
            except FileNotFoundError as error:
                if not is_missing(error):
                    raise
                found = None
        self._tags[name] = found.tag if found else None
        return found

    def write(self, name: str, data: bytes) -> None:
        if name not in self._tags:
            self.version(name)
        tag = self._tags[name]
        with self._words(name, "written"):
            if self._put(name, data, tag):
                return
            # An answer may have been lost, and the put repeated: then what is there is ours.
            now = self.version(name)
        if now is None or now.data != data:
            raise Conflict(f"{self._location}/{name} was changed by another run of this job")

    def put_once(self, name: str, data: bytes) -> None:
        """Write a file that no run changes; nothing happens if it is there with these contents. Raises Conflict."""
        with self._words(name, "written"):
            if self._put(name, data, None):
                return
        now = self.version(name)
        if now is None or now.data != data:
            raise Conflict(f"{self._location}/{name} was written by another run of this job")

    def put(self, name: str, data: bytes) -> None:
        """Write or replace a file, whatever is there."""
        with self._words(name, "written"):
            self._store().put(name, data)

    def delete(self, names: list[str]) -> None:
        """Delete files that are there; nothing happens to others."""
        with self._words("", "deleted from"):
            for start in range(0, len(names), DELETED_AT_ONCE):
                try:
                    self._store().delete(names[start : start + DELETED_AT_ONCE])
                except FileNotFoundError as error:
                    if not is_missing(error):  # Azure reports them, S3 does not; the rest of the request is deleted.
                        raise

    def names(self, folder: str) -> list[str]:
        with self._words(folder, "listed"):
            found = self._store().list_with_delimiter(folder or None)
        paths = [each["path"] for each in found["objects"]] + list(found["common_prefixes"])
        return sorted({path.rstrip("/").rpartition("/")[2] for path in paths})

    def below(self, folder: str) -> dict[str, str]:
        """All names below a folder, without it, and their tags."""
        with self._words(folder, "listed"):
            listed = [each for page in self._store().list(folder) for each in page]
        return {each["path"].removeprefix(f"{folder}/"): str(each["e_tag"]) for each in listed}

    def _put(self, name: str, data: bytes, tag: str | None) -> bool:
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        mode: Any = "create" if tag is None else {"e_tag": tag}
        try:
            self._tags[name] = str(self._store().put(name, data, mode=mode, use_multipart=False)["e_tag"])
        except (AlreadyExistsError, PreconditionError):
            return False
        return True

    def _store(self) -> ObjectStore:
        options = self._storage.object_store_options(self._location)
        if self._opened is None or options != self._options:  # A provider's keys have changed.
            self._opened, self._options = open_store(self._location, options), options
        return self._opened

    @contextmanager
    def _words(self, name: str, done: str) -> Iterator[None]:
        try:
            yield
        except PipelineError:
            raise
        except Exception as error:  # All of them - obstore's have no common class with Python's own.
            where = f"{self._location}/{name}".rstrip("/")
            said = problem_of(error)
            raise StateError(f"{where} {said or f'cannot be {done}: {str(error).splitlines()[0]}'}") from error
