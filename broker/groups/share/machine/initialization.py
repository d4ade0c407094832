"""Whose states the share coordinator has: partitions that a group begins to read, and those that it gives up.

    subscribed ──► initializing ──► initialized ──► (assigned to members)
                        │                 │
                        └──► tried again  └──► deleting ──► gone

Every partition of a subscribed topic is initialized, when it is new or when it has been initializing for longer than
`group.share.initialize.retry.interval.ms`. New partitions of a known topic begin at their first record: no record of
theirs was there before the group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sordini.broker.groups.share.machine.events import InitializeStates
from sordini.broker.groups.share.machine.state import NO_TOPICS, Partitions, PartitionStates, StateTopic, StateTopics
from sordini.broker.groups.share.machine.transition import ShareTransition
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import Offset, TopicId

UNKNOWN_NAME = "<UNKNOWN>"
"""What Apache Kafka's records call a topic that has no name any more."""
NO_STATES = PartitionStates()


def initialize_new(transition: ShareTransition, names: frozenset[str]) -> None:
    """Begin with the partitions of subscribed topics that are neither initialized nor being initialized."""
    states = transition.states or NO_STATES
    missing = _missing(transition, states, names)
    if not missing:
        return
    known = states.initialized.keys() | states.initializing.keys()
    transition.write_states(_with_initializing(transition, states, missing))
    partitions = {topic_id: topic.partitions for topic_id, topic in missing.items()}
    starts = {topic_id: Offset(0) if topic_id in known else None for topic_id in missing}
    transition.actions.append(InitializeStates(transition.epoch, starts, partitions))


def initialized(transition: ShareTransition, partitions: Partitions) -> None:
    """The share coordinator has the states of these."""
    if not partitions:
        return
    states = transition.states or NO_STATES
    done = {topic_id: StateTopic(_name_of(transition, topic_id), found) for topic_id, found in partitions.items()}
    transition.write_states(
        PartitionStates(
            _without(states.initializing, partitions),
            _merged(states.initialized, done),
            _named(transition, states.deleting),
        )
    )


def not_initialized(transition: ShareTransition, partitions: Partitions) -> None:
    """It has not. A later heartbeat tries again."""
    states = transition.states
    if states is not None and states.initializing and partitions:
        initializing, deleting = _without(states.initializing, partitions), _named(transition, states.deleting)
        transition.write_states(PartitionStates(initializing, states.initialized, deleting))


def set_offsets(transition: ShareTransition, offsets: Mapping[TopicId, Mapping[int, Offset]]) -> Partitions:
    """Begin to initialize partitions at start offsets. Raises BrokerError NON_EMPTY_GROUP."""
    check_empty(transition)
    found = {topic_id: frozenset(starts) for topic_id, starts in offsets.items()}
    if found:
        topics = {topic_id: StateTopic(_name_of(transition, topic_id), indexes) for topic_id, indexes in found.items()}
        transition.write_states(_with_initializing(transition, transition.states or NO_STATES, topics))
    return {topic_id: indexes for topic_id, indexes in found.items() if indexes}


def delete_offsets(transition: ShareTransition, topic_ids: Iterable[TopicId]) -> Partitions:
    """Begin to delete the states of topics; returns those that have any, with their partitions.

    Raises BrokerError NON_EMPTY_GROUP.
    """
    check_empty(transition)
    states = transition.states
    if states is None:
        return {}
    initialized_topics, deleting = dict(states.initialized), dict(states.deleting)
    found: dict[TopicId, frozenset[int]] = {}
    for topic_id in topic_ids:
        topic = initialized_topics.pop(topic_id, None)
        if topic is not None:
            found[topic_id] = topic.partitions
            deleting[topic_id] = topic.name
        elif topic_id in deleting:
            found[topic_id] = _all_partitions(transition, topic_id)
    transition.write_states(PartitionStates(states.initializing, initialized_topics, _named(transition, deleting)))
    return found


def forget_deleting(transition: ShareTransition, topic_ids: frozenset[TopicId]) -> None:
    """The states of these topics are deleted."""
    states = transition.states
    if states is not None:
        left = [topic_id for topic_id in states.deleting if topic_id not in topic_ids]
        transition.write_states(states._replace(deleting=_named(transition, left)))


