"""Spark's checkpoint of a query whose state is in an object store: a working folder, and its mirror in the store.

Spark writes checkpoints through Hadoop's file systems, and has none for object stores without JARs. So it gets a
folder, and the store is authoritative: a query begins by copying the mirror into the folder, whatever was there.

Before each batch is written to its table, everything new in the folder is put into the store: first the state of open
windows, then the commit of the batch before, then the plan of this batch. So the table never has a batch that the
mirror does not know, and on any machine a query continues as if its folder had come along: the planned batch is
repeated, the table recognises it, and open windows are there. Plans and commits are put only where there are none: of
two runs that plan the same batch, one is refused before it has written anything.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sordini.pipeline.jobs.state_files import StateError, StoreFiles
from sordini.pipeline.tables.object_storage import ObjectStorage

LAST: Final = ("commits", "offsets")
"""Put after all other files, in this order; these files never change."""
_THREADS: Final = 8
_Stamp = tuple[int, int]
"""Size, and time of the last change in nanoseconds."""


class CheckpointMirror:
    """One checkpoint. Its files are named by paths below it."""

    def __init__(self, files: StoreFiles, folder: str, working: Path) -> None:
        self._files = files
        self._folder = folder
        self.working = working
        self._put: dict[str, _Stamp] = {}
        """What the store has."""

    @classmethod
    @contextmanager
    def opened(
        cls, files: StoreFiles, folder: str, location: str, storage: ObjectStorage, *, is_local: bool
    ) -> Iterator[CheckpointMirror]:
        """Copy the mirror into a folder that no other process of this machine has. Raises StateError."""
        if not is_local and not storage.working_folder:
            raise StateError(
                f"the state is at {location}, and Spark's executors are on other machines: storage.working_folder has "
                "to name a folder that all of them share, for Spark's checkpoints while the job runs"
            )
        base = Path(storage.working_folder or Path(tempfile.gettempdir()) / f"sordini-checkpoints-{os.getuid()}")
        working = base / hashlib.sha256(location.encode()).hexdigest()[:32]
        try:
            working.mkdir(parents=True, exist_ok=True, mode=0o700)
            with (working / "lock").open("a+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                mirror = cls(files, folder, working / "checkpoint")
                mirror.restore()
                yield mirror
                shutil.rmtree(mirror.working, ignore_errors=True)
        except BlockingIOError:
            raise StateError(f"another run of this job is under way (it holds {working / 'lock'})") from None

    def restore(self) -> None:
        """Make the folder what the mirror is."""
        shutil.rmtree(self.working, ignore_errors=True)
        self.working.mkdir()
        names = sorted(self._files.below(self._folder))
        with ThreadPoolExecutor(_THREADS) as threads:
            list(threads.map(self._fetch, names))
        self._put = self._stamps()

    def store(self) -> None:
        """Put what is new or has changed into the store, and delete what Spark has deleted. Raises StateError."""
        now = self._stamps()
        changed = [name for name, stamp in now.items() if self._put.get(name) != stamp]
        with ThreadPoolExecutor(_THREADS) as threads:
            list(threads.map(self._send, [name for name in changed if name.split("/")[0] not in LAST]))
        for log in LAST:
            for name in sorted((name for name in changed if name.split("/")[0] == log), key=_number):
                self._files.put_once(f"{self._folder}/{name}", (self.working / name).read_bytes())
        if gone := sorted(self._put.keys() - now.keys()):
            self._files.delete([f"{self._folder}/{name}" for name in gone])
        self._put = now

    def _stamps(self) -> dict[str, _Stamp]:
        """All files but those that Spark is writing, and checksums, which begin with a dot."""
        found: dict[str, _Stamp] = {}
        for folder, below, names in os.walk(self.working):
            below[:] = [name for name in below if not name.startswith(".")]
            for name in names:
                path = Path(folder, name)
                if not name.startswith("."):
                    stat = path.stat()
                    found[str(path.relative_to(self.working))] = (stat.st_size, stat.st_mtime_ns)
        return found

    def _fetch(self, name: str) -> None:
        data = self._files.read(f"{self._folder}/{name}")
        path = self.working / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data or b"")

    def _send(self, name: str) -> None:
        self._files.put(f"{self._folder}/{name}", (self.working / name).read_bytes())


def _number(name: str) -> int:
    last = name.rpartition("/")[2]
    return int(last) if last.isdecimal() else -1
