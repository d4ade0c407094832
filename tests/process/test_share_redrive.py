"""`sordini share redrive`: dead letters go back to where their records were, each once, whatever happens meanwhile."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.outside.processes import BrokerProcess, SordiniProcess
from tests.process.test_cli import run_here

PROGRAM = str(Path(sys.prefix) / "bin" / "sordini")
REJECTED, EXCEEDED = "Offset rejected by client.", "Offset delivery count exceeded the threshold."
MANY = 2_600
"""Dead letters of more than five chunks."""

Redrive = Callable[..., dict[str, Any]]


class DeadLetters:
    """A topic and its dead-letter topic, of two partitions each, and what is written to and read from them."""

    def __init__(self, broker: BrokerProcess, topic: str) -> None:
        self.bootstrap, self.topic, self.dead = broker.bootstrap, topic, f"dlq.{topic}"
        for name in (self.topic, self.dead):
            run_here(self.bootstrap, "topics", "create", name, "--partitions", "2")
        self._producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 50})

    def write(
        self,
        values: Sequence[str | None],
        partition: int = 0,
        offset: int = 0,
        group: str = "billing",
        reason: str = REJECTED,
        **changed: str,
    ) -> None:
        context = {"topic": self.topic, "partition": partition, "offset": offset, "group": group, "message": reason}
        context |= {"delivery.count": 1, **changed}
        headers = [(f"__dlq.errors.{name}", str(value).encode()) for name, value in context.items()]
        for value in values:
            self._producer.produce(self.dead, value, partition=partition, headers=[*headers, ("trace", b"7")])
        self._producer.flush(30)

    def write_record(self, value: str) -> None:
        self._producer.produce(self.topic, value, partition=0, headers=[("trace", b"8")])
        self._producer.flush(30)

    def read(self, partition: int) -> list[tuple[str, Any]]:
        """The values and headers of one partition that are committed."""
        settings = {"bootstrap.servers": self.bootstrap, "group.id": "unused", "auto.offset.reset": "earliest"}
        consumer = Consumer({**settings, "enable.partition.eof": True, "isolation.level": "read_committed"})
        consumer.assign([TopicPartition(self.topic, partition, 0)])
        found = []
        while True:
            message = consumer.poll(30)
            assert message is not None
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                consumer.close()
                return found
            found.append((message.value().decode(), message.headers()))

    def redrive(self, *words: str) -> dict[str, Any]:
        found = json.loads(run_here(self.bootstrap, "share", "redrive", self.dead, *words, "--json").stdout)
        assert isinstance(found, dict)
        return found


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SordiniProcess]:
    settings = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}
    with SordiniProcess(tmp_path_factory.mktemp("redrive"), settings) as made:
        yield made


@pytest.fixture
def letters(broker: SordiniProcess, topic: str) -> DeadLetters:
    return DeadLetters(broker, topic)


def test_dead_letters_are_counted_first_and_copied_to_their_partitions_with_execute(letters: DeadLetters) -> None:
    letters.write(["a", "b"])
    letters.write(["c"], partition=1, reason=EXCEEDED)
    plan = letters.redrive()
    assert (plan["executed"], plan["count"]) == (False, 3)
    assert [(row["reason"], row["count"]) for row in plan["counts"]] == [(EXCEEDED, 1), (REJECTED, 2)]
    assert [row["partition"] for row in plan["dead_letters"]] == [0, 0, 1]
    assert letters.read(0) == []
    assert letters.redrive("--execute")["copied"] == {letters.topic: 3}
    assert letters.read(0) == [("a", [("trace", b"7")]), ("b", [("trace", b"7")])]
    assert [value for value, _ in letters.read(1)] == ["c"]
    assert letters.redrive()["count"] == 0
    assert letters.redrive("--execute")["copied"] == {}


def test_a_limit_ends_it_and_the_next_one_continues_there(letters: DeadLetters) -> None:
    letters.write(["a", "b", "c"])
    letters.write(["d"], partition=1)
    for expected in ({letters.topic: 2}, {letters.topic: 2}, {}):
        assert letters.redrive("--limit", "2", "--execute")["copied"] == expected
    assert [value for value, _ in letters.read(0)] == ["a", "b", "c"]


def test_what_one_filter_has_copied_is_not_copied_by_another_or_without_one(letters: DeadLetters) -> None:
    letters.write(["a"], group="billing")
    letters.write(["b"], group="shipping", reason=EXCEEDED)
    letters.write(["c"], group="shipping")
    assert letters.redrive("--group", "shipping", "--reason", "threshold", "--execute")["copied"] == {letters.topic: 1}
    assert letters.redrive("--reason", "rejected", "--limit", "1", "--execute")["copied"] == {letters.topic: 1}
    assert [value for value, _ in letters.read(0)] == ["b", "a"]
    assert letters.redrive("--execute")["copied"] == {letters.topic: 1}
    assert letters.redrive("--group", "shipping")["count"] == 0
    assert [value for value, _ in letters.read(0)] == ["b", "a", "c"]


def test_a_dead_letter_without_its_record_is_looked_up_and_what_cannot_be_copied_is_named(
    letters: DeadLetters,
) -> None:
    letters.write_record("deleted")
    letters.write_record("there")
    run_here(letters.bootstrap, "topics", "delete-records", f"{letters.topic}:0", "--before", "1", "--yes")
    letters.write([None], offset=0)
    letters.write([None], offset=1)
    letters.write(["x"], topic=f"{letters.topic}-gone")
    letters._producer.produce(letters.dead, "no dead letter", partition=0)
    letters._producer.flush(30)
    done = letters.redrive("--execute")
    assert (done["copied"], done["passed_over"]) == ({letters.topic: 1}, 1)
    assert [row["offset"] for row in done["lost"]] == [0]
    assert [row["topic"] for row in done["without_topic"]] == [f"{letters.topic}-gone"]
    assert letters.read(0) == [("there", [("trace", b"8")]), ("there", [("trace", b"8")])]


def test_a_redrive_that_is_killed_is_continued_and_copies_each_exactly_once(
    broker: SordiniProcess, letters: DeadLetters
) -> None:
    letters.write([str(number) for number in range(MANY)])
    for chunks in (1, 3):
        command = [PROGRAM, "share", "redrive", letters.dead, "--execute"]
        killed = subprocess.Popen(command, env={**os.environ, "SORDINI_BOOTSTRAP": letters.bootstrap})
        broker.wait_until(lambda least=chunks: end_offset(letters) > 500 * least, 60, "copy")  # type: ignore[misc]
        killed.send_signal(signal.SIGKILL)
        killed.wait(30)
    letters.redrive("--execute")
    found = Counter(value for value, _ in letters.read(0))
    assert len(found) == MANY
    assert set(found.values()) == {1}


def end_offset(letters: DeadLetters) -> int:
    """Of the target, with what is not committed."""
    (row,) = json.loads(run_here(letters.bootstrap, "topics", "offsets", f"{letters.topic}:0", "--json").stdout)
    offset: int = row["latest_offset"]
    return offset


def test_a_second_redrive_of_the_topic_fences_the_first(broker: SordiniProcess, letters: DeadLetters) -> None:
    letters.write(["a", "b", "c"])
    settings = {"bootstrap.servers": broker.bootstrap, "transactional.id": f"sordini-redrive.{letters.dead}"}
    other = Producer(settings)
    other.init_transactions(30)
    other.begin_transaction()
    other.produce(letters.topic, "half done", partition=0)
    other.flush(30)
    assert letters.redrive("--execute")["copied"] == {letters.topic: 3}
    assert [value for value, _ in letters.read(0)] == ["a", "b", "c"]


def test_a_topic_that_does_not_exist_and_empty_filters_are_refused(broker: SordiniProcess) -> None:
    for words in (("none",), ("none", "--execute")):
        assert "there is no such topic" in run_here(broker.bootstrap, "share", "redrive", *words, code=1).stderr
    assert "is empty" in run_here(broker.bootstrap, "share", "redrive", "none", "--group", "", code=2).stderr
