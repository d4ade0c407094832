"""A broker that has few descriptors, or none."""

from __future__ import annotations

import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.outside.processes import ProcessError, SordiniProcess
from tests.support.builders import a_batch
from tests.support.wire_client import PATIENCE_S, Client

HEALS_S = 90
"""The pauses between two attempts grow to half a minute while a busy machine takes its time over the first."""

Start = Callable[..., SordiniProcess]
Connect = Callable[..., Client]


@contextmanager
def without_descriptors(broker: SordiniProcess) -> Iterator[None]:
    """The broker can open nothing meanwhile."""
    former = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (3, former[1]))
    try:
        yield
    finally:
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, former)


def test_a_topic_made_while_there_are_no_descriptors_heals_by_itself(start_sordini: Start, connect: Connect) -> None:
    broker = start_sordini()
    client = connect(broker)
    client.metadata()  # It has been accepted.
    with without_descriptors(broker):
        topic = CreatableTopic(name="orders", num_partitions=3, replication_factor=1)
        client.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[topic], timeout_ms=100))
        broker.wait_until(lambda: "partition deferred" in broker.output(), HEALS_S, "receive the partitions")
        rows = client.produce("orders", [a_batch()] * 3)
        assert 0 not in {row.error_code for row in rows}

    codes: list[int] = []

    def heals() -> bool:
        codes[:] = [row.error_code for row in client.produce("orders", [a_batch()] * 3)]
        return codes == [0, 0, 0]

    try:
        broker.wait_until(heals, HEALS_S, "take the partitions in again")
    except ProcessError as error:
        raise ProcessError(f"{error}\nthe last codes are {codes}") from None
    assert broker.output().count("partition deferred") == 3, "a line for each, however often it is tried"
    assert client.create("bills") == [0]
    assert broker.stop() == 0


class WithFewDescriptors(SordiniProcess):
    """A broker whose hard limit of open files is small."""

    LIMIT = 256

    def command(self) -> list[str]:
        return ["sh", "-c", f'ulimit -n {self.LIMIT} && exec "$@"', "sh", *super().command()]


def test_connections_leave_descriptors_to_logs(tmp_path: Path, connect: Connect) -> None:
    with WithFewDescriptors(tmp_path) as broker, ExitStack() as idle:
        client = connect(broker)
        client.metadata()
        for _ in range(WithFewDescriptors.LIMIT):
            peer = idle.enter_context(socket.socket())
            peer.setblocking(False)
            with suppress(BlockingIOError):
                peer.connect(("127.0.0.1", broker.port))
        broker.wait_until(lambda: "accepting paused" in broker.output(), PATIENCE_S, "stop accepting")
        assert client.create("orders", partitions=20) == [0]
        assert {row.error_code for row in client.produce("orders", [a_batch()] * 20)} == {0}
        idle.close()
        connect(broker).metadata()
        assert "accepting resumed" in broker.output()
