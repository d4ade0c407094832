"""Karapace and `sordini registry` in one group over one topic: each elects, forwards to and takes over from the other.

    python -m tests.registry.beside_karapace --source FOLDER --python PATH

FOLDER is the `src` of Karapace's repository, PATH a Python that has its dependencies. Prints each step with what was
answered; ends with 1 if one was not reached. docs/evidence/registry.md has the result.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from tests.outside.ports import free_port
from tests.outside.processes import OutsideProcess, SordiniProcess
from tests.registry.journal.rest_process import RestProcess

GROUP = "schema-registry"
SECONDS_MAX = 60.0
TYPE = {"Content-Type": "application/vnd.schemaregistry.v1+json"}


class KarapaceProcess(OutsideProcess):
    """Karapace's registry, from its source."""

    name = "karapace"
    start_seconds_max = 90.0

    def __init__(
        self, directory: Path, bootstrap: str, source: Path, python: Path, settings: Mapping[str, str] | None = None
    ) -> None:
        """`settings` are more of Karapace's own, by their names without KARAPACE_."""
        self.port = free_port()
        super().__init__(directory)
        self._bootstrap, self._source, self._python = bootstrap, source, python
        self._settings = settings or {}

    def command(self) -> list[str]:
        return [str(self._python), "-m", "karapace"]

    def environment(self) -> dict[str, str]:
        own = {
            "BOOTSTRAP_URI": self._bootstrap,
            "HOST": "127.0.0.1",
            "PORT": str(self.port),
            "ADVERTISED_HOSTNAME": "127.0.0.1",
            "ADVERTISED_PORT": str(self.port),
            "KARAPACE_REGISTRY": "true",
            "LOG_LEVEL": "INFO",
            **self._settings,
        }
        named = {f"KARAPACE_{name}": value for name, value in own.items()}
        return {**super().environment(), **named, "PYTHONPATH": str(self._source)}

    def is_ready(self) -> bool:
        return answer(self.port, "GET", "/subjects") is not None


def answer(port: int, method: str, path: str, body: object = None) -> Any:
    """What a registry answers; None for an error."""
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, None if body is None else json.dumps(body), TYPE)
        response = connection.getresponse()
        found = json.loads(response.read())
    except (OSError, HTTPException, ValueError):
        return None
    finally:
        connection.close()
    return found if response.status < 400 else None


class Steps:
    """What has to be reached, one after the other."""

    def __init__(self) -> None:
        self.missed = 0

    def reach(self, what: str, attempt: Callable[[], Any], expected: Any) -> None:
        """Try again until the answer is the expected one."""
        began = time.monotonic()
        while (found := attempt()) != expected and time.monotonic() - began < SECONDS_MAX:
            time.sleep(0.2)
        is_reached = found == expected
        self.missed += not is_reached
        verdict = "reached" if is_reached else f"MISSED, {expected} was expected"
        sys.stdout.write(f"{verdict} in {time.monotonic() - began:.1f} s: {what}: {found}\n")


def register(port: int, subject: str, kind: str) -> Callable[[], Any]:
    """Registers a primitive Avro type."""
    return lambda: answer(port, "POST", f"/subjects/{subject}/versions", {"schema": json.dumps({"type": kind})})


@contextmanager
def killed(process: OutsideProcess) -> Iterator[None]:
    """It is ended at the end, however it is then."""
    try:
        yield
    finally:
        process.kill()


def run(directory: Path, source: Path, python: Path) -> int:
    """How many steps were missed."""
    steps = Steps()
    with SordiniProcess(directory / "broker", {"group.initial.rebalance.delay.ms": 0}) as broker:
        theirs = KarapaceProcess(directory / "karapace", broker.bootstrap, source, python)
        ours = RestProcess(directory / "sordini", broker.bootstrap, "_schemas", GROUP)
        with killed(theirs), killed(ours):
            theirs.start()
            steps.reach("Karapace registers as the only one", register(theirs.port, "a", "string"), {"id": 1})
            ours.start()
            steps.reach("Sordini reads its record", lambda: answer(ours.port, "GET", "/subjects"), ["a"])
            steps.reach("Sordini registers while both run", register(ours.port, "b", "int"), {"id": 2})
            steps.reach("Karapace reads it", lambda: answer(theirs.port, "GET", "/subjects"), ["a", "b"])
            steps.reach("Karapace, which does not write, forwards", register(theirs.port, "c", "int"), {"id": 2})
            theirs.stop()
            steps.reach("Sordini writes when Karapace has left", register(ours.port, "d", "long"), {"id": 3})
            theirs.start()
            steps.reach("Karapace forwards when it is back", register(theirs.port, "e", "bytes"), {"id": 4})
            ours.kill()
            steps.reach("Karapace writes when Sordini was killed", register(theirs.port, "f", "double"), {"id": 5})
            ours.start()
            steps.reach("Sordini reads it", lambda: answer(ours.port, "GET", "/subjects"), [*"abcdef"])
    return steps.missed


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--python", type=Path, required=True)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        raise SystemExit(1 if run(Path(directory), given.source, given.python) else 0)


if __name__ == "__main__":
    main()
