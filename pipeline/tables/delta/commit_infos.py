"""What the commits of a Delta table say of themselves (commitInfo), the newest first.

Every batch looks at the newest few, so these are read by their names: deltalake's history lists the whole log first,
which has a file for each commit of thirty days.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

import pyarrow.fs
from deltalake import DeltaTable

LOG: Final = "_delta_log"
NEAR: Final = 10
"""Commits that are read one by one."""
STEPS: Final = (100, 10_000)
"""How many are read by deltalake's history where these are not enough: other writers' commits, and compaction."""

CommitInfo = Mapping[str, Any]


class CommitInfos:
    """Of the commits up to one version of a table; none is read twice. `files` is the table's folder."""

    def __init__(
        self,
        table: DeltaTable,
        files: pyarrow.fs.FileSystem,
        storage_options: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.version = table.version()
        self._table = table
        self._files = files
        self._storage_options = storage_options
        self._read: list[CommitInfo] = []
        self._rest: Iterator[CommitInfo] = self._all()

    def __iter__(self) -> Iterator[CommitInfo]:
        """At most the last of STEPS; ends where the log was cleaned up."""
        at = 0
        while True:
            while at >= len(self._read):
                try:
                    more = next(self._rest, None)
                except BaseException:  # All of them - the log would end here to the next reader.
                    self._rest = islice(self._all(), len(self._read), None)
                    raise
                if more is None:
                    return
                self._read.append(more)
            yield self._read[at]
            at += 1

    def _all(self) -> Iterator[CommitInfo]:
        oldest = max(self.version - NEAR, -1)
        for at in range(self.version, oldest, -1):
            info = _commit_info(f"{LOG}/{at:020}.json", self._files)
            if info is None:
                return
            yield info
        if oldest >= 0:
            yield from self._farther()

    def _farther(self) -> Iterator[CommitInfo]:
        # The history begins with the newest commit, whatever version of the table it is asked of.
        newest = DeltaTable(self._table.table_uri, storage_options=dict(self._storage_options)).version()
        seen = newest - self.version + NEAR
        for limit in STEPS:
            infos = self._table.history(limit)
            yield from infos[seen:]
            if len(infos) < limit:
                return
            seen = max(seen, len(infos))


def _commit_info(path: str, files: pyarrow.fs.FileSystem) -> CommitInfo | None:
    """Empty for a commit without one, as some writers make; None for a commit that is gone."""
    try:
        with files.open_input_file(path) as file:
            text = bytes(file.read())
    except FileNotFoundError:
        return None
    # Most lines are other actions, and long; the name of the action is at the beginning of its line.
    line = next((line for line in text.splitlines() if b'"commitInfo"' in line[:20]), None)
    return {} if line is None else dict(json.loads(line)["commitInfo"] or {})
