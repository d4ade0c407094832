"""Spark with a connector of Delta or Iceberg, beside a table of ours: what `table_engine.py` does, in its own process."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tests.outside.java import QUICK_COMPILER
from tests.outside.needs import need_delta, need_iceberg

Rows = list[list[Any]]
END_SECONDS = 60


class Engine:
    """One process; it can be given any number of tables."""

    def __init__(self, kind: str, process: subprocess.Popen[str]) -> None:
        self.kind = kind
        self._process = process

    def answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "it has ended"
        return json.loads(line)

    def sql(self, location: str, statement: str) -> Rows:
        """The rows of a statement, in which {table} is the table at the location."""
        return self._asked(location, sql=statement.format(table=self.name_of(location)))

    def rows(self, location: str, columns: str = "id, at, name") -> Rows:
        return self.sql(location, f"SELECT {columns} FROM {{table}} ORDER BY id, at")

    def stream(self, location: str, checkpoint: Path, **options: str) -> Rows:
        """What a stream with this checkpoint reads of the table until now."""
        return self._asked(location, stream=options, checkpoint=str(checkpoint))

    def delete_equal(self, location: str, file: Path, *, field: int, rows: int) -> None:
        """Commit a Parquet file of an Iceberg table's keys as an equality delete."""
        self._asked(location, equality=str(file), field=field, rows=rows)

    def name_of(self, location: str) -> str:
        return f"delta.`{location}`" if self.kind == "delta" else f"sordini.default.{Path(location).name}"

    def _asked(self, location: str, **request: Any) -> Rows:
        if self.kind == "iceberg":
            # Its driver keeps reading transactions open, for which a writer of the plain journal would wait.
            with closing(sqlite3.connect(f"{location}/catalog.db")) as catalog:
                catalog.execute("PRAGMA journal_mode = WAL")
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"location": location, **request}) + "\n")
        self._process.stdin.flush()
        found = self.answer()
        assert isinstance(found, list), found["error"][:2000]
        return found


@contextmanager
def started(kind: str, log: Path) -> Iterator[Engine]:
    """The engine, which ends with the block; what it reports beside its answers is in `log`."""
    if kind == "delta":
        packages, jars = need_delta()
        python = packages.parents[2] / "bin" / "python"
    else:
        python, jars = need_iceberg()
    command = [
        str(python),
        str(Path(__file__).with_name("table_engine.py")),
        kind,
        ",".join(map(str, jars)),
        QUICK_COMPILER,
    ]
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYSPARK"))}
    pipe = subprocess.PIPE
    with (
        log.open("w", encoding="utf-8") as errors,
        subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, text=True, env=environment) as process,
    ):
        try:
            engine = Engine(kind, process)
            assert engine.answer() == "ready"
            yield engine
            assert process.stdin is not None
            process.stdin.close()
            process.wait(END_SECONDS)
        finally:
            process.kill()
