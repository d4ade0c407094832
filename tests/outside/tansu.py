"""Tansu, a broker in Rust that keeps its topics in memory: one that is neither ours nor Apache Kafka's."""

from __future__ import annotations

from pathlib import Path

from tests.outside.needs import need_tansu
from tests.outside.ports import is_listening
from tests.outside.processes import BrokerProcess


class TansuProcess(BrokerProcess):
    """One broker; `advertised` is HOST:PORT, by default where it listens."""

    name = "tansu"

    def __init__(self, directory: Path, advertised: str = "") -> None:
        super().__init__(directory)
        self._binary = need_tansu()
        self._advertised = advertised or self.bootstrap

    def command(self) -> list[str]:
        return [
            str(self._binary),
            "broker",
            "--listener-url",
            f"tcp://{self.bootstrap}",
            "--advertised-listener-url",
            f"tcp://{self._advertised}",
            "--storage-engine",
            "memory://tansu/",
        ]

    def is_ready(self) -> bool:
        return is_listening(self.port)
