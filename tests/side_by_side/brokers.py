"""The two brokers that are compared, each in a directory of its own, replaced by a fresh one when an attack spoilt it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final
from uuid import uuid4

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.api_versions import ApiVersionsRequest
from sordini.protocol.messages.metadata import MetadataRequest
from tests.outside.java import ApacheKafkaProcess, ZooKeeperProcess
from tests.outside.processes import BrokerProcess, ProcessError, SordiniProcess
from tests.support.wire_client import Client

OURS: Final = "Sordini"
THEIRS: Final = "Apache Kafka 3.9.1"
SETTINGS: Final[dict[str, object]] = {
    "broker.id": 0,
    "auto.create.topics.enable": "false",
    "log.retention.ms": -1,
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 1,
}
"""Of both. Topics are not made by asking for their metadata: a broker would do so for minutes after the request."""
BYSTANDER: Final = "x-0"
"""A directory beside those of the brokers, where `../../x-0` leads from a log directory."""
SMALL_DISK_BYTES: Final = 256 * 1024 * 1024
_ON_A_SMALL_DISK: Final = f'mount -t tmpfs -o size={SMALL_DISK_BYTES} sordini-test "$0" && exec "$@"'
ALIVE_S_MAX: Final = 5.0
MEMBER_S_MAX: Final = 20.0


class Side:
    """One of the two. `broker` is the process that is running now."""

    def __init__(self, name: str, make: Callable[[Path], BrokerProcess], directory: Path) -> None:
        self.name = name
        self._make = make
        self._directory = directory
        self._broker: BrokerProcess | None = None
        self._is_small = False

    @property
    def broker(self) -> BrokerProcess:
        assert self._broker is not None, f"{self.name} has not been started"
        return self._broker

    @property
    def bystander(self) -> Path:
        """Where `../../x-0` leads from the broker's log directory."""
        return self.broker.directory.parent / BYSTANDER

    def ready(self, *, fresh: bool, on_a_small_disk: bool = False) -> BrokerProcess:
        """A broker that serves: the one that runs, unless another is wanted or it is spoilt."""
        if self._broker is not None and not fresh and not self._is_small and is_serving(self._broker):
            return self._broker
        self.end()
        home = self._directory / uuid4().hex[:8]
        (home / BYSTANDER).mkdir(parents=True)
        (home / BYSTANDER / "mine").write_text("not a broker's")
        broker = self._make(home / "broker")
        if on_a_small_disk:
            broker.data_directory.mkdir()
            broker.prefix = ("unshare", "--mount", "--propagation", "private", "sh", "-c", _ON_A_SMALL_DISK)
            broker.prefix = (*broker.prefix, str(broker.data_directory))
        self._broker, self._is_small = broker, on_a_small_disk
        broker.start()
        broker.wait_until(lambda: _is_member(broker), MEMBER_S_MAX, "become a member of its cluster")
        return broker

    def end(self) -> None:
        """Stop the broker, or end it where it does not stop."""
        if self._broker is not None:
            with contextlib.suppress(ProcessError):
                self._broker.stop()
            self._broker.kill()
            self._broker = None


def _is_member(broker: BrokerProcess) -> bool:
    """Whether the broker is among those of its cluster, so that topics can be made."""
    with Client("127.0.0.1", broker.port, ALIVE_S_MAX) as client:
        return bool(client.ask(ApiKey.METADATA, 9, MetadataRequest(topics=[])).brokers)


def is_serving(broker: BrokerProcess) -> bool:
    """Whether a fresh connection is answered."""
    if not broker.is_running:
        return False
    try:
        with Client("127.0.0.1", broker.port, ALIVE_S_MAX) as client:
            client.ask(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())
    except OSError:
        return False
    return True


@contextlib.contextmanager
def both(directory: Path, only: str | None = None) -> Iterator[list[Side]]:
    """Sordini and Apache Kafka with its ZooKeeper, or one of them; all of it is ended with the block."""
    with contextlib.ExitStack() as stack:
        sides = []
        if only in (None, OURS):
            sides.append(Side(OURS, lambda home: SordiniProcess(home, SETTINGS), directory / "ours"))
        if only in (None, THEIRS):
            zookeeper = stack.enter_context(ZooKeeperProcess(directory / "zookeeper"))

            def theirs(home: Path) -> BrokerProcess:
                return ApacheKafkaProcess(home, f"{zookeeper.connect}/side-{uuid4().hex[:8]}", SETTINGS)

            sides.append(Side(THEIRS, theirs, directory / "theirs"))
        for side in sides:
            stack.callback(side.end)
        yield sides
