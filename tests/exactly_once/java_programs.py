"""Programs on the JVM: Apache Kafka's own copier, and a Kafka Streams application."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.exactly_once.judge import Topics
from tests.exactly_once.programs import Program
from tests.outside.java import SHORT_LIVED, java_command
from tests.outside.needs import ROOT, need_streams

TRANSACTION_RECORDS: Final = 10
TIMEOUT_MS: Final = 20_000


class JavaCopier(Program):
    """TransactionalMessageCopier as a member of a group, with random aborts.

    It ends when it has copied what was in the source at its start; its supervisor starts it again.
    """

    is_endless = False

    def __init__(self, directory: Path, name: str, bootstrap: str, topics: Topics, version: str) -> None:
        self.name = name
        super().__init__(directory)
        self._bootstrap = bootstrap
        self._topics = topics
        self._version = version

    def command(self) -> list[str]:
        where = ["--broker-list", self._bootstrap, "--input-topic", self._topics.source, "--input-partition", "-1"]
        where += ["--output-topic", self._topics.sink, "--consumer-group", self._topics.group]
        ways = ["--transaction-size", str(TRANSACTION_RECORDS), "--transaction-timeout", str(TIMEOUT_MS)]
        ways += ["--enable-random-aborts", "--group-mode", "--use-group-metadata"]
        arguments = [*where, *ways, "--transactional-id", self.name]
        main_class = "org.apache.kafka.tools.TransactionalMessageCopier"
        return java_command(main_class, arguments, self._version, [*SHORT_LIVED, "-Xmx128m"])


class WordCount(Program):
    """One instance of the application in word_count.py, with a state directory of its own."""

    def __init__(self, directory: Path, name: str, bootstrap: str, topics: Topics, version: str) -> None:
        self.name = name
        super().__init__(directory)
        jars = [str(jar) for jar in need_streams(version)]
        state = str(directory / f"{name}-state")
        self._orders = {"bootstrap": bootstrap, **topics._asdict(), "state": state, "jars": jars}

    def command(self) -> list[str]:
        return [sys.executable, "-m", "tests.exactly_once.word_count", json.dumps(self._orders)]

    def environment(self) -> Mapping[str, str]:
        return {**super().environment(), "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / ".import")])}
