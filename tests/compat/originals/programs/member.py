"""A program: one member of a group of the original consumer (ZookeeperConsumerConnector), restarted by command.

    python member.py '{"zookeeper": ..., "group": ..., "topic": ..., "journal": ..., "log4j": ..., "jars": [...]}'

Each line of standard input is JSON: the settings of a consumer, which takes the place of the one before; `null`, which
only ends that one; "hold", to take no messages until "go". A line "done" is printed when it is done: when it owns its
partitions, is gone, or has committed all that it took. The journal gets a line "partition offset value" for each
message, before its offset is committed.

For a group that repeats nothing, members do more than most programs did: see `_release`, `_end` and `hold`.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import jpype

from tests.compat.originals.programs import jvm

SETTINGS: Final = {
    "auto.offset.reset": "smallest",
    "auto.commit.enable": "false",
    "consumer.timeout.ms": 100,
    "rebalance.max.retries": 600,
    "rebalance.backoff.ms": 100,
    "zookeeper.connection.timeout.ms": 30_000,
    "zookeeper.sync.time.ms": 100,
    "fetch.wait.max.ms": 50,
    "refresh.leader.backoff.ms": 100,
    "offsets.channel.backoff.ms": 100,
    "offsets.commit.max.retries": 100,
}
MESSAGES_PER_COMMIT: Final = 50
SECONDS_MAX: Final = 120


class Orders(NamedTuple):
    """What is the same for all consumers of this program."""

    zookeeper: str
    group: str
    topic: str
    journal: str
    log4j: str
    jars: list[str]


class Member:
    """One consumer after the other. Their messages are taken by one thread, which also commits."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._journal = Path(orders.journal).open("a", encoding="utf-8")  # noqa: SIM115  As long as the program.
        self._calls: queue.SimpleQueue[tuple[Callable[[], None], threading.Event]] = queue.SimpleQueue()
        self._connector: Any = None
        self._stream: Any = None
        self._messages: Any = None
        self._uncommitted = 0
        self._is_held = False
        threading.Thread(target=self._work, daemon=True).start()

    def replace(self, settings: dict[str, object] | None) -> None:
        """End the consumer there is, and begin one with these settings."""
        if self._connector is not None:
            self._in_worker(self._end)
            self._connector.shutdown()
            self._connector = None
        if settings is not None:
            self._begin(settings)

    def hold(self, *, is_held: bool) -> None:
        """Take no messages while another member comes or goes.

        The original consumer reads the offsets of its new partitions before it owns them: messages that their former
        owner takes and commits in between would be read twice.
        """

        def change() -> None:
            self._commit()
            self._is_held = is_held

        self._in_worker(change)

    def _begin(self, settings: dict[str, object]) -> None:
        fixed = {"zookeeper.connect": self._orders.zookeeper, "group.id": self._orders.group}
        config = jpype.JClass("kafka.consumer.ConsumerConfig")(jvm.properties(SETTINGS | fixed | settings))
        self._connector = jpype.JClass("kafka.consumer.Consumer").createJavaConsumerConnector(config)
        listener = "kafka.javaapi.consumer.ConsumerRebalanceListener"
        calls = {"beforeReleasingPartitions": self._release, "beforeStartingFetchers": lambda *_: None}
        self._connector.setConsumerRebalanceListener(jpype.JProxy(listener, dict=calls))
        counts = jpype.JClass("java.util.HashMap")()
        counts.put(self._orders.topic, jpype.JClass("java.lang.Integer")(1))
        streams = self._connector.createMessageStreams(counts)
        self._in_worker(lambda: self._read(streams.get(self._orders.topic).get(0)))

    def _release(self, _: Any) -> None:
        """Called in a rebalance when the fetchers are stopped, before other members may own what this one owns.

        The consumer has emptied its queue, but not what the worker was taking out of it meanwhile: the worker itself
        drops that, and commits between two messages.
        """
        self._in_worker(self._drop_and_commit)

    def _in_worker(self, call: Callable[[], None]) -> None:
        is_done = threading.Event()
        self._calls.put((call, is_done))
        if not is_done.wait(SECONDS_MAX):
            raise TimeoutError(f"no message or offset moved in {SECONDS_MAX} s")

    def _work(self) -> None:
        while True:
            try:
                call, is_done = self._calls.get(block=self._messages is None or self._is_held)
            except queue.Empty:
                self._take()
                continue
            call()
            is_done.set()

    def _read(self, stream: Any) -> None:
        self._stream, self._messages = stream, stream.iterator()

    def _take(self) -> None:
        """One message, if there is one in `consumer.timeout.ms`."""
        try:
            self._messages.hasNext()
        except jpype.JClass("kafka.consumer.ConsumerTimeoutException"):
            self._commit()
            return
        message = self._messages.next()
        value = bytes(message.message()).decode()
        self._journal.write(f"{message.partition()} {message.offset()} {value}\n")
        self._uncommitted += 1
        if self._uncommitted >= MESSAGES_PER_COMMIT:
            self._commit()

    def _drop_and_commit(self) -> None:
        if self._stream is not None:
            self._stream.clear()
            self._commit()

    def _end(self) -> None:
        """Commits when nothing is taken any more: `shutdown` by itself would commit while messages are still taken."""
        self._commit()
        self._stream = self._messages = None

    def _commit(self) -> None:
        self._journal.flush()
        if self._uncommitted:
            self._connector.commitOffsets(False)  # True says that this is an automatic commit, without retries.
            self._uncommitted = 0


def main() -> None:
    orders = Orders(**json.loads(sys.argv[1]))
    jvm.start(orders.log4j, orders.jars)
    member = Member(orders)
    for line in sys.stdin:
        command = json.loads(line)
        if isinstance(command, str):
            member.hold(is_held=command == "hold")
        else:
            member.replace(command)
        sys.stdout.write("done\n")
        sys.stdout.flush()
    os._exit(0)  # The test is gone; Java's threads would keep the program alive.


if __name__ == "__main__":
    main()
