"""A program: the original producer (kafka.javaapi.producer.Producer), synchronous, acknowledged by all replicas.

    python producer.py '{"brokers": ..., "topic": ..., "log4j": ..., "jars": [...]}'

It sends the numbers 0, 1, 2 ... as values, keyed by themselves, ten of them every 20 ms. A number on standard input
ends it: when so many are sent, which it then does in larger sets and without a pause, it prints how many it has sent. A
set that fails is sent again, and is then perhaps in the log twice.
"""

from __future__ import annotations

import json
import select
import sys
from typing import Any, Final, NamedTuple

import jpype

from tests.compat.originals.programs import jvm

SETTINGS: Final = {
    "producer.type": "sync",
    "request.required.acks": -1,
    "request.timeout.ms": 20_000,
    "serializer.class": "kafka.serializer.StringEncoder",
    "compression.codec": "snappy",
    "message.send.max.retries": 20,
    "retry.backoff.ms": 200,
}
SET: Final = 10
LAST_SET: Final = 200
PAUSE_SECONDS: Final = 0.02
FAILURES_MAX: Final = 10


class Orders(NamedTuple):
    """Where to and with what."""

    brokers: str
    topic: str
    log4j: str
    jars: list[str]


class Numbers:
    """Sends them."""

    def __init__(self, orders: Orders) -> None:
        properties = jvm.properties(SETTINGS | {"metadata.broker.list": orders.brokers})
        config = jpype.JClass("kafka.producer.ProducerConfig")(properties)
        self._producer = jpype.JClass("kafka.javaapi.producer.Producer")(config)
        self._message = jpype.JClass("kafka.producer.KeyedMessage")
        self._topic = orders.topic
        self.sent = self.failures = 0

    def send(self, count: int) -> None:
        """The next set."""
        messages = jpype.JClass("java.util.ArrayList")()
        for number in range(self.sent, self.sent + count):
            messages.add(self._message(self._topic, str(number), str(number)))
        while not self._is_sent(messages):
            self.failures += 1
        self.sent += count

    def _is_sent(self, messages: Any) -> bool:
        try:
            self._producer.send(messages)
        except jpype.JClass("kafka.common.FailedToSendMessageException"):
            if self.failures == FAILURES_MAX:
                raise
            return False
        return True


def main() -> None:
    orders = Orders(**json.loads(sys.argv[1]))
    jvm.start(orders.log4j, orders.jars)
    numbers = Numbers(orders)
    while not select.select([sys.stdin], [], [], PAUSE_SECONDS)[0]:
        numbers.send(SET)
    wanted = int(sys.stdin.readline() or 0)
    while numbers.sent < wanted:
        numbers.send(LAST_SET)
    sys.stdout.write(json.dumps({"sent": numbers.sent, "failures": numbers.failures}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
