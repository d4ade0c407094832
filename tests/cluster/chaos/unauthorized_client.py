"""Requests that no broker may serve: without TLS, without a login, with wrong passwords, as a user without rights.

Each attempt is a connection of its own to one of the brokers. It sends what clients and what brokers send: if it were
served, a record would be in a log, or the cluster would change.
"""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, Final, NamedTuple

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode, WireError
from sordini.protocol.messages.alter_partition import AlterPartitionRequest
from sordini.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from sordini.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from sordini.protocol.messages.delete_topics import DeleteTopicsRequest
from sordini.protocol.messages.describe_acls import DescribeAclsRequest
from sordini.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from sordini.protocol.messages.init_producer_id import InitProducerIdRequest
from sordini.protocol.messages.metadata import MetadataRequest
from sordini.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from sordini.protocol.messages.stop_replica import StopReplicaRequest
from sordini.protocol.messages.update_metadata import UpdateMetadataRequest
from sordini.protocol.records.batch import Record
from tests.cluster.chaos.events import Tried
from tests.cluster.chaos.raw_client import PATIENCE_SECONDS
from tests.cluster.chaos.working import Orders, Working, split
from tests.cluster.security import CLIENT, WAYS
from tests.support.builders import a_batch
from tests.support.secured_client import LoginRefusedError, SecuredClient, UnknownSignatureError, User
from tests.support.wire_client import Client

NO_ANSWER: Final = -1
EPOCH: Final = 1_000_000
"""A controller epoch above any of the run: a broker that believed it would take no other controller's word."""


class Attempt(NamedTuple):
    """One request, and the error codes of its response; 0 means that it was served.

    In versions that Apache Kafka 2.7 and 3.9 know, too.
    """

    key: ApiKey
    version: int
    request: Callable[[Orders, str], Any]
    codes: Callable[[Any], list[int]]