def forget_topics(transition: ShareTransition, topic_ids: frozenset[TopicId]) -> None:
    """These topics are deleted from the cluster."""
    states = transition.states
    if states is None or not topic_ids & (
        states.initializing.keys() | states.initialized.keys() | states.deleting.keys()
    ):
        return
    transition.write_states(
        PartitionStates(
            {topic_id: topic for topic_id, topic in states.initializing.items() if topic_id not in topic_ids},
            {topic_id: topic for topic_id, topic in states.initialized.items() if topic_id not in topic_ids},
            _named(transition, [topic_id for topic_id in states.deleting if topic_id not in topic_ids]),
        )
    )


def begin_removal(transition: ShareTransition) -> Partitions:
    """Begin to delete all states of the group; returns their partitions. Raises BrokerError NON_EMPTY_GROUP."""
    check_empty(transition)
    states = transition.states
    if states is None:
        return {}
    found = {topic_id: topic.partitions for topic_id, topic in _merged(states.initialized, states.initializing).items()}
    for topic_id in states.deleting:
        if _all_partitions(transition, topic_id):
            found[topic_id] = found.get(topic_id, frozenset()) | _all_partitions(transition, topic_id)
    names = {**{topic: one.name for topic, one in {**states.initialized, **states.initializing}.items()}}
    deleting = {topic_id: names.get(topic_id) or _name_of(transition, topic_id) for topic_id in found}
    transition.write_states(PartitionStates(deleting=deleting))
    return found


def check_empty(transition: ShareTransition) -> None:
    """Raise BrokerError NON_EMPTY_GROUP for a group with members."""
    if transition.members:
        raise BrokerError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")


def _missing(transition: ShareTransition, states: PartitionStates, names: frozenset[str]) -> StateTopics:
    """The partitions of topics by these names that are to be initialized."""
    topics, now_ms = transition.around.topics, transition.around.now.wall_ms
    is_tried_again = now_ms - transition.states_ms >= transition.around.settings.initialize_retry_ms
    under_way = NO_TOPICS if is_tried_again else states.initializing
    missing: dict[TopicId, StateTopic] = {}
    for name in sorted(names):
        topic = topics.get(name)
        if topic is None:
            continue
        begun = _partitions(states.initialized, topic.topic_id) | _partitions(under_way, topic.topic_id)
        if len(begun) < topic.partitions:
            missing[topic.topic_id] = StateTopic(name, frozenset(range(topic.partitions)) - begun)
    return missing


def _with_initializing(transition: ShareTransition, states: PartitionStates, topics: StateTopics) -> PartitionStates:
    """What is initialized is not being deleted any more."""
    initializing = _merged(states.initializing, topics)
    deleting = [topic_id for topic_id in states.deleting if topic_id not in initializing]
    return PartitionStates(initializing, states.initialized, _named(transition, deleting))


def _merged(first: StateTopics, second: StateTopics) -> StateTopics:
    """The partitions of both; names are those of the second."""
    merged = dict(first)
    for topic_id, topic in second.items():
        merged[topic_id] = StateTopic(topic.name, topic.partitions | _partitions(first, topic_id))
    return merged


def _without(topics: StateTopics, partitions: Partitions) -> StateTopics:
    left = {
        topic_id: topic._replace(partitions=topic.partitions - partitions.get(topic_id, frozenset()))
        for topic_id, topic in topics.items()
    }
    return {topic_id: topic for topic_id, topic in left.items() if topic.partitions}


def _partitions(topics: StateTopics, topic_id: TopicId) -> frozenset[int]:
    topic = topics.get(topic_id)
    return frozenset() if topic is None else topic.partitions


def _all_partitions(transition: ShareTransition, topic_id: TopicId) -> frozenset[int]:
    """All of a topic that exists."""
    name = transition.around.topics.name_of(topic_id)
    topic = None if name is None else transition.around.topics.get(name)
    return frozenset() if topic is None else frozenset(range(topic.partitions))


def _named(transition: ShareTransition, topic_ids: Iterable[TopicId]) -> dict[TopicId, str]:
    return {topic_id: _name_of(transition, topic_id) for topic_id in topic_ids}


def _name_of(transition: ShareTransition, topic_id: TopicId) -> str:
    return transition.around.topics.name_of(topic_id) or UNKNOWN_NAME
