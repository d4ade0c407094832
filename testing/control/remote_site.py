"""Brokers in a child process, by their control: the `Cluster` of `isolation="process"`.

The child has everything in memory and ends with this process, however this one ends (child.py): nothing is left. Its
standard error is a file without a name, whose end is in the error of a start that failed.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import urlencode

import sordini
from sordini.broker.configuration.settings import ConfigError
from sordini.testing.brokers.site import SiteFailed
from sordini.testing.cluster import BrokerState
from sordini.testing.control.shapes import broker_of, request_of, rule_json
from sordini.testing.faults.script import REMOVED_MAX, Rule
from sordini.testing.faults.seen import KEPT_MAX, SeenRequest
from sordini.testing.own_client import KitError
from sordini.testing.packs.loading import DENSE, KEEP

START_S: Final = 5.0
"""From the start of the process until its brokers serve, or the start fails and says what they did."""
REPORT_S: Final = 0.5
"""Of that, what is left to the process to say why."""
RESPONSE_S: Final = 150.0
TAIL_BYTES: Final = 2_000
LINE_BYTES_MAX: Final = 1 << 16


class RemoteSite:
    """One to nine brokers in a process of their own; implements `Cluster`."""

    def __init__(
        self, brokers: int, entries: Mapping[str, str], seed: int, listeners: Mapping[str, str] | None = None
    ) -> None:
        """`listeners` are protocols by the names of the listeners of clients; None: one of PLAINTEXT."""
        self.script = RemoteScript(self)
        self.start_s = START_S
        self._given = {"brokers": brokers, "entries": dict(entries), "seed": seed, "listeners": listeners}
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._port = 0
        self._last_states: list[BrokerState] = []
        self._seen: list[SeenRequest] = []

    @property
    def process_id(self) -> int | None:
        """The child's, while it is there."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """As `Cluster.start`."""
        end_s = time.monotonic() + self.start_s
        given = {**self._given, "parent": os.getpid(), "end_monotonic_s": end_s - REPORT_S}
        package = str(Path(sordini.__file__).parents[1])
        paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes it.
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter.
            [sys.executable, "-P", "-m", "sordini.testing.control.child", json.dumps(given)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            start_new_session=True,  # Ctrl-C reaches the test alone, which then closes this.
        )
        try:
            said = self._first_line(end_s)
            if "config" in said:
                raise ConfigError(said["config"])
            if "port" not in said:
                raise SiteFailed(said["failed"])
        except BaseException:  # Raised again - no process is left behind.
            self.close()
            raise
        self._port = said["port"]

    def close(self) -> None:
        """As `Cluster.close`."""
        process, self._process = self._process, None
        if process is None:
            return
        self._last_states = [state._replace(is_running=False) for state in self._last_states]
        assert process.stdin is not None
        assert process.stdout is not None
        process.kill()  # It has nothing that could be lost, and may be stopped.
        process.wait()
        process.stdin.close()
        process.stdout.close()
        if self._errors is not None:
            self._errors.close()

    def states(self) -> list[BrokerState]:
        """As `Cluster.states`; of a closed cluster the last addresses."""
        if self._process is not None:
            self._last_states = [broker_of(found) for found in self.ask("GET", "/brokers")]
        return self._last_states

    def start_broker(self, number: int) -> None:
        """As `Cluster.start_broker`."""
        self._on_broker(number, "start")

    def kill(self, number: int) -> None:
        """As `Cluster.kill`."""
        self._on_broker(number, "kill")

    def stop(self, number: int) -> None:
        """As `Cluster.stop`."""
        self._on_broker(number, "stop")

    def pause(self, number: int, *, detected: bool) -> None:
        """As `Cluster.pause`."""
        self._on_broker(number, "pause", {"detected": detected})

    def resume(self, number: int) -> None:
        """As `Cluster.resume`."""
        self._on_broker(number, "resume")

    def cut(self, number: int, others: set[int]) -> None:
        """As `Cluster.cut`."""
        if others:
            self._on_broker(number, "partition", {"from": sorted(others)})

    def heal(self, number: int) -> None:
        """As `Cluster.heal`."""
        self._on_broker(number, "heal")

    def set_disk(self, number: int, *, full: bool | None = None, slow_ms: float | None = None) -> None:
        """As `Cluster.set_disk`."""
        self._on_broker(number, "disk", {"full": full, "slow_ms": slow_ms})

    def load(self, path: str, names: Mapping[str, str], *, keeps_offsets: bool) -> None:
        """As `Cluster.load`: the brokers' process reads the file itself."""
        self.ask("POST", "/load", {"path": path, "topics": dict(names), "offsets": KEEP if keeps_offsets else DENSE})

    def elapsed_s(self) -> float:
        """As `Cluster.elapsed_s`: by the clock of the brokers' process, while there is one."""
        return float(self.ask("GET", "/clock")["elapsed_s"]) if self._process is not None else 0.0

    def now_ms(self) -> int:
        """As `Cluster.now_ms`."""
        return int(self.ask("GET", "/clock")["now_ms"])

    def advance(self, seconds: float) -> None:
        """As `Cluster.advance`."""
        self.ask("POST", "/clock", {"advance_s": seconds})

    def requests(self) -> list[SeenRequest]:
        """As `Cluster.requests`: those that came since the last call are fetched."""
        has_more = self._process is not None
        while has_more:
            newest = {"after": self._seen[-1].number} if self._seen else {}
            found = self.ask("GET", f"/requests?{urlencode({'message': 'wire', **newest})}")
            self._seen += map(request_of, found["requests"])
            has_more = found["more"]
        del self._seen[:-KEPT_MAX]
        return list(self._seen)

    def forget_requests(self) -> None:
        """As `Cluster.forget_requests`."""
        self.ask("DELETE", "/requests")
        self._seen.clear()

    def log_lines(self, count: int, since_s: float = 0.0) -> list[str]:
        """As `Cluster.log_lines`."""
        return list(self.ask("GET", f"/log?lines={count}&since_s={since_s!r}")["lines"])

    def ask(self, method: str, path: str, fields: Mapping[str, Any] | None = None) -> Any:
        """What the control responds. Raises ValueError for a wrong request, KitError for one that the brokers
        refuse, SiteFailed when their process is gone.
        """
        if self._process is None:
            raise SiteFailed("the cluster is closed")
        connection = HTTPConnection("127.0.0.1", self._port, timeout=RESPONSE_S)
        try:
            connection.request(method, path, None if fields is None else json.dumps(fields))
            response = connection.getresponse()
            found = json.loads(response.read())
        except (OSError, HTTPException, ValueError) as error:
            raise SiteFailed(f"the brokers' process does not respond: {error}{self._tail()}") from error
        finally:
            connection.close()
        if response.status == 400:
            raise ValueError(found["error"])
        if response.status > 400:
            raise KitError(found["error"])
        return found

    def _on_broker(self, number: int, action: str, fields: Mapping[str, Any] | None = None) -> None:
        self.ask("POST", f"/brokers/{number}/{action}", fields)

    def _first_line(self, end_s: float) -> dict[str, Any]:
        """What the process says of its start. Raises SiteFailed when it says nothing."""
        assert self._process is not None
        assert self._process.stdout is not None
        descriptor, line = self._process.stdout.fileno(), b""
        while not line.endswith(b"\n"):
            left_s = end_s - time.monotonic()
            if left_s <= 0 or not select.select([descriptor], [], [], left_s)[0]:
                raise SiteFailed(f"the brokers' process has said nothing for {self.start_s:g} s{self._tail()}")
            piece = os.read(descriptor, LINE_BYTES_MAX)
            if not piece:
                status = self._process.wait()
                raise SiteFailed(f"the brokers' process ended with status {status}{self._tail()}")
            line += piece
        found: dict[str, Any] = json.loads(line)
        return found

    def _tail(self) -> str:
        """The end of what the process has written to its standard error."""
        if self._errors is None or self._errors.closed:
            return ""
        size = os.fstat(self._errors.fileno()).st_size
        data = os.pread(self._errors.fileno(), TAIL_BYTES, max(0, size - TAIL_BYTES))
        return f"; its last lines:\n{data.decode(errors='replace')}" if data else ""


