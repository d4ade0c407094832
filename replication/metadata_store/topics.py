"""Topics in the store: validation, placement, and the nodes that create, grow and delete them.

The broker that serves the request plans and writes; the controller watches the nodes and does the rest. The checks,
their order and their error codes are those of Apache Kafka's brokers in ZooKeeper mode.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Mapping, Sequence

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.topic_names import topic_name_error
from sordini.protocol.types import NO_TOPIC_ID, BrokerId, TopicId
from sordini.replication.cluster_model import Malformed, TopicAssignment, frozen
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.ports import BadVersion, Check, Create, NodeExists, NoNode, Operation, Session, Set
from sordini.replication.replica_placement import Racks, brokers_without_rack, place_from, start_of

Replicas = Mapping[int, tuple[BrokerId, ...]]

USE_BROKER_DEFAULT = -1


def topic_ids(getrandbits: Callable[[int], int]) -> Callable[[], TopicId]:
    """A generator of random ids. An id whose text begins with '-' looks like an option to tools and is skipped."""

    def draw() -> TopicId:
        while True:
            topic_id = TopicId(getrandbits(128).to_bytes(16, "big"))
            if topic_id[0] >> 2 != 62 and topic_id != NO_TOPIC_ID:
                return topic_id

    return draw


def check_topic_name(name: str) -> None:
    """Raise BrokerError INVALID_TOPIC_EXCEPTION for an invalid topic name."""
    reason = topic_name_error(name)
    if reason is not None:
        raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {name!r}: {reason}.")


def unknown_topic_code(name: str) -> ErrorCode:
    """The error code for an unknown topic: it does not exist, or its name is invalid."""
    try:
        check_topic_name(name)
    except BrokerError as error:
        return error.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def colliding(name: str, existing: Collection[str]) -> list[str]:
    """Topics whose metrics would have the same names, in which '.' and '_' are the same."""
    if "." not in name and "_" not in name:
        return []
    plain = name.replace(".", "_")
    return sorted(other for other in existing if other != name and other.replace(".", "_") == plain)


def place_replicas(name: str, racks: Racks, partitions: range, replication_factor: int) -> Replicas:
    """The replicas of a new topic's partitions: the start of the placement is a hash of the name.

    So small topics are not all on the first broker, and the same name is always placed alike. Raises BrokerError
    UNKNOWN_SERVER_ERROR, as Apache Kafka does, when only some brokers have a rack.
    """
    _check_racks(racks)
    return place_from(zlib.crc32(name.encode()), racks, partitions, replication_factor)


def _check_racks(racks: Racks) -> None:
    missing = brokers_without_rack(racks)
    if missing:
        raise BrokerError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"Brokers {missing} have no broker.rack, but others have one: replicas cannot be spread over racks.",
        )


def plan_topic(
    name: str,
    *,
    num_partitions: int,
    replication_factor: int,
    assignments: Sequence[tuple[int, Sequence[int]]],
    racks: Racks,
    existing: Collection[str],
    default_partitions: int,
    default_replication_factor: int,
) -> Replicas:
    """The replicas of a topic to be created. Raises BrokerError for an invalid request.

    Counts are the request's, -1 for the default. `assignments` has the replicas of each partition, or is empty. `racks`
    has the live brokers; `existing` are all topics, including those being deleted.
    """
    if name in existing:
        raise _exists(name)
    if assignments:
        if (num_partitions, replication_factor) != (USE_BROKER_DEFAULT, USE_BROKER_DEFAULT):
            raise BrokerError(
                ErrorCode.INVALID_REQUEST,
                "Specify either the replicas of each partition, or the numbers of partitions and replicas, not both.",
            )
        replicas = _manual_assignment(assignments)
    else:
        partitions = default_partitions if num_partitions == USE_BROKER_DEFAULT else num_partitions
        factor = default_replication_factor if replication_factor == USE_BROKER_DEFAULT else replication_factor
        _check_counts(partitions, factor, len(racks))
        replicas = place_replicas(name, racks, range(partitions), factor)
    check_topic_name(name)
    others = colliding(name, existing)
    if others:
        raise BrokerError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic {name!r} collides with existing topics: {', '.join(others)}.",
        )
    _check_replicas(replicas)
    return replicas


def _check_counts(partitions: int, factor: int, brokers: int) -> None:
    if partitions <= 0:
        raise BrokerError(ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
    if factor <= 0:
        raise BrokerError(ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")
    if factor > brokers:
        raise BrokerError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor: {factor} larger than available brokers: {brokers}.",
        )


def _manual_assignment(assignments: Sequence[tuple[int, Sequence[int]]]) -> Replicas:
    replicas = {partition: tuple(BrokerId(broker) for broker in held) for partition, held in assignments}
    if len(replicas) != len(assignments):
        raise BrokerError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Invalid replica assignment: a partition is named twice."
        )
    return replicas


def _check_replicas(replicas: Replicas) -> None:
    """Raise INVALID_REPLICA_ASSIGNMENT for an inconsistent one. Unknown brokers are allowed, as in Kafka."""
    reason = None
    sizes = {len(held) for held in replicas.values()}
    twice = [held for held in replicas.values() if len(set(held)) != len(held)]
    if len(sizes) != 1:
        reason = "all partitions should have the same number of replicas"
    elif sizes == {0}:
        reason = "a partition needs at least one replica"
    elif twice:
        reason = f"duplicate replicas: {list(twice[0])}"
    elif sorted(replicas) != list(range(len(replicas))):
        reason = "partitions must be numbered from 0 without a gap"
    if reason is not None:
        raise BrokerError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Invalid replica assignment: {reason}.")


def plan_more_partitions(
    topic: TopicAssignment, count: int, assignments: Sequence[Sequence[int]] | None, racks: Racks
) -> Replicas:
    """The replicas of the new partitions when a topic grows to `count`. Raises BrokerError for an invalid request.

    `assignments` has the replicas of each new partition. Without it the placement continues from the topic's first
    partition, as if the topic had been created with all of them.
    """
    if topic.adding or topic.removing:
        raise BrokerError(
            ErrorCode.REASSIGNMENT_IN_PROGRESS, f"Partitions of topic {topic.name!r} are being reassigned."
        )
    present = len(topic.replicas)
    if count <= present:
        raise BrokerError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic has {present} partitions already; {count} is not an increase.",
        )
    first = topic.replicas[min(topic.replicas)]
    if assignments is None:
        _check_counts(count, len(first), len(racks))
        _check_racks(racks)
        return place_from(start_of(first[0], racks), racks, range(present, count), len(first))
    more = {present + index: tuple(BrokerId(broker) for broker in held) for index, held in enumerate(assignments)}
    _check_more_replicas(more, count - present, len(first), racks)
    return more


def _check_more_replicas(more: Replicas, count: int, factor: int, brokers: Collection[BrokerId]) -> None:
    """Raise INVALID_REPLICA_ASSIGNMENT. Unlike for a new topic, unknown brokers are rejected."""
    unknown = sorted({broker for held in more.values() for broker in held} - set(brokers))
    reason = None
    if len(more) != count:
        reason = f"{count} partitions are to be added, but {len(more)} assignments are given."
    elif unknown:
        reason = f"Brokers {unknown} are not live."
    elif any(len(set(held)) != len(held) for held in more.values()):
        reason = "Duplicate replicas."
    elif any(len(held) != factor for held in more.values()):
        reason = f"The topic's partitions have {factor} replicas; the new ones must have as many."
    if reason is not None:
        raise BrokerError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)


CONFIG_TRIES_MAX = 3
"""How often a configuration may be created or deleted by others while its topic is being created."""
GROWTH_TRIES_MAX = 100
"""How often in a row other writers may change a topic before an attempt to grow it gives up."""


async def create_topic(
    session: Session, name: str, replicas: Replicas, topic_id: TopicId, config: Mapping[str, str]
) -> None:
    """Write the topic's configuration and its assignment, in one transaction.

    Raises BrokerError TOPIC_ALREADY_EXISTS when another broker was faster.
    """
    settings = znodes.encode_config(config)
    topic = Create(paths.topic(name), znodes.encode_topic(TopicAssignment(name, replicas, topic_id)))
    path = paths.topic_config(name)
    # A configuration may exist without the topic: set before its creation, left by a tool, or that of a former topic
    # which is being deleted.
    attempts: tuple[Operation, Operation] = Create(path, settings), Set(path, settings)
    for attempt in attempts * CONFIG_TRIES_MAX:
        try:
            await session.multi([attempt, topic])
        except NodeExists as refusal:
            if refusal.path == topic.path:
                raise _exists(name) from None
        except NoNode as refusal:
            if refusal.path != path:
                raise
        else:
            return
    raise BrokerError(
        ErrorCode.REQUEST_TIMED_OUT, f"The configuration of {name!r} is being changed by others: try again."
    )


async def add_partitions(
    session: Session, name: str, plan: Callable[[TopicAssignment], Replicas], *, validate_only: bool
) -> Replicas:
    """Add the partitions that `plan` returns for the topic; the new partitions' replicas.

    Raises BrokerError: what `plan` raises, UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION for one that is being
    deleted, REQUEST_TIMED_OUT.
    """
    path = paths.topic(name)
    for _ in range(GROWTH_TRIES_MAX):
        try:
            data, stat = await session.get(path)
        except NoNode:
            raise _does_not_exist(name) from None
        if await session.exists(paths.delete_topic(name)) is not None:
            raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic {name!r} is being deleted.")
        topic = znodes.decode_topic(name, data, stat.version)
        if isinstance(topic, Malformed):
            raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{topic.path} cannot be read: {topic.reason}")
        more = plan(topic)
        if validate_only:
            return more
        grown = topic._replace(replicas=frozen({**topic.replicas, **more}))
        try:
            await session.set(path, znodes.encode_topic(grown), stat.version)
        except BadVersion:
            continue  # Another writer changed the topic meanwhile: plan again.
        except NoNode:
            raise _does_not_exist(name) from None
        return more
    raise BrokerError(ErrorCode.REQUEST_TIMED_OUT, f"Topic {name!r} is being changed by others: try again.")


async def count_partitions(session: Session, name: str) -> int:
    """The number of a topic's partitions; raises BrokerError UNKNOWN_TOPIC_OR_PARTITION or UNKNOWN_SERVER_ERROR."""
    try:
        data, stat = await session.get(paths.topic(name))
    except NoNode:
        raise _does_not_exist(name) from None
    topic = znodes.decode_topic(name, data, stat.version)
    if isinstance(topic, Malformed):
        raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{topic.path} cannot be read: {topic.reason}")
    return len(topic.replicas)


async def check_absent(session: Session, name: str) -> None:
    """Raise BrokerError TOPIC_ALREADY_EXISTS for an existing topic."""
    if await session.exists(paths.topic(name)) is not None:
        raise _exists(name)


async def delete_topic(session: Session, name: str) -> None:
    """Request a topic's deletion by the controller. Idempotent. Raises UNKNOWN_TOPIC_OR_PARTITION."""
    try:
        await session.multi([Check(paths.topic(name)), Create(paths.delete_topic(name))])
    except NodeExists:
        return
    except NoNode as refusal:
        if refusal.path != paths.topic(name):
            raise
        raise _does_not_exist(name) from None


def _does_not_exist(name: str) -> BrokerError:
    return BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic {name!r} does not exist.")


def _exists(name: str) -> BrokerError:
    return BrokerError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic {name!r} already exists.")
