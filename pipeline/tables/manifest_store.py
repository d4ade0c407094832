"""Keeps a manifest on a file system and moves files as it says, so that a plain listing shows committed files only.

Staged files lie in `_sordini/staging/<attempt>` and end in `.staged`: no reader that lists the folder takes them for
the table's. A commit is one rename, that of `commit.json`. What it says is carried out after that: files go out, files
come in (in this order: a listing may lack rows for a moment, it never has them twice), the manifest is replaced,
`commit.json` is deleted. Each step can be repeated, and whoever looks at the table next does so if need be.

All of it happens under a lock (flock), which the system lets go when its holder dies.
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
"""Readers that look into folders with an underscore, too, find nothing that ends in .parquet."""


class ManifestStore:
    """The notes of one Parquet table."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._manifest = folder / "_manifest.json"
        self._commit = folder / INSIDE / "commit.json"
        self._lock = folder / INSIDE / "lock"
        self.staging = folder / INSIDE / "staging"

    def current(self) -> Manifest | None:
        """The manifest that holds; what a dead writer left undone is carried out first. None if there is no table."""
        if not self._lock.exists():
            return None
        with self._locked():
            return self._finished()

    def commit(self, decide: Callable[[Manifest | None], Commit | None]) -> bool:
        """Commit what `decide` makes of the manifest that holds; False (and nothing is done) if it returns None."""
        self._lock.parent.mkdir(parents=True, exist_ok=True)
        with self._locked():
            commit = decide(self._finished())
            if commit is None:
                return False
            for source, _ in commit.moves:
                if not (self.staging / source).exists():
                    raise TableError(f"{self.staging / source} is gone: it was cleaned up, or lies on another machine")
            for folder in {(self.staging / source).parent for source, _ in commit.moves}:
                sync_folder(folder)
            self.note(commit)
            self.carry_out(commit)
            return True

    def note(self, commit: Commit) -> None:
        """The moment from which the commit holds."""
        write_atomically(self._commit, commit_text(commit))

    def carry_out(self, commit: Commit) -> None:
        """Move files as the commit says, and forget it when that is on the disk."""
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
        """Staged files of attempts to which nothing was added for so long."""
        if not self.staging.is_dir():
            return []
        since = time.time() - older_than_seconds
        attempts = [
            sorted(path for path in each.rglob("*") if path.is_file()) for each in sorted(self.staging.iterdir())
        ]
        old = [paths for paths in attempts if all(path.stat().st_mtime <= since for path in paths)]
        return [path for paths in old for path in paths]

    def forget_attempt(self, attempt: str) -> None:
        """Delete what is left of an attempt that has been committed, or compaction's that will not be."""
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
            # Moved before the writer died; anything else is damage.
            if not target.exists():
                raise TableError(f"{source} is part of the table, but it is gone") from None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._lock.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
