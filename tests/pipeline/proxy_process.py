"""A proxy before an object store in a process of its own, so that libraries that hold Python's lock do not stop it.

    python proxy_process.py PORT

It says {"port": ...}. Each line of its input is a `Rule` as JSON, which it follows from then on, or null for none; it
says {"refused": ...}, how often the rule before refused. The end of the input ends it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import IO, Any, NamedTuple, Self

from tests.outside.needs import ROOT
from tests.pipeline.request_proxy import Plan, Refusal, Request, Watch, nothing, proxy

WRITING = ("PUT", "POST")


class Rule(NamedTuple):
    """Which requests are refused, and how."""

    status: int
    code: str
    methods: tuple[str, ...] = ()
    """Empty: all."""
    within: str = ""
    """What their path has."""
    passing: int = 0
    """So many of them pass before."""
    times: int | None = None
    """So often; None: for ever."""

    def plan(self, refused: list[Request]) -> Plan:
        """The plan, which lists what it refuses."""
        seen: list[Request] = []
        methods = tuple(self.methods)

        def decide(request: Request) -> Refusal | None:
            if (methods and request.method not in methods) or self.within not in request.path:
                return None
            seen.append(request)
            if len(seen) <= self.passing or (self.times is not None and len(refused) >= self.times):
                return None
            refused.append(request)
            return Refusal(self.status, self.code)

        return decide


class ProxyProcess:
    """The process of this module."""

    def __init__(self, port: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(port)],
            env={"PYTHONPATH": f"{ROOT / '.import'}:{ROOT}", "PATH": "/usr/bin:/bin"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.port = 0

    def __enter__(self) -> Self:
        self.port = self._read()["port"]
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe(self._process.stdin).close()
        self._process.wait(60)
        self._pipe(self._process.stdout).close()

    def follow(self, rule: Rule | None) -> int:
        """Follow a rule from now on; how often the last one refused."""
        pipe = self._pipe(self._process.stdin)
        pipe.write(json.dumps(rule and rule._asdict()) + "\n")
        pipe.flush()
        refused: int = self._read()["refused"]
        return refused

    def _read(self) -> dict[str, Any]:
        line = self._pipe(self._process.stdout).readline()
        assert line, f"the proxy has ended: {self._process.poll()}"
        found: dict[str, Any] = json.loads(line)
        return found

    @staticmethod
    def _pipe(pipe: IO[str] | None) -> IO[str]:
        assert pipe is not None
        return pipe


def say(what: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main() -> None:
    watch, refused = Watch(), list[Request]()
    with proxy(int(sys.argv[1]), watch) as port:
        say({"port": port})
        for line in sys.stdin:
            wanted = json.loads(line)
            before, refused = len(refused), []
            watch.begin(Rule(**wanted).plan(refused) if wanted else nothing)
            say({"refused": before})


if __name__ == "__main__":
    main()
