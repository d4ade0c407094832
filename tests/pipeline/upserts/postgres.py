"""A PostgreSQL of Debian's on 127.0.0.1, as a user other than root, with logical decoding to wal2json."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

from tests.outside.needs import need
from tests.outside.ports import free_port

PROGRAMS: Final = Path("/usr/lib/postgresql")
SLOT: Final = "changes"
START_SECONDS_MAX: Final = 60.0
# Commits are synchronous: logical decoding returns what has left PostgreSQL's buffers, and a round's changes are to be
# all there when they are taken.
SETTINGS: Final = {
    "wal_level": "logical",
    "fsync": "off",
    "listen_addresses": "127.0.0.1",
    "max_wal_size": "4GB",
    "autovacuum": "on",
}


def need_postgres() -> Path:
    """The folder of PostgreSQL's programs; skips, or fails in CI, where it or wal2json is missing."""
    found = sorted(PROGRAMS.glob("*/bin/postgres"))
    plugins = sorted(PROGRAMS.glob("*/lib/wal2json.so"))
    cure = "`python3 scripts/outside.py postgres`, as root, installs it"
    need(found and plugins, "PostgreSQL with wal2json", cure)
    return plugins[-1].parent.parent / "bin"


class Postgres:
    """A server with its data in a folder, and one slot of logical decoding."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._programs = need_postgres()
        self._port = free_port()
        self._server: subprocess.Popen[bytes] | None = None
        self._user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True)
        if os.geteuid() == 0:
            # PostgreSQL does not run as root. Its own user has to get to the folder.
            account = pwd.getpwnam(self._user)
            os.chown(self._folder, account.pw_uid, account.pw_gid)
            for parent in self._folder.parents[:-1]:
                if not parent.stat().st_mode & 0o001:
                    parent.chmod(parent.stat().st_mode | 0o011)
        data = self._folder / "data"
        self._run("initdb", "--no-sync", "--encoding=UTF8", "--locale=C", "--auth=trust", "-D", str(data))
        options = [part for name, value in SETTINGS.items() for part in ("-c", f"{name}={value}")]
        command = self._command("postgres", "-D", str(data), "-p", str(self._port), "-k", str(self._folder), *options)
        with (self._folder / "postgres.log").open("wb") as log:
            self._server = subprocess.Popen(command, stdout=log, stderr=log, cwd="/")
        self._wait()
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.terminate()
            self._server.wait(60)

    def run(self, text: str) -> str:
        """Run SQL; what it printed, unaligned, with tabs between columns. Raises AssertionError."""
        done = subprocess.run(self._psql(), input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def create_slot(self) -> None:
        self.run(f"SELECT pg_create_logical_replication_slot('{SLOT}', 'wal2json');")

    def take_changes(self, count_max: int) -> Iterator[str]:
        """About so many changes that were not taken yet, in whole transactions: lines of wal2json's format 2."""
        options = "'format-version', '2', 'include-lsn', 'true', 'include-xids', 'true'"
        text = f"SELECT data FROM pg_logical_slot_get_changes('{SLOT}', NULL, {count_max}, {options});"
        yield from self.run(text).splitlines()

    def export(self, query: str, path: Path) -> None:
        """Write the rows of a query as CSV with a header."""
        with path.open("wb") as file:
            text = f"COPY ({query}) TO STDOUT WITH (FORMAT csv, HEADER true);"
            subprocess.run(self._psql(), input=text.encode(), stdout=file, check=True)

    def _psql(self) -> list[str]:
        options = ["-X", "-q", "-A", "-t", "-F", "\t", "-v", "ON_ERROR_STOP=1"]
        return [
            str(self._programs / "psql"),
            "-h",
            "127.0.0.1",
            "-p",
            str(self._port),
            "-U",
            self._user,
            *options,
            "postgres",
        ]

    def _command(self, program: str, *arguments: str) -> list[str]:
        command = [str(self._programs / program), *arguments]
        if os.geteuid() == 0:
            setpriv = shutil.which("setpriv")
            assert setpriv is not None, "it is part of util-linux"
            return [setpriv, f"--reuid={self._user}", f"--regid={self._user}", "--init-groups", *command]
        return command

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(self._command(program, *arguments), capture_output=True, text=True, check=False, cwd="/")
        assert done.returncode == 0, done.stderr

    def _wait(self) -> None:
        assert self._server is not None
        deadline = time.monotonic() + START_SECONDS_MAX
        while subprocess.run([*self._psql(), "-c", "SELECT 1"], capture_output=True, check=False).returncode:
            assert self._server.poll() is None, (self._folder / "postgres.log").read_text()
            assert time.monotonic() < deadline, "PostgreSQL has not started"
            time.sleep(0.1)
