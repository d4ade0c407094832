"""A librdkafka producer, idempotent with acks=all, at a steady rate; a new one whenever one can go no further."""

from __future__ import annotations

import contextlib
import logging
import random
import time
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.cluster.chaos.events import INFO, OK, Found, Send
from tests.cluster.chaos.working import CLIENT, Pace, Working, key_of, split

PADDING: Final = b" " + b"." * 80
POLL_SECONDS: Final = 0.01
FLUSH_SECONDS: Final = 40.0
MESSAGE_TIMEOUT_MS: Final = 120_000
"""Longer than any outage here. A librdkafka producer that gives a record up takes another epoch for the gap and sends
all that is open once more in it, also what may have been written: no broker can know those for the same records."""
PRODUCER: Final[dict[str, Any]] = {
    **CLIENT,
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 5,
    "message.timeout.ms": MESSAGE_TIMEOUT_MS,
    "request.timeout.ms": 4_000,
    "queue.buffering.max.messages": 20_000,
}


LOG_DEBUG: Final = 7
"""Of syslog, whose levels librdkafka has."""


class _NewEpochs(logging.Handler):
    """Notes why librdkafka takes another epoch: what is open is written again then, whether it is there or not."""

    def __init__(self, pid: str, working: Working) -> None:
        super().__init__()
        self._pid, self._working = pid, working
        self.logger = logging.getLogger(f"librdkafka {pid}")
        self.logger.setLevel(logging.DEBUG)
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        line = record.getMessage()
        if "ERRSEQ" in line or "epoch bump for" in line:
            self._working.recorder.note(Found("client", f"{self._pid} takes another epoch: {line}"))


class Writer:
    """One process' producers, one after the other."""

    def __init__(self, working: Working) -> None:
        self._working = working
        self._orders = working.orders
        self._choice = random.Random(working.orders.name)
        self._lives = 0
        self._number = 0
        self._open: dict[str, Send] = {}
        self._producer = self._made()

    def run(self) -> None:
        pace = Pace(self._orders.per_second)
        while self._working:
            try:
                for _ in range(pace.due()):
                    self._send()
                self._producer.poll(POLL_SECONDS)
            except KafkaException as problem:
                self._working.recorder.note(Found("client", f"{self._pid} can go no further: {problem}"))
                self._end()
                self._producer = self._made()
        self._end()
        self._working.recorder.close()

    def _made(self) -> Producer:
        self._lives += 1
        self._pid = f"{self._orders.name}/{self._lives}"
        settings = {**PRODUCER, **self._orders.connection, "debug": "eos", "log_level": LOG_DEBUG}
        return Producer(settings, logger=_NewEpochs(self._pid, self._working).logger)

    def _end(self) -> None:
        """Wait for what is under way. The outcome of what is then still open is unknown."""
        with contextlib.suppress(KafkaException):
            self._producer.flush(FLUSH_SECONDS)
        for send in self._open.values():
            self._working.recorder.note(send._replace(t1=time.monotonic()))
        self._open.clear()

    def _send(self) -> None:
        tp = self._choice.choice(self._orders.partitions)
        topic, partition = split(tp)
        self._number += 1
        value, t0 = f"{self._orders.name}-{self._number}", time.monotonic()
        self._open[value] = Send(self._pid, t0, t0, tp, value, -1, INFO, self._number, True)
        try:
            self._producer.produce(topic, value.encode() + PADDING, partition=partition, on_delivery=self._delivered)
        except BufferError:
            del self._open[value]  # Not sent: the brokers have been away for long.

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        send = self._open.pop(key_of(message.value()), None)
        if send is None:
            return  # A former producer's: its end has been noted.
        if error is None:
            offset = message.offset()  # Of a record that was found to be there already it is not known.
            send = send._replace(result=OK, off=-1 if offset is None else offset)
        self._working.recorder.note(send._replace(t1=time.monotonic()))


if __name__ == "__main__":
    Writer(Working()).run()
