"""Karapace answers the requests of the transcripts anew: `make registry-judge ARGS="--source FOLDER --python PATH"`.

FOLDER is the `src` of Karapace's repository, PATH a Python that has its dependencies. Each transcript has a registry of
its own, with a topic and a group of its own, on one broker of ours. What ours answers is written by
`UPDATE=1 pytest tests/registry/judge`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path

from tests.outside.processes import SordiniProcess
from tests.registry.beside_karapace import TYPE, KarapaceProcess, answer, killed
from tests.registry.judge.transcript import Answered, Block, Exchange, compact, parsed, paths, rendered, replayed
from tests.support.registry_requests import Texts

WRITABLE_S_MAX = 60.0


def exchange_with(port: int) -> Callable[[str], str | None]:
    """Sends a request of a transcript to a registry: its status, and its body without spaces."""
    texts = Texts()

    def send(line: str) -> str | None:
        request = texts.request(line)
        if request is None:
            return None
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            body = None if request.body is None else request.body.encode()
            connection.request(request.method, request.target, body, TYPE)
            response = connection.getresponse()
            return f"{response.status} {compact(response.read().decode())}"
        finally:
            connection.close()

    return send


def recorded(blocks: list[Block], answers: list[list[str]]) -> list[Block]:
    """The transcript with these answers of the judge; what ours answered stays until it is compared again."""
    return [
        block._replace(exchanges=[_recorded(*pair) for pair in zip(block.exchanges, rows, strict=True)])
        for block, rows in zip(blocks, answers, strict=True)
    ]


def _recorded(exchange: Exchange, theirs: str) -> Exchange:
    former = exchange.answered or Answered(theirs)
    return exchange._replace(answered=former._replace(theirs=theirs))


def wait_until_writable(port: int) -> None:
    """It writes some seconds after it was elected: a setting that changes nothing is answered from then on."""
    deadline = time.monotonic() + WRITABLE_S_MAX
    while answer(port, "PUT", "/config", {"compatibility": "BACKWARD"}) is None:
        assert time.monotonic() < deadline, "Karapace does not write"
        time.sleep(0.2)


def record(folder: Path, bootstrap: str, path: Path, source: Path, python: Path) -> None:
    name = f"judge-{path.stem}"
    settings = {"TOPIC_NAME": name, "GROUP_ID": name}
    karapace = KarapaceProcess(folder / path.stem, bootstrap, source, python, settings)
    with killed(karapace):
        karapace.start()
        wait_until_writable(karapace.port)
        blocks = parsed(path.read_text(encoding="utf-8"))
        answers = replayed(blocks, exchange_with(karapace.port))
    path.write_text(rendered(recorded(blocks, answers)), encoding="utf-8")
    sys.stdout.write(f"{path.stem}: {sum(map(len, answers))} answers\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--python", type=Path, required=True)
    parser.add_argument("names", nargs="*", help="of transcripts; all without any")
    given = parser.parse_args()
    chosen = [path for path in paths() if not given.names or path.stem in given.names]
    settings: dict[str, object] = {"group.initial.rebalance.delay.ms": 0}
    with tempfile.TemporaryDirectory() as folder, SordiniProcess(Path(folder) / "broker", settings) as broker:
        for path in chosen:
            record(Path(folder), broker.bootstrap, path, given.source, given.python)


if __name__ == "__main__":
    main()
