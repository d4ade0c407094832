"""What kafka-python, librdkafka and Java print when they meet a planted fault.

    python -m tests.doctor.collect FILE [--client C]... [NAME...]

FILE has all that they print, for `doctor/knowledge/client_messages.py`; what is in it already is kept.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.doctor.many_listeners import ManyListeners
from tests.doctor.planted import PLANTED, Case, World, plant
from tests.outside.java import ZooKeeperProcess
from tests.outside.needs import client_jars, kafka_jars
from tests.outside.processes import SordiniProcess
from tests.outside.versions import NEWEST_APACHE_KAFKA

PROGRAM = Path(__file__).with_name("client_program.py")
LOG4J = Path(__file__).parents[1] / "outside" / "log4j.properties"
CLIENTS = ("kafka-python", "librdkafka", "Java")
PRINTS_S_MAX = 120


def prints(client: str, case: Case) -> str:
    """Everything that a client prints."""
    given: dict[str, object] = {"bootstrap": case.bootstrap, "properties": dict(case.properties), "act": case.act}
    if client == "Java":
        given |= {"jars": list(map(str, java_jars())), "log4j": str(LOG4J)}
    words = [sys.executable, str(PROGRAM), client, json.dumps(given)]
    done = subprocess.run(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=PRINTS_S_MAX
    )
    return done.stdout


def java_jars() -> list[Path]:
    """The client of the newest release, and what it reads tokens with."""
    server = kafka_jars(NEWEST_APACHE_KAFKA)
    return [*client_jars(NEWEST_APACHE_KAFKA), *server.glob("jackson-*.jar"), *server.glob("jose4j-*.jar")]


def collected(case: Case, clients: Sequence[str] = CLIENTS) -> dict[str, str]:
    """What each prints, all at once."""
    with ThreadPoolExecutor() as pool:
        return dict(zip(clients, pool.map(lambda client: prints(client, case), clients), strict=True))


@contextmanager
def own_world(directory: Path) -> Iterator[World]:
    """As the fixture of the tests."""
    with ExitStack() as stack:
        started: list[str] = []

        def zookeeper() -> str:
            if not started:
                started.append(stack.enter_context(ZooKeeperProcess(directory / "zookeeper")).connect)
            return started[0]

        other = stack.enter_context(SordiniProcess(directory / "other"))
        many = ManyListeners(directory / "many", other.port)
        stack.enter_context(many.process)
        yield World(directory, many, zookeeper)


def main() -> None:
    parser = ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--client", action="append", choices=CLIENTS, dest="clients")
    parser.add_argument("names", nargs="*")
    given = parser.parse_intermixed_args()
    found = json.loads(given.file.read_text()) if given.file.exists() else {}
    with tempfile.TemporaryDirectory(prefix="doctor-") as folder, own_world(Path(folder)) as world:
        for name in given.names or PLANTED:
            with plant(name, world) as case:
                found.setdefault(name, {}).update(collected(case, given.clients or CLIENTS))
            given.file.write_text(json.dumps(found, indent=1))
            sys.stdout.write(f"{name}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
