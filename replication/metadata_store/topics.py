"""Making, growing and removing topics: what is allowed, where replicas go, and the nodes that say so.

Whoever handles the request plans here and writes here; the controller sees the nodes and does the rest. Checks, their
order and their error codes are those of Apache Kafka's brokers in ZooKeeper mode.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.topic_names import topic_name_error
from sordini.protocol.types import NO_TOPIC_ID, BrokerId, TopicId
from sordini.replication.cluster_model import Malformed, TopicAssignment, frozen
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.metadata_store.replica_placement import Racks, brokers_without_rack, place_from, start_of
from sordini.replication.ports import BadVersion, Check, Create, NodeExists, NoNode, Operation, Session, Set

Replicas = Mapping[int, tuple[BrokerId, ...]]

USE_BROKER_DEFAULT = -1


def topic_ids(getrandbits: Callable[[int], int]) -> Callable[[], TopicId]:
    """Draws of random ids. One whose text begins with '-' looks like an option to tools, so it is drawn again."""

    def draw() -> TopicId:
        while True:
            topic_id = TopicId(getrandbits(128).to_bytes(16, "big"))
            if topic_id[0] >> 2 != 62 and topic_id != NO_TOPIC_ID:
                return topic_id

    return draw


def check_topic_name(name: str) -> None:
    """Raise BrokerError INVALID_TOPIC_EXCEPTION unless a topic may bear this name."""
    reason = topic_name_error(name)
    if reason is not None:
        raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {name!r}: {reason}.")


def unknown_topic_code(name: str) -> ErrorCode:
    """Why there is no topic of this name: nobody made it, or nobody can."""
    try:
        check_topic_name(name)
    except BrokerError as error:
        return error.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def colliding(name: str, existing: Collection[str]) -> list[str]:
    """Topics whose metrics could not be told from this one's, because '.' and '_' are the same there."""
    if "." not in name and "_" not in name:
        return []
    plain = name.replace(".", "_")
    return sorted(other for other in existing if other != name and other.replace(".", "_") == plain)


def place(name: str, racks: Racks, partitions: range, replication_factor: int) -> Replicas:
    """Where partitions of a topic of this name go: the rule's s comes from the name.

    So small topics do not all lie on the first broker, and the same name is always placed alike. Raises BrokerError
    UNKNOWN_SERVER_ERROR, as Apache Kafka does, when racks are known of some brokers only.
    """
    _check_racks(racks)
    return place_from(zlib.crc32(name.encode()), racks, partitions, replication_factor)


def _check_racks(racks: Racks) -> None:
    missing = brokers_without_rack(racks)
    if missing:
        raise BrokerError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"Brokers {missing} have no broker.rack, and others have one: replicas cannot be spread over racks.",
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
    """The replicas of a topic to be made. Raises BrokerError with the reason why it cannot be.

    Counts are the request's, -1 asking for the default. `assignments` says where each partition is to lie, or is
    empty. `racks` has the living brokers; `existing` are all topics, those being deleted included.
    """
    if name in existing:
        raise _exists(name)
    if assignments:
        if (num_partitions, replication_factor) != (USE_BROKER_DEFAULT, USE_BROKER_DEFAULT):
            raise BrokerError(
                ErrorCode.INVALID_REQUEST,
                "Give either the replicas of each partition, or counts of partitions and replicas, not both.",
            )
        replicas = _given(assignments)
    else:
        partitions = default_partitions if num_partitions == USE_BROKER_DEFAULT else num_partitions
        factor = default_replication_factor if replication_factor == USE_BROKER_DEFAULT else replication_factor
        _check_counts(partitions, factor, len(racks))
        replicas = place(name, racks, range(partitions), factor)
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


def _given(assignments: Sequence[tuple[int, Sequence[int]]]) -> Replicas:
    replicas = {partition: tuple(BrokerId(broker) for broker in held) for partition, held in assignments}
    if len(replicas) != len(assignments):
        raise BrokerError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Invalid replica assignment: a partition is named twice."
        )
    return replicas


def _check_replicas(replicas: Replicas) -> None:
    """Raise INVALID_REPLICA_ASSIGNMENT for one that makes no sense. Unknown brokers are allowed, as in Kafka."""
    reason = None
    sizes = {len(held) for held in replicas.values()}
    twice = [held for held in replicas.values() if len(set(held)) != len(held)]
    if len(sizes) != 1:
        reason = "all partitions should have the same number of replicas"
    elif sizes == {0}:
        reason = "a partition needs a replica"
    elif twice:
        reason = f"a broker holds a partition once, not twice: {list(twice[0])}"
    elif sorted(replicas) != list(range(len(replicas))):
        reason = "partitions are numbered from 0 without a gap"
    if reason is not None:
        raise BrokerError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Invalid replica assignment: {reason}.")


