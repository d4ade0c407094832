"""Apache Kafka with a class that takes what clients push: without one, it does not serve client telemetry."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.outside.java import KRaftProcess
from tests.outside.needs import kafka_clients_jar, need_program
from tests.outside.versions import NEWEST_APACHE_KAFKA

RECEIVER = Path(__file__).with_name("Receiver.java")


def compiled(directory: Path, *sources: Path) -> Path:
    """The directory of the classes of Java sources that use the newest client library."""
    directory.mkdir(parents=True, exist_ok=True)
    jar = str(kafka_clients_jar(NEWEST_APACHE_KAFKA))
    command = [need_program("javac", "default-jdk-headless"), "-nowarn", "-cp", jar, "-d", str(directory)]
    subprocess.run([*command, *map(str, sources)], check=True, capture_output=True, timeout=120)
    return directory


class ReportingKafka(KRaftProcess):
    """One combined controller and broker whose metrics reporter takes pushes."""

    def __init__(self, directory: Path, overrides: Mapping[str, object] | None = None) -> None:
        super().__init__(directory, {**(overrides or {}), "metric.reporters": "Receiver"})

    def command(self) -> list[str]:
        classes = compiled(self.directory / "classes", RECEIVER)
        words = super().command()
        path = words.index("-cp") + 1
        words[path] = f"{classes}:{words[path]}"
        return words