def _produce(orders: Orders, value: str) -> ProduceRequest:
    topic, partition = split(random.choice(orders.partitions))
    batch = a_batch([Record(0, time.time_ns() // 1_000_000, None, value.encode())])
    rows = [PartitionProduceData(index=partition, records=memoryview(batch))]
    return ProduceRequest(acks=-1, timeout_ms=4_000, topic_data=[TopicProduceData(name=topic, partition_data=rows)])


def _fetch(orders: Orders, _value: str) -> FetchRequest:
    topic, partition = split(random.choice(orders.partitions))
    rows = [FetchPartition(partition=partition, partition_max_bytes=1_000)]
    return FetchRequest(topics=[FetchTopic(topic=topic, partitions=rows)])


def _replica_fetch(orders: Orders, value: str) -> FetchRequest:
    request = _fetch(orders, value)
    request.replica_id = 1
    return request


def _top(answer: Any) -> list[int]:
    return [answer.error_code]


def _fetched(answer: Any) -> list[int]:
    return [answer.error_code or row.error_code for topic in answer.responses for row in topic.partitions]


ATTEMPTS: Final = {
    "produce": Attempt(
        ApiKey.PRODUCE,
        8,
        _produce,
        lambda answer: [row.error_code for topic in answer.responses for row in topic.partition_responses],
    ),
    "fetch": Attempt(ApiKey.FETCH, 12, _fetch, _fetched),
    "fetch as a broker": Attempt(ApiKey.FETCH, 12, _replica_fetch, _fetched),
    "list all topics": Attempt(
        ApiKey.METADATA,
        9,
        lambda *_: MetadataRequest(topics=None),
        lambda answer: [topic.error_code for topic in answer.topics] or [ErrorCode.TOPIC_AUTHORIZATION_FAILED],
    ),
    "create a topic": Attempt(
        ApiKey.CREATE_TOPICS,
        5,
        lambda _, value: CreateTopicsRequest(
            topics=[CreatableTopic(name=value, num_partitions=1, replication_factor=1)], timeout_ms=4_000
        ),
        lambda answer: [topic.error_code for topic in answer.topics],
    ),
    "delete a topic": Attempt(
        ApiKey.DELETE_TOPICS,
        5,
        lambda orders, _: DeleteTopicsRequest(topic_names=[random.choice(orders.topics)], timeout_ms=4_000),
        lambda answer: [row.error_code for row in answer.responses],
    ),
    "describe the entries": Attempt(
        ApiKey.DESCRIBE_ACLS,
        2,
        lambda *_: DescribeAclsRequest(resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1),
        _top,
    ),
    "take over a transactional id": Attempt(
        ApiKey.INIT_PRODUCER_ID,
        4,
        lambda orders, _: InitProducerIdRequest(
            transactional_id=orders.transactional_id, transaction_timeout_ms=10_000
        ),
        _top,
    ),
    "shut a broker down": Attempt(
        ApiKey.CONTROLLED_SHUTDOWN, 3, lambda *_: ControlledShutdownRequest(broker_id=1, broker_epoch=-1), _top
    ),
    "change metadata": Attempt(
        ApiKey.UPDATE_METADATA,
        6,
        lambda *_: UpdateMetadataRequest(controller_id=1, controller_epoch=EPOCH, broker_epoch=-1),
        _top,
    ),
    "stop replicas": Attempt(
        ApiKey.STOP_REPLICA,
        3,
        lambda *_: StopReplicaRequest(controller_id=1, controller_epoch=EPOCH, broker_epoch=-1),
        _top,
    ),
    "alter a partition": Attempt(
        ApiKey.ALTER_PARTITION, 0, lambda *_: AlterPartitionRequest(broker_id=1, broker_epoch=-1), _top
    ),
}


def _plain(address: tuple[str, int], _settings: Mapping[str, str]) -> Client:
    return Client(*address, PATIENCE_SECONDS)


def _silent(address: tuple[str, int], settings: Mapping[str, str]) -> Client:
    return SecuredClient(*address, settings["ssl.ca.location"], None, PATIENCE_SECONDS)


def _as_user(user: User) -> Callable[[tuple[str, int], Mapping[str, str]], Client]:
    return lambda address, settings: SecuredClient(*address, settings["ssl.ca.location"], user, PATIENCE_SECONDS)


def ways(guest: User, known: str) -> dict[str, Callable[[tuple[str, int], Mapping[str, str]], Client]]:
    """How each way connects: `guest` is a user without rights, `known` the name of one that has some."""
    users = (User(known, "guessed"), User("nobody", "guessed"), guest)
    return dict(zip(WAYS, (_plain, _silent, *map(_as_user, users)), strict=True))


def attempt(way: Callable[..., Client], what: Attempt, orders: Orders, value: str) -> list[int]:
    """The codes of one attempt. Raises OSError when no broker is reached."""
    host, _, port = random.choice(orders.bootstrap).rpartition(":")
    socket.create_connection(
        (host, int(port)), PATIENCE_SECONDS
    ).close()  # A broker that is not reached refuses nothing.
    try:
        with way((host, int(port)), orders.security) as client:
            return what.codes(client.ask(what.key, what.version, what.request(orders, value)))
    except (LoginRefusedError, ConnectionError, WireError):
        return [NO_ANSWER]
    except UnknownSignatureError:
        return [ErrorCode.NONE]


def run(working: Working) -> None:
    """Try until it is enough."""
    orders, choice = working.orders, random.Random(working.orders.name)
    guest = User(orders.security["sasl.username"], orders.security["sasl.password"])
    found_ways = ways(guest, CLIENT)
    for number in count(1):
        if not working:
            return
        way, what = choice.choice(sorted(found_ways)), choice.choice(sorted(ATTEMPTS))
        try:
            codes = attempt(found_ways[way], ATTEMPTS[what], orders, f"{orders.name}-{number}")
        except OSError:
            codes = []
        for code in codes:
            working.recorder.note(Tried(way, what, code, time.monotonic()))
        working.recorder.flush()
        time.sleep(1 / orders.per_second)


def main() -> None:
    working = Working()
    run(working)
    working.recorder.close()


if __name__ == "__main__":
    main()
