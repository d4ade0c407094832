"""The end of a run: clients are stopped in their order, and the cluster is asked what transactions left behind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from confluent_kafka import KafkaError, TopicPartition

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.find_coordinator import FindCoordinatorRequest
from sordini.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from tests.cluster.chaos.events import Committed, Found, Stable
from tests.cluster.chaos.raw_client import READ_COMMITTED, Links, ends_of
from tests.cluster.chaos.reader import POLL_SECONDS, consumer
from tests.cluster.chaos.transacting import TIMEOUT_MS
from tests.cluster.chaos.transaction_laws import COPY_GROUP, COPY_SOURCE
from tests.cluster.chaos.working import split
from tests.cluster.chaos.world import ClientProcess, World, partitions_of
from tests.outside.processes import ProcessError

STOP_SECONDS_MAX: Final = 90.0
STABLE_SECONDS_MAX: Final = TIMEOUT_MS / 1_000 + 20.0
"""For every transaction to end, or to time out."""
COPIED_SECONDS_MAX: Final = 60.0
EMPTY_POLLS_MAX: Final = 40
LAST_OF_ALL: Final = "copier"


def stop_clients(world: World) -> None:
    """All but the copying ones, then these when there is nothing to copy; what is left behind is noted."""
    copying = [client for client in world.clients.values() if client.module == LAST_OF_ALL]
    others = [client for client in world.clients.values() if client.module != LAST_OF_ALL]
    _stop(world, [*others, *world.ending])
    links = Links(world.addresses, world.client_settings)
    world.wait_for(_answered(lambda: is_stable(links, world.partitions)), STABLE_SECONDS_MAX)
    world.wait_for(_answered(lambda: is_copied(world.connection, group_offsets(links))), COPIED_SECONDS_MAX)
    _stop(world, copying)
    world.clients.clear()
    world.ending.clear()
    world.wait_for(_answered(lambda: is_stable(links, world.partitions)), STABLE_SECONDS_MAX)
    for tp, (stable, end) in stable_offsets(links, world.partitions).items():
        world.recorder.note(Stable(tp, stable, end))
    for tp, offset in group_offsets(links).items():
        world.recorder.note(Committed(COPY_GROUP, tp, offset))
    links.close()


def _stop(world: World, clients: Iterable[ClientProcess]) -> None:
    for client in clients:
        client.terminate()
    for client in clients:
        try:
            if status := client.wait_for_exit(STOP_SECONDS_MAX):
                world.recorder.note(Found("client", f"{client.name} ended with {status}\n{client.tail()}"))
        except ProcessError as problem:
            world.recorder.note(Found("I14", f"{client.name} does not end: {problem}"))
            client.kill()


def _answered(condition: Callable[[], bool]) -> Callable[[], bool]:
    """What no broker answers is not true."""

    def met() -> bool:
        try:
            return condition()
        except OSError:
            return False

    return met


def stable_offsets(links: Links, tps: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Last stable offset and high watermark of each partition; -1 and 0 of one without a leader. Raises OSError."""
    found = dict.fromkeys(tps, (-1, 0))
    leaders = links.leaders(sorted({split(tp)[0] for tp in found}))
    for address in set(leaders.values()):
        led = [tp for tp in found if leaders.get(tp) == address]
        stable = dict(ends_of(links, address, led, READ_COMMITTED))
        for tp, (_, end) in ends_of(links, address, led):
            found[tp] = stable.get(tp, (-1, -1))[1], end
    return found


def is_stable(links: Links, tps: Iterable[str]) -> bool:
    """Whether no partition has an open transaction."""
    return all(stable == end for stable, end in stable_offsets(links, tps).values())


def group_offsets(links: Links) -> dict[str, int]:
    """Where the copying group stands; a partition with an open transaction's offset is left out. Raises OSError."""
    found = links.any(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(key=COPY_GROUP, key_type=0))
    numbers = [split(tp)[1] for tp in partitions_of([COPY_SOURCE])]
    rows = [OffsetFetchRequestTopic(name=COPY_SOURCE, partition_indexes=numbers)]
    request = OffsetFetchRequest(group_id=COPY_GROUP, topics=rows, require_stable=True)
    answer = links.ask(f"{found.host}:{found.port}", ApiKey.OFFSET_FETCH, 7, request)
    return {
        f"{topic.name}-{one.partition_index}": one.committed_offset
        for topic in answer.topics
        for one in topic.partitions
        if one.error_code == 0
    }


def is_copied(connection: Mapping[str, str], offsets: dict[str, int]) -> bool:
    """Whether there are no records after these offsets."""
    unread = set(partitions_of([COPY_SOURCE]))
    if offsets.keys() != unread:
        return False
    reader = consumer(connection)
    reader.assign([TopicPartition(*split(tp), max(offset, 0)) for tp, offset in offsets.items()])
    try:
        for _ in range(EMPTY_POLLS_MAX):
            message = reader.poll(POLL_SECONDS)
            if message is None:
                continue
            error = message.error()
            if error is None:
                return False
            if error.code() == KafkaError._PARTITION_EOF:
                unread.discard(f"{message.topic()}-{message.partition()}")
            if not unread:
                return True
        return False
    finally:
        reader.close()
