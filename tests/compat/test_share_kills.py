"""Workers of a share group while they and the broker are killed: every record is done, and what was done stays so.

`make share-kills` runs it for SORDINI_SHARE_KILLS seconds, beside Apache Kafka 4.4.0 as well; otherwise it is a short
slice of our broker.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from sordini.protocol.records.batch import Record, build_batch
from sordini.protocol.records.returned_records import returned_batches
from tests.compat.shares.deliveries import Seen, broken_promises
from tests.outside.java import KRaftProcess
from tests.outside.processes import BrokerProcess, SordiniProcess
from tests.support.share_group import ShareTopic, prepare
from tests.support.wire_client import Client

SECONDS: Final = float(os.environ.get("SORDINI_SHARE_KILLS", "0"))
IS_LONG: Final = SECONDS > 0
WORKERS: Final = 16 if IS_LONG else 3
LIMIT: Final = 3
LOCK_MS: Final = 2_000
SETTINGS: Final[dict[str, object]] = {
    "share.coordinator.state.topic.num.partitions": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "offsets.topic.num.partitions": 1,
    "offsets.topic.replication.factor": 1,
    "group.share.assignment.interval.ms": 0,
    "group.share.min.assignment.interval.ms": 0,
    "group.share.min.record.lock.duration.ms": 1_000,
    "group.share.record.lock.duration.ms": LOCK_MS,
    "group.share.min.heartbeat.interval.ms": 500,
    "group.share.heartbeat.interval.ms": 1_000,
    "group.share.min.session.timeout.ms": 5_000,
    "group.share.session.timeout.ms": 10_000,
    "errors.deadletterqueue.auto.create.topics.enable": "true",
}
OF_GROUP: Final = {
    "share.auto.offset.reset": "earliest",
    "share.delivery.count.limit": LIMIT,
    "share.record.lock.duration.ms": LOCK_MS,
    "errors.deadletterqueue.topic.name": "dlq.work",
}
BATCH: Final = 10
PRODUCE_S: Final = 0.05 if IS_LONG else 0.01
BATCHES: Final = 30
"""Of the short slice."""
WORKER_KILL_S: Final = (2.0, 6.0)
BROKER_KILL_S: Final = (20.0, 40.0)
DRAIN_S: Final = 90.0
DEAD: Final = "dlq.work"


class Workers:
    """Processes that work until they are killed; each incarnation has a file of its own."""

    def __init__(self, directory: Path, port: int, topic: ShareTopic) -> None:
        self._directory, self._port, self._topic = directory, port, topic
        self._running: list[tuple[subprocess.Popen[bytes], Path]] = []
        self.ended: dict[Path, float] = {}
        self._number = 0

    def start(self) -> None:
        self._number += 1
        path = self._directory / f"worker-{self._number}.jsonl"
        words = [str(self._port), self._topic.group, self._topic.name, str(self._number)]
        with path.open("wb") as output:
            command = [sys.executable, "-m", "tests.compat.shares.worker", *words]
            self._running.append((subprocess.Popen(command, stdout=output), path))

    def kill(self, number: int) -> None:
        process, path = self._running.pop(number)
        self.ended[path] = time.monotonic()
        process.kill()
        process.wait(10)

    def kill_one(self, chance: random.Random) -> None:
        self.kill(chance.randrange(len(self._running)))

    def kill_all(self) -> None:
        while self._running:
            self.kill(0)

    def seen(self) -> Seen:
        seen = Seen()
        for path, ended in self.ended.items():
            with path.open(encoding="utf-8", errors="replace") as lines:
                seen.read(lines, ended)
        return seen


class Run:
    """One broker with its workers; records are produced between kills."""

    def __init__(self, broker: BrokerProcess, directory: Path, topic: ShareTopic) -> None:
        self.broker, self.topic, self.end = broker, topic, 0
        self.workers = Workers(directory, broker.port, topic)
        self.kills: list[tuple[float, float]] = []

    def produce(self) -> None:
        """The next records, whose numbers are their offsets."""
        records = [Record(number, 1, None, str(self.end + number).encode()) for number in range(BATCH)]
        with Client("127.0.0.1", self.broker.port) as client:
            (row,) = client.produce(self.topic.name, [build_batch(records)])
        assert (row.error_code, row.base_offset) == (0, self.end), row
        self.end += BATCH

    def kill_broker(self) -> None:
        began = time.monotonic()
        self.broker.kill()
        self.broker.start()
        self.kills.append((began, time.monotonic()))

    def is_drained(self) -> bool:
        """Whether the group has nothing left to do."""
        request = DescribeShareGroupOffsetsRequest(
            groups=[DescribeShareGroupOffsetsRequestGroup(group_id=self.topic.group, topics=None)]
        )
        try:
            with Client("127.0.0.1", self.broker.port) as client:
                (group,) = client.ask(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1, request).groups
        except OSError:
            return False
        rows = [row for topic in group.topics for row in topic.partitions]
        # The start may stay behind: what is done behind it moves it with the next change.
        return bool(rows) and all((row.error_code, row.lag) == (0, 0) for row in rows)

    def dead_letters(self) -> Counter[int]:
        """How many dead letters each record has."""
        found: Counter[int] = Counter()
        with Client("127.0.0.1", self.broker.port) as client:
            position = 0
            while data := client.fetch(DEAD, offset=position):
                for batch in returned_batches(data, position, ()):
                    position = batch.next_offset
                    for record in batch.records:
                        found[int(dict(record.headers)["__dlq.errors.offset"] or b"-1")] += 1
        return found


def play(broker: BrokerProcess, directory: Path, seed: int) -> Run:
    """Produce, work and kill; then let the workers finish."""
    chance = random.Random(seed)
    with Client("127.0.0.1", broker.port) as client:
        topic = prepare(client, "workers", "work", OF_GROUP)
    run = Run(broker, directory, topic)
    try:
        for _ in range(WORKERS):
            run.workers.start()
        if IS_LONG:
            _play_for(run, chance, time.monotonic() + SECONDS)
        else:
            _play_shortly(run, chance)
        broker.wait_until(run.is_drained, DRAIN_S, "finish its records")
    finally:
        run.workers.kill_all()
    return run


def _play_for(run: Run, chance: random.Random, until_s: float) -> None:
    worker_s, broker_s = (time.monotonic() + chance.uniform(*span) for span in (WORKER_KILL_S, BROKER_KILL_S))
    while (now_s := time.monotonic()) < until_s:
        run.produce()
        time.sleep(PRODUCE_S)
        if now_s > worker_s:
            run.workers.kill_one(chance)
            run.workers.start()
            worker_s = now_s + chance.uniform(*WORKER_KILL_S)
        if now_s > broker_s:
            run.kill_broker()
            broker_s = time.monotonic() + chance.uniform(*BROKER_KILL_S)


def _play_shortly(run: Run, chance: random.Random) -> None:
    """One kill of the broker between two of workers."""
    for number in range(BATCHES):
        run.produce()
        time.sleep(PRODUCE_S)
        if number in (BATCHES // 4, BATCHES * 3 // 4):
            run.workers.kill_one(chance)
            run.workers.start()
        if number == BATCHES // 2:
            run.kill_broker()


def judge(run: Run, describe: Mapping[str, object], *, loses_letters: bool = False) -> None:
    seen = run.workers.seen()
    dead = run.dead_letters()
    figures = {
        **describe,
        "records": run.end,
        "accepted": len(seen.accepted),
        "dead letters": len(dead),
        "of these twice": sum(count > 1 for count in dead.values()),
        "broker kills": len(run.kills),
        "incarnations of workers": len(run.workers.ended),
        "answers": dict(seen.codes),
        "failures": dict(seen.failures.most_common(5)),
    }
    sys.stderr.write(f"{figures}\n")
    wrong = broken_promises(seen, run.end, LIMIT, run.kills, dead)
    if loses_letters:
        lost = [one for one in wrong if one.endswith(("was never done", "and is no dead letter"))]
        sys.stderr.write(f"records given up without a dead letter: {len(lost)}\n")
        wrong = [one for one in wrong if one not in lost]
    assert not wrong, (len(wrong), wrong[:10], figures)


def test_what_was_acknowledged_is_done_and_nothing_else_is(tmp_path: Path) -> None:
    with SordiniProcess(tmp_path / "broker", SETTINGS) as broker:
        judge(play(broker, tmp_path, 1), {"broker": "sordini"})


@pytest.mark.skipif(not IS_LONG, reason="`make share-kills` runs it")
def test_the_judge_finds_apache_kafka_to_keep_all_promises_but_that_of_dead_letters(tmp_path: Path) -> None:
    with KRaftProcess(tmp_path / "broker", SETTINGS) as broker:
        judge(play(broker, tmp_path, 1), {"broker": "apache kafka"}, loses_letters=True)
