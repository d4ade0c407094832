"""Where Python runs without asserts (PYTHONOPTIMIZE=1, as some images set it), a broker and its commands do the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.outside.processes import SordiniProcess

PROGRAM = str(Path(sys.prefix) / "bin" / "sordini")
OPTIMIZED = {**os.environ, "PYTHONOPTIMIZE": "1"}
PATIENCE_S = 60


def command(*words: str, given: str = "") -> str:
    done = subprocess.run(
        [PROGRAM, *words], env=OPTIMIZED, input=given, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_broker_and_commands_without_asserts_serve_records_groups_and_transactions(tmp_path: Path) -> None:
    broker = SordiniProcess(tmp_path)
    broker.environment = lambda: OPTIMIZED  # type: ignore[method-assign]
    with broker:
        at = ("-b", broker.bootstrap)
        command("topics", "create", "orders", *at)
        command("produce", "orders", *at, given="from a command\n")
        producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "billing"})
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        producer.produce("orders", b"from a transaction", partition=0)
        producer.commit_transaction(PATIENCE_S)
        group = {"bootstrap.servers": broker.bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"}
        consumer = Consumer({**group, "enable.auto.commit": False})
        consumer.subscribe(["orders"])
        values = [message.value() for message in consumer.consume(2, PATIENCE_S)]
        consumer.commit(offsets=[TopicPartition("orders", 0, 2)], asynchronous=False)
        consumer.close()
        assert values == [b"from a command", b"from a transaction"]
        assert "from a transaction" in command("tail", "orders", *at)
        assert "readers" in command("groups", "list", *at)
        assert "connection closed by a bug" not in broker.output()
