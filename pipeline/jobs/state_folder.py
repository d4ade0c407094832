"""The folder of a job's state: small JSON files, written atomically, and a lock.

    .sordini/views/
        lock, lock.json             held while a job writes: on a local disk, in an object store (state_lock.py)
        started.json                where the first run began
        topics.json                 the ids of the topics, to notice one that was deleted and made again
        load/intent.json            the piece that is being loaded, written before anything of it is
        load/done.json              the last piece that is completely in the sink and the dead letters
        stream/current.json         which of Spark's checkpoints is in force, see checkpoints.py
        stream/0/                   a checkpoint, Spark's own; in an object store its mirror (checkpoint_mirror.py)

How files are written: state_files.py.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from sordini.pipeline.jobs import state_lock
from sordini.pipeline.jobs.checkpoint_mirror import CheckpointMirror
from sordini.pipeline.jobs.state_files import LocalFiles, StateError, StateFiles, StoreFiles
from sordini.pipeline.tables.local_files import local_path
from sordini.pipeline.tables.object_storage import NOWHERE, ObjectStorage, store_of

if TYPE_CHECKING:
    from sordini.pipeline.jobs.job import Job

__all__ = ["StateError", "StateFolder", "job_state"]


def job_state(job: Job) -> StateFolder:
    """The state of a job, reached as the job's `storage` says."""
    return StateFolder(job.state, job.storage)


class StateFolder:
    """A folder by its path, or by a URI of file, s3, gs, az. The first file creates it."""

    def __init__(self, location: str, storage: ObjectStorage = NOWHERE) -> None:
        self.location = location.rstrip("/")
        self._storage = storage
        self._files: StateFiles
        if store_of(self.location):
            self._files = StoreFiles(self.location, storage)
            return
        folder = local_path(self.location)
        if folder is None:
            raise StateError(f"the state's folder {location} cannot be used: it can be a folder, s3://, gs:// or az://")
        self._files = LocalFiles(folder)

    def below(self, name: str) -> StateFolder:
        """A folder in this one."""
        return StateFolder(f"{self.location}/{name}", self._storage)

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
        data = self._files.read(name)
        try:
            return None if data is None else data.decode()
        except UnicodeDecodeError as error:
            raise StateError(f"{self.location}/{name} cannot be read: {error}") from None

    def write(self, name: str, value: Mapping[str, Any]) -> None:
        """Write or replace a file; it survives a crash once this returns. Raises StateError."""
        self._files.write(name, json.dumps(value, indent=1, sort_keys=True).encode())

    def names(self, folder: str) -> list[str]:
        """The names in a folder; none if it does not exist."""
        return self._files.names(folder)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the job against other runs. Raises StateError."""
        if isinstance(self._files, StoreFiles):
            with state_lock.held(self._files, self.location):
                yield
            return
        assert isinstance(self._files, LocalFiles), "there are two kinds"
        folder = self._files.root
        lock = folder / "lock"
        with ExitStack() as held:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                file = held.enter_context(lock.open("a+"))
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StateError(f"another run of this job is under way (it holds {lock})") from None
            except OSError as error:
                raise StateError(f"{lock} cannot be locked: {error.strerror} (`state` says where it is)") from None
            yield

    @contextmanager
    def checkpoint(self, folder: str, *, is_local: bool) -> Iterator[CheckpointMirror | None]:
        """A checkpoint of an object store in a working folder for Spark; None where Spark uses it in its place.

        `is_local` is whether all of Spark is on this machine. Raises StateError.
        """
        if not isinstance(self._files, StoreFiles):
            yield None
            return
        place = f"{self.location}/{folder}"
        with CheckpointMirror.opened(self._files, folder, place, self._storage, is_local=is_local) as mirror:
            yield mirror
