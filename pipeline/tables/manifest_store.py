"""Stores a manifest on a file system and moves the files, so that a plain listing shows committed files only.

Staged files are in `_sordini/staging/<attempt>` and end in `.staged`, so readers that list the folder skip them. A
commit is one rename, that of `commit.json`. After that files are removed, files are moved in (in this order: a listing
may lack rows for a moment, it never has them twice), the manifest is replaced and `commit.json` is deleted. Each step
can be repeated, and the next process that opens the table completes an interrupted commit.

All of it happens under a lock (flock), which the operating system releases when the process ends.
"""

from __future__ import annotations

import fcntl
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sordini.pipeline.tables.file_names import INSIDE
from sordini.pipeline.tables.local_files import sync_folder, write_atomically
from sordini.pipeline.tables.manifest import Commit, Manifest, commit_text, manifest_text, read_commit, read_manifest
from sordini.pipeline.tables.table import TableError

STAGED_SUFFIX = ".staged"
"""Not .parquet, for readers that also list folders with an underscore."""


class ManifestStore:
    """The manifest and staging folder of one Parquet table."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._manifest = folder / "_manifest.json"
        self._commit = folder / INSIDE / "commit.json"
        self._lock = folder / INSIDE / "lock"
        self.staging = folder / INSIDE / "staging"

    def current(self) -> Manifest | None:
        """The current manifest, after completing an interrupted commit. None if there is no table."""
        if not self._lock.exists():
            return None
        with self._locked():
            return self._finished()

    def commit(self, decide: Callable[[Manifest | None], Commit | None]) -> bool:
        """Commit what `decide` returns for the current manifest; False, without a change, if it returns None."""
        self._lock.parent.mkdir(parents=True, exist_ok=True)
        with self._locked():
            commit = decide(self._finished())
            if commit is None:
                return False
            for source, _ in commit.moves:
                if not (self.staging / source).exists():
                    raise TableError(f"{self.staging / source} was cleaned up, or is on another machine")
            for folder in {(self.staging / source).parent for source, _ in commit.moves}:
                sync_folder(folder)
            self.note(commit)
            self.carry_out(commit)
            return True

    def note(self, commit: Commit) -> None:
        """Write `commit.json`; the commit is in force from then on."""
        write_atomically(self._commit, commit_text(commit))

    def carry_out(self, commit: Commit) -> None:
        """Move the files of the commit, and delete `commit.json` when that is durable."""
        touched = set()
        for path in commit.removals:
            target = self.folder / path
            target.unlink(missing_ok=True)
            touched.add(target.parent)
        for source, path in commit.moves:
            target = self.folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            self._move(self.staging / source, target)
            touched.update((target.parent, target.parent.parent))
        for folder in touched:
            sync_folder(folder)
        write_atomically(self._manifest, manifest_text(commit.manifest))
        self._commit.unlink()

    def given_up(self, older_than_seconds: float) -> list[Path]:
        """Staged files of attempts that were not written to for this long."""
        if not self.staging.is_dir():
            return []
        since = time.time() - older_than_seconds
        attempts = [
            sorted(path for path in each.rglob("*") if path.is_file()) for each in sorted(self.staging.iterdir())
        ]
        old = [paths for paths in attempts if all(path.stat().st_mtime <= since for path in paths)]
        return [path for paths in old for path in paths]

    def forget_attempt(self, attempt: str) -> None:
        """Delete the files left by an attempt that was committed, or by an abandoned compaction."""
        shutil.rmtree(self.staging / attempt, ignore_errors=True)

    def _finished(self) -> Manifest | None:
        if self._commit.exists():
            commit = read_commit(self._commit.read_text(encoding="utf-8"), str(self._commit))
            self.carry_out(commit)
            return commit.manifest
        if not self._manifest.exists():
            return None
        return read_manifest(self._manifest.read_text(encoding="utf-8"), str(self._manifest))

    @staticmethod
    def _move(source: Path, target: Path) -> None:
        try:
            source.rename(target)
        except FileNotFoundError:
            # Moved before the writer crashed; anything else is damage.
            if not target.exists():
                raise TableError(f"{source} is part of the table, but does not exist") from None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._lock.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
