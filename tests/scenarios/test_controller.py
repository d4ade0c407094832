"""The controller's transcripts: what happened, `----`, and all that came of it.

Each file is a story of its own, read like prose. `UPDATE=1 pytest ...` rewrites the answers; review reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from sordini.protocol.types import NO_TOPIC_ID, BrokerId, LeaderEpoch, TopicId, TopicPartition
from sordini.replication.cluster_model import ANY_CONVENTIONS, KnownState, PartitionState
from sordini.replication.controller.machine import shutdowns
from sordini.replication.controller.machine.election_algorithms import Election
from sordini.replication.controller.machine.events import (
    ElectionsWanted,
    IsrChange,
    IsrChangesWanted,
    MovesWanted,
    ShutdownWanted,
)
from tests.support.controller_machine_harness import World
from tests.support.transcripts import assert_as_written

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


def change_of(words: list[str], world: World) -> IsrChange:
    """`orders-0 isr=1,2 epoch=0 version=3` by name, `#orders-0` by id; `lives=2,old` is in which they were seen.

    Without an epoch and a version it is asked on the state of the moment.
    """
    name, *fields = words
    topic, partition = partition_of(name.lstrip("#"))
    known = world.state(TopicPartition(topic, partition)) or KnownState(PartitionState(None, LeaderEpoch(0), (), 0), 0)
    told = dict(field.split("=") for field in fields)
    isr = tuple(BrokerId(int(broker)) for broker in told["isr"].split(","))
    seen = told["lives"].split(",") if "lives" in told else []
    epochs = tuple({"old": 1, "-1": -1}[life] if life in ("old", "-1") else world.epoch_of(int(life)) for life in seen)
    by_id = TopicId(topic.encode().ljust(16, b".")[:16]) if name.startswith("#") else NO_TOPIC_ID
    return IsrChange(
        partition,
        isr,
        int(told["epoch"]) if "epoch" in told else known.state.leader_epoch,
        int(told["version"]) if "version" in told else known.version,
        topic="" if name.startswith("#") else topic,
        topic_id=by_id,
        broker_epochs=epochs,
        recovering="recovering" in told,
    )


def ask(world: World, verb: str, words: list[str]) -> None:
    """What brokers ask of the controller. `2!` is broker 2 in a life that is over."""
    broker = int(words[0].rstrip("!"))
    epoch = world.epoch_of(broker) - words[0].count("!")
    if verb == "alter":
        parts = " ".join(words[1:]).split(";")
        changes = tuple(change_of(part.split(), world) for part in parts)
        world.feed(IsrChangesWanted(BrokerId(broker), epoch, changes))
    elif verb == "shutdown":
        wanted = ShutdownWanted(BrokerId(broker), epoch)
        refusal = None if world.cluster is None else shutdowns.refusal(world.cluster, wanted)
        world.feed(wanted)
        if world.cluster is not None:
            left = " ".join(map(str, shutdowns.remaining(world.cluster, BrokerId(broker)))) or "nothing"
            world.said.append(f"reply {left} remains" if refusal is None else f"reply {refusal.name}")
    elif verb in ("holds", "held-at-first"):
        codes = {partition_of(name): int(code) for name, code in (word.split("=") for word in words[1:])}
        world.answer_leader_and_isr(broker, codes, which=0 if verb == "held-at-first" else -1)
    else:
        world.want_producer_ids(broker, epoch)


ELECTIONS = ("elect", "elect-leaders", "noted-elections", "balance", "allow-unclean", "conventions")


def hold_election(world: World, verb: str, words: list[str]) -> None:
    """Of a controller, of leaders, and by which rules. `conventions` are those of controllers elected from now on."""
    if verb == "elect":
        world.elect(int(words[0]))
    elif verb == "elect-leaders":
        world.feed(ElectionsWanted(Election[words[0].upper()], tuple(map(partition_of, words[1:]))))
    elif verb == "noted-elections":
        world.elections_noted(*map(partition_of, words))
        world.look_at_noted_elections()
    elif verb == "balance":
        world.balance(int(words[0]))
    elif verb == "allow-unclean":
        world.allow_unclean(words[0])
    else:
        world.conventions = ANY_CONVENTIONS._replace(
            marks_recovery="recovery" in words, deletes_topics="deletion" in words
        )


def interfere(world: World, line: str) -> None:
    """Carry a line out in the middle of what the controller writes, once."""
    world.before_write = lambda _: None
    carry_out(world, line)


def half_moved(world: World, name: str, adding: str, *held: str) -> None:
    """A topic on the move, as a controller left it that died in the middle."""
    removing = replicas_of([word.removeprefix("without:") for word in held if word.startswith("without:")])
    placed = replicas_of([word for word in held if not word.startswith("without:")])
    identity = name.encode().ljust(16, b".")[:16]
    world.topic_set(name, placed, identity, adding=replicas_of([adding]), removing=removing)


def carry_out(world: World, line: str) -> None:
    """One line of a story. A `*` at its start: the controller does not hear of it yet."""
    told = not line.startswith("*")
    verb, *words = line.lstrip("* ").split()
    if verb == "while-it-writes":
        world.before_write = lambda _: interfere(world, " ".join(words))
        return
    if verb in ("alter", "shutdown", "holds", "held-at-first", "producer-ids"):
        ask(world, verb, words)
        return
    if verb in ELECTIONS:
        hold_election(world, verb, words)
        return
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
    elif verb == "hear":
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
    elif verb == "reconnect":
        world.reconnect()
    elif verb == "move":
        world.feed(MovesWanted(targets_of(words)))
    elif verb == "noted-moves":
        if words:
            world.moves_noted({one: target or () for one, target in targets_of(words).items()})
        if told:
            world.look_at_noted_moves()
    elif verb == "half-moved":
        half_moved(world, *words)
    elif verb == "usurped":
        world.usurped()
    elif verb == "noted":
        world.isr_noted(*map(partition_of, words))
        if told:
            world.look_at_isr_changes()
    elif verb == "directory-failed":
        world.directory_failed(int(words[0]))
        if told:
            world.look_at_log_dir_events()
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