class RemoteScript:
    """The rules that this process has put in force at the control; a `RuleBook`."""

    def __init__(self, site: RemoteSite) -> None:
        self._site = site
        self._faults: dict[Rule, int] = {}
        """The ids of those in force."""
        self._removed: deque[Rule] = deque(maxlen=REMOVED_MAX)

    @property
    def rules(self) -> list[Rule]:
        """As `RuleBook.rules`."""
        return list(self._faults)

    @property
    def removed(self) -> list[Rule]:
        """As `RuleBook.removed`."""
        return list(self._removed)

    def add(self, rule: Rule) -> None:
        """Raises ValueError for a rule with `when`."""
        if rule.selection.when is not None:
            raise ValueError(
                "when=...: a function cannot be sent to the brokers' process; use isolation='thread', or select by "
                "topic, partition, group, transactional_id, client_id, broker, times and after"
            )
        self._faults[rule] = self._site.ask("POST", "/faults", rule_json(rule))["id"]

    def remove(self, rule: Rule) -> None:
        """As `RuleBook.remove`."""
        number = self._faults.pop(rule, None)
        if number is not None:
            self._removed.append(rule)
            rule.taken = self._site.ask("DELETE", f"/faults/{number}")["used"]

    def release(self, rule: Rule) -> None:
        """As `RuleBook.release`."""
        if rule in self._faults:
            self._site.ask("POST", f"/faults/{self._faults[rule]}/release")

    def used(self, rule: Rule) -> int:
        """As `RuleBook.used`."""
        if rule in self._faults:
            rule.taken = int(self._site.ask("GET", f"/faults/{self._faults[rule]}")["used"])
        return rule.taken

    def clear(self) -> None:
        """As `RuleBook.clear`."""
        for rule in self.rules:
            self.remove(rule)
        self._removed.clear()
