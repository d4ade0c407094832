"""Every client library in every state at one broker, and the requests that each sends in a while."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.compat.situations.waiting import until
from tests.compat.situations.wire import Broker
from tests.compat.spin.counting_proxy import CountingProxy
from tests.compat.spin.states import AGAIN, DOOMED, State, held_states, states
from tests.compat.waits.talks import create_again, delete, exists
from tests.outside.needs import ROOT, client_jars, need, need_java, need_program, need_python_clients
from tests.outside.versions import FRANZ_GO, NEWEST_APACHE_KAFKA, OLDEST_JAVA_CLIENT, go_module

PROGRAMS: Final = Path(__file__).with_name("programs")
NEW_PYTHON, OLD_PYTHON = (
    ("kafka-python", "aiokafka", "confluent-kafka"),
    ("old kafka-python", "old aiokafka", "old confluent-kafka"),
)
ALL_CLIENTS = (*NEW_PYTHON, *OLD_PYTHON, "java", "old java", "franz-go", "kcat")
FETCH: Final = 1
WINDOW_S: Final = 4.0
ARRIVAL_S_MAX: Final = 60.0
END_S_MAX: Final = 10.0
REQUESTS_MIN: Final = 2
"""Of a client that has begun."""
SETTLING_S: Final = 2.0
"""Until caches of clients and the broker's deletions have settled: what is counted is what goes on, not a transition."""
THAT_FETCH: Final = (": idle", ": deleted", ": only a deleted one", ": made again", ": subscribed to a deleted topic")
"""States in which a client fetches before its topics are deleted."""


class Sent(NamedTuple):
    """What one client sent in one state while the window was open."""

    requests: int
    apis: dict[int, int]


def clients_states(client: str, *, held: bool) -> list[State]:
    """kcat consumes one topic by assignment, or subscribes."""
    found = (held_states if held else states)(client.replace(" ", "-"))
    if client == "kcat":
        return [one for one in found if one.kind == "subscribe"]
    if client == "old kafka-python":
        return [one for one in found if one.kind != "transact"]
    return found


def client_id(client: str, state: State) -> str:
    return f"{client}: {state.name}"


def measure(
    broker: Broker, proxy: CountingProxy, clients: Sequence[str], folder: Path, *, held: bool = False
) -> dict[str, Sent]:
    """Requests in WINDOW_S of each client in each state, by client id; `held` are the states that the proxy makes."""
    former = proxy.counts()
    with ExitStack() as stack:
        for client in clients:
            stack.enter_context(_running(client, proxy.bootstrap, folder, held=held))
        expected = [client_id(client, state) for client in clients for state in clients_states(client, held=held)]
        _wait_for(lambda: proxy.counts() - former, expected)
        for topic in (DOOMED, AGAIN):
            delete(broker, topic)
            until(lambda topic=topic: exists(broker, topic), lambda there: not there)  # type: ignore[misc]
        create_again(broker, AGAIN)
        time.sleep(SETTLING_S)
        before = proxy.counts()
        time.sleep(WINDOW_S)
        counted = proxy.counts() - before
    return {name: _sent(name, counted) for name in expected}


def _sent(name: str, counted: Counter[tuple[str, int]]) -> Sent:
    apis = {key: number for (who, key), number in sorted(counted.items()) if who.startswith(name)}
    return Sent(sum(apis.values()), apis)


def _wait_for(counts: Callable[[], Counter[tuple[str, int]]], expected: Sequence[str]) -> None:
    """Every client has begun: it sent some requests, and fetches where it can."""
    deadline = time.monotonic() + ARRIVAL_S_MAX

    def missing() -> list[str]:
        requests: Counter[str] = Counter()
        for (who, key), number in counts().items():
            name = next((one for one in expected if who.startswith(one)), "")
            requests[name] += number
            requests[f"{name} fetches"] += number if key == FETCH else 0
        return [
            name
            for name in expected
            if requests[name] < REQUESTS_MIN or (name.endswith(THAT_FETCH) and not requests[f"{name} fetches"])
        ]

    while found := missing():
        assert time.monotonic() < deadline, f"these have not begun: {found}"
        time.sleep(0.05)


@contextmanager
def _running(client: str, bootstrap: str, folder: Path, *, held: bool) -> Iterator[None]:
    """The client's programs; they end with their standard input."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    started = []
    with (folder / f"{client.replace(' ', '-')}.log").open("w") as log:
        try:
            for command in _commands(client, bootstrap, held=held):
                pipes = {"stdin": subprocess.PIPE, "stdout": log, "stderr": log}
                process = subprocess.Popen(command, env=environment, cwd=folder, **pipes)  # type: ignore[call-overload]
                started += [process]
            yield
            for process in started:
                # kcat ends at the first error of a topic, and so sends nothing more.
                assert client == "kcat" or process.poll() is None, f"{client} ended by itself: {log.name}"
        finally:
            for process in started:
                _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """What does not end with its standard input at once is killed: there is nothing to save."""
    assert process.stdin is not None
    process.stdin.close()
    process.kill()
    process.wait(END_S_MAX)


def _commands(client: str, bootstrap: str, *, held: bool) -> list[list[str]]:
    rows = [{**one._asdict(), "client_id": client_id(client, one)} for one in clients_states(client, held=held)]
    if client == "kcat":
        return [_kcat(bootstrap, row) for row in rows]
    library = client.removeprefix("old ")
    task: dict[str, Any] = {"bootstrap": bootstrap, "states": rows, "library": library}
    if library == "franz-go":
        return [[str(franz_go()), json.dumps(task)]]
    if library == "java":
        need_java()
        release = OLDEST_JAVA_CLIENT if client.startswith("old") else NEWEST_APACHE_KAFKA
        task |= {"jars": [str(jar) for jar in client_jars(release)], "is_old": client.startswith("old")}
        return [[sys.executable, str(PROGRAMS / "java_client.py"), json.dumps(task)]]
    python = str(need_python_clients()) if client.startswith("old") else sys.executable
    return [[python, str(PROGRAMS / "python_clients.py"), json.dumps(task)]]


def _kcat(bootstrap: str, row: dict[str, Any]) -> list[str]:
    settings = ["-X", f"client.id={row['client_id']}", "-X", "auto.offset.reset=earliest"]
    return [need_program("kcat", "kcat"), "-b", bootstrap, *settings, "-G", row["id"], *row["topics"]]


def franz_go() -> Path:
    """The program with franz-go, built when its source is newer."""
    source = PROGRAMS / "franz" / "main.go"
    built = ROOT / ".cache" / "spin" / f"franz-{FRANZ_GO}"
    if built.exists() and built.stat().st_mtime > source.stat().st_mtime:
        return built
    go = shutil.which("go")
    need(go is not None, "Go", "`apt-get install golang-go` installs it")
    assert go is not None
    cache = subprocess.run([go, "env", "GOMODCACHE"], capture_output=True, text=True, check=True).stdout.strip()
    module = Path(cache) / "github.com" / "twmb" / f"franz-go@{FRANZ_GO}"
    need(module.is_dir(), f"franz-go {FRANZ_GO}", "`python3 scripts/outside.py franz-go` fetches it")
    folder = built.parent / "source"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, folder)
    (folder / "go.mod").write_text(go_module(), encoding="utf-8")
    environment = {**os.environ, "GOFLAGS": "-mod=mod"}
    subprocess.run([go, "build", "-o", str(built), "."], cwd=folder, env=environment, check=True, timeout=300)
    return built
