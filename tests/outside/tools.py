"""Apache Kafka's command-line tools as tests call them; tool_runner.py is where they run."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from tests.outside.needs import need_java, tool_jars
from tests.outside.versions import APACHE_KAFKA

_RUNNER = Path(__file__).with_name("tool_runner.py")
_LOG4J = Path(__file__).with_name("log4j.properties")

TOOLS = "org.apache.kafka.tools"


class Done(NamedTuple):
    """How a tool ended, and all that it printed."""

    status: int
    output: str
    errors: str


class JavaTools:
    """The tools of one release in one JVM: `with JavaTools() as tools: tools.run("kafka.admin.ConfigCommand", ...)`."""

    def __init__(self, version: str = APACHE_KAFKA) -> None:
        need_java()
        jars = sorted(map(str, tool_jars(version).glob("*.jar")))
        command = [sys.executable, str(_RUNNER), str(_LOG4J), *jars]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, start_new_session=True)

    def run(self, main_class: str, *arguments: str, standard_input: str = "", seconds: float = 60) -> Done:
        """Run a tool to its end. One that takes longer takes all others with it."""
        task = {"main": main_class, "arguments": arguments, "input": standard_input}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(task), file=self._process.stdin, flush=True)
        guard = threading.Timer(seconds, self._process.kill)
        guard.start()
        try:
            answer = self._process.stdout.readline()
        finally:
            guard.cancel()
        assert answer, f"{main_class} {' '.join(arguments)} did not end in {seconds} s"
        return Done(**json.loads(answer))

    def __call__(self, main_class: str, *arguments: str, standard_input: str = "") -> str:
        """What the tool printed; a failure fails the test with everything it said. No package means TOOLS."""
        name = main_class if "." in main_class else f"{TOOLS}.{main_class}"
        done = self.run(name, *arguments, standard_input=standard_input)
        assert done.status == 0, done.output + done.errors
        return done.output

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()  # Tools leave hooks behind that would wait for their consumers.
        self._process.communicate()