def plan_more_partitions(
    topic: TopicAssignment, count: int, assignments: Sequence[Sequence[int]] | None, racks: Racks
) -> Replicas:
    """The replicas of the partitions by which a topic grows to `count`. Raises BrokerError with the reason why not.

    `assignments` says where each of the new ones is to lie; without it they go on where the topic's first partition
    began, so that a topic lies as if it had been made with all of them.
    """
    if topic.adding or topic.removing:
        raise BrokerError(ErrorCode.REASSIGNMENT_IN_PROGRESS, f"Partitions of topic {topic.name!r} are on the move.")
    present = len(topic.replicas)
    if count <= present:
        raise BrokerError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic has {present} partitions, and {count} are not more than that.",
        )
    first = topic.replicas[min(topic.replicas)]
    if assignments is None:
        _check_counts(count, len(first), len(racks))
        _check_racks(racks)
        return place_from(start_of(first[0], racks), racks, range(present, count), len(first))
    more = {present + place: tuple(BrokerId(broker) for broker in held) for place, held in enumerate(assignments)}
    _check_more_replicas(more, count - present, len(first), racks)
    return more


def _check_more_replicas(more: Replicas, wanted: int, factor: int, brokers: Collection[BrokerId]) -> None:
    """Raise INVALID_REPLICA_ASSIGNMENT. Unknown brokers are refused here, unlike for a topic that is made."""
    unknown = sorted({broker for held in more.values() for broker in held} - set(brokers))
    reason = None
    if len(more) != wanted:
        reason = f"{wanted} partitions are to be added, and {len(more)} are placed."
    elif unknown:
        reason = f"Brokers {unknown} are not alive."
    elif any(len(set(held)) != len(held) for held in more.values()):
        reason = "A broker holds a partition once, not twice."
    elif any(len(held) != factor for held in more.values()):
        reason = f"The topic's partitions have {factor} replicas, and so must the new ones."
    if reason is not None:
        raise BrokerError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)


CONFIG_TRIES_MAX = 3
"""How often a configuration may come or go under somebody who makes its topic."""
GROWTH_TRIES_MAX = 100
"""How often in a row others may change a topic that is to grow."""


async def create_topic(
    session: Session, name: str, replicas: Replicas, topic_id: TopicId, config: Mapping[str, str]
) -> None:
    """Write the topic's configuration and then its assignment, as one transaction: never one without the other.

    Raises BrokerError TOPIC_ALREADY_EXISTS when somebody was faster.
    """
    settings = znodes.encode_config(config)
    topic = Create(paths.topic(name), znodes.encode_topic(TopicAssignment(name, replicas, topic_id)))
    path = paths.topic_config(name)
    # A configuration may be there alone: set before the topic was made, left by a tool, or a former topic's, which is
    # being deleted and may go at any moment.
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
    raise BrokerError(ErrorCode.REQUEST_TIMED_OUT, f"The configuration of {name!r} comes and goes: try again.")


async def add_partitions(
    session: Session, name: str, plan: Callable[[TopicAssignment], Replicas], *, validate_only: bool
) -> Replicas:
    """Let a topic grow by what `plan` makes of it as it is now; the new partitions' replicas.

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
        grown = replace(topic, replicas=frozen({**topic.replicas, **more}))
        try:
            await session.set(path, znodes.encode_topic(grown), stat.version)
        except BadVersion:
            continue  # Somebody else wrote the topic meanwhile: what was planned may be wrong now.
        except NoNode:
            raise _does_not_exist(name) from None
        return more
    raise BrokerError(ErrorCode.REQUEST_TIMED_OUT, f"Topic {name!r} is being changed by others: try again.")


async def count_partitions(session: Session, name: str) -> int:
    """How many partitions a topic has; raises BrokerError UNKNOWN_TOPIC_OR_PARTITION or UNKNOWN_SERVER_ERROR."""
    try:
        data, stat = await session.get(paths.topic(name))
    except NoNode:
        raise _does_not_exist(name) from None
    topic = znodes.decode_topic(name, data, stat.version)
    if isinstance(topic, Malformed):
        raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{topic.path} cannot be read: {topic.reason}")
    return len(topic.replicas)


async def check_absent(session: Session, name: str) -> None:
    """Raise BrokerError TOPIC_ALREADY_EXISTS if `create_topic` would."""
    if await session.exists(paths.topic(name)) is not None:
        raise _exists(name)


async def delete_topic(session: Session, name: str) -> None:
    """Ask the controller to delete a topic. Asking twice is fine. Raises UNKNOWN_TOPIC_OR_PARTITION."""
    try:
        await session.multi([Check(paths.topic(name)), Create(paths.delete_topic(name))])
    except NodeExists:
        return
    except NoNode as refusal:
        if refusal.path != paths.topic(name):
            raise
        raise _does_not_exist(name) from None


def _does_not_exist(name: str) -> BrokerError:
    return BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {name!r}.")


def _exists(name: str) -> BrokerError:
    return BrokerError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic {name!r} already exists.")
