"""The controller's transcripts: what happened, `----`, and all that came of it.

Each file is a story of its own, read like prose. `UPDATE=1 pytest ...` rewrites the answers; review reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from sordini.protocol.types import BrokerId, LeaderEpoch, TopicPartition
from sordini.replication.controller.cluster import PartitionState
from sordini.replication.controller.elections import Election
from sordini.replication.controller.events import ElectionsWanted, MovesWanted
from tests.scenarios.controller_world import World
from tests.scenarios.stories import assert_as_written

STORIES = sorted((Path(__file__).parent / "controller").glob("*.txt"))


def replicas_of(words: list[str]) -> dict[int, tuple[BrokerId, ...]]:
    """`0=1,2 1=2,1` is partition 0 on brokers 1 and 2, partition 1 on 2 and 1."""
    pairs = [word.partition("=")[::2] for word in words]
    return {int(partition): tuple(BrokerId(int(b)) for b in held.split(",")) for partition, held in pairs}


def partition_of(word: str) -> TopicPartition:
    topic, _, partition = word.rpartition("-")
    return TopicPartition(topic, int(partition))


def targets_of(words: list[str]) -> dict[TopicPartition, tuple[BrokerId, ...] | None]:
    """`orders-0=1,2` is wanted on brokers 1 and 2; `orders-0=back` is to be as it was before it was on the move."""
    pairs = [word.split("=") for word in words]
    return {
        partition_of(name): None if held == "back" else tuple(BrokerId(int(broker)) for broker in held.split(","))
        for name, held in pairs
    }


def carry_out(world: World, line: str) -> None:
    """One line of a story. A `*` at its start: the controller does not hear of it yet."""
    told = not line.startswith("*")
    verb, *words = line.lstrip("* ").split()
    if verb == "brokers":
        for change in words:
            (world.broker_comes if change[0] == "+" else world.broker_goes)(int(change[1:]))
        if told:
            world.look_at_brokers()
    elif verb == "topic":
        world.topic_made(words[0], replicas_of(words[1:]))
        if told:
            world.look_at_topics()
    elif verb == "topic-without-id":
        world.topic_made(words[0], replicas_of(words[1:]), topic_id=bytes(16))
        if told:
            world.look_at_topics()
    elif verb == "rewrite-without-id":
        world.topic_set(words[0], replicas_of(words[1:]), bytes(16))
        world.look_at_topic(words[0])
    elif verb == "partitions":
        world.topic_set(words[0], replicas_of(words[1:]), words[0].encode().ljust(16, b".")[:16])
        if told:
            world.look_at_topic(words[0])
    elif verb == "delete":
        world.deletion_wanted(words[0])
        if told:
            world.look_at_deletions()
    elif verb == "answer":
        world.answer(int(words[0]) if words else 0)
    elif verb == "elect":
        world.elect(int(words[0]))
    elif verb == "elect-leaders":
        world.feed(ElectionsWanted(Election[words[0].upper()], tuple(map(partition_of, words[1:]))))
    elif verb == "move":
        world.feed(MovesWanted(targets_of(words)))
    elif verb == "half-moved":
        name, adding, *held = words
        world.topic_set(name, replicas_of(held), name.encode().ljust(16, b".")[:16], adding=replicas_of([adding]))
    elif verb == "usurped":
        world.usurped()
    elif verb == "state":
        topic, partition, leader, epoch, isr = words
        brokers = tuple(BrokerId(int(b)) for b in isr.split(","))
        state = PartitionState(BrokerId(int(leader)), LeaderEpoch(int(epoch)), brokers, 0)
        world.state_written(TopicPartition(topic, int(partition)), state)
    else:
        raise AssertionError(f"no such line: {line!r}")


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_the_story_goes_as_it_is_written(path: Path) -> None:
    world = World()

    def answer(commands: Sequence[str]) -> list[str]:
        for command in commands:
            carry_out(world, command)
        said, world.said = world.said, []
        return said or ["nothing"]

    assert_as_written(path, answer)
