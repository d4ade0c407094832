"""A program: Apache Kafka's command-line tools, one after the other, in one JVM.

    python tool_runner.py log4j.properties JAR...

Each line of standard input is {"main": class, "arguments": [...], "input": text}; each is answered by one line
{"status": ..., "output": ..., "errors": ...}. A JVM takes two seconds to start and a tool a tenth of that, which is
why they share one. A tool that ends the program (`Exit.exit`) ends only itself here. What a tool leaves to be done at
the end of the program (VerifiableProducer's summary) is never done: such a tool needs a JVM of its own.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import jpype

FLAGS = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")


class Tools:
    """The JVM. Its output streams are set once: loggers and Scala's console keep the first that they see."""

    def __init__(self, log4j: str, jars: list[str]) -> None:
        jpype.startJVM(*FLAGS, f"-Dlog4j.configuration=file:{log4j}", classpath=jars)
        self._system = jpype.JClass("java.lang.System")
        bytes_out, stream = jpype.JClass("java.io.ByteArrayOutputStream"), jpype.JClass("java.io.PrintStream")
        self._output, self._errors = bytes_out(), bytes_out()
        self._system.setOut(stream(self._output, True))
        self._system.setErr(stream(self._errors, True))
        self._statuses: list[int] = []
        name, leave = _exit_class()
        procedure = jpype.JProxy(f"{name}$Procedure", dict={"execute": self._end})
        leave.setExitProcedure(procedure)
        leave.setHaltProcedure(procedure)

    def _end(self, status: int, _: object) -> None:
        self._statuses.append(int(status))
        raise jpype.JClass("java.lang.Error")("the tool has ended itself")

    def run(self, task: dict[str, Any]) -> dict[str, Any]:
        self._output.reset()
        self._errors.reset()
        self._system.setIn(jpype.JClass("java.io.ByteArrayInputStream")(task["input"].encode()))
        self._statuses.clear()
        try:
            jpype.JClass(task["main"]).main(task["arguments"])
        except jpype.JException as error:
            if not self._statuses:
                error.printStackTrace()
                self._statuses.append(1)
        self._system.out.flush()
        # Tools catch everything and end themselves once more, with 1: the first word counts.
        status = self._statuses[0] if self._statuses else 0
        return {"status": status, "output": str(self._output), "errors": str(self._errors)}


def _exit_class() -> tuple[str, Any]:
    """What tools end themselves with; 4.4 has it in another package than 4.3 and all before."""
    for package in ("utils", "utils.internals"):
        name = f"org.apache.kafka.common.{package}.Exit"
        try:
            return name, jpype.JClass(name)
        except TypeError:
            continue
    raise AssertionError("these are not the jars of Apache Kafka's tools")


def main() -> None:
    tools = Tools(sys.argv[1], sys.argv[2:])
    for line in sys.stdin:
        sys.stdout.write(json.dumps(tools.run(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
