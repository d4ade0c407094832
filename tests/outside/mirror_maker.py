"""Apache Kafka's MirrorMaker 2 in its dedicated mode, from one cluster into another."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.outside.java import write_properties
from tests.outside.needs import need_java, need_mirror_maker
from tests.outside.processes import OutsideProcess

_LOG4J = Path(__file__).with_name("mirror_log4j.properties")


class MirrorMakerProcess(OutsideProcess):
    """Copies all topics of the cluster `east` into the cluster `central`; ready when a task copies partitions."""

    name = "mirror-maker"
    start_seconds_max = 120.0
    stop_seconds_max = 60.0

    def __init__(
        self,
        directory: Path,
        east: str,
        central: str,
        overrides: Mapping[str, object] | None = None,
        *,
        flags: Sequence[str] = ("-Xms256m", "-Xmx1g"),
    ) -> None:
        super().__init__(directory)
        self._flags = flags
        self.settings: dict[str, object] = {
            "clusters": "east,central",
            "east.bootstrap.servers": east,
            "central.bootstrap.servers": central,
            "east->central.enabled": "true",
            "central->east.enabled": "false",
            "replication.factor": 1,
            "checkpoints.topic.replication.factor": 1,
            "heartbeats.topic.replication.factor": 1,
            "offset-syncs.topic.replication.factor": 1,
            "offset.storage.replication.factor": 1,
            "status.storage.replication.factor": 1,
            "config.storage.replication.factor": 1,
            "refresh.topics.interval.seconds": 5,
            **(overrides or {}),
        }

    def command(self) -> list[str]:
        file = self.directory / "mm2.properties"
        write_properties(file, self.settings)
        jars = ":".join(map(str, need_mirror_maker()))
        log = f"-Dlog4j.configuration=file:{_LOG4J}"
        main_class = "org.apache.kafka.connect.mirror.MirrorMaker"
        return [need_java(), log, *self._flags, "-cp", jars, main_class, str(file)]

    def is_ready(self) -> bool:
        return re.search(r"replicating \d+ topic-partitions east->central", self.output()) is not None
