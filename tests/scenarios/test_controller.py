"""The controller's transcripts: what happened, `----`, and all that came of it.

Each file is a story of its own, read like prose. `UPDATE=1 pytest ...` rewrites the answers; review reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from sordini.protocol.types import NO_TOPIC_ID, BrokerId, LeaderEpoch, TopicId, TopicPartition
from sordini.replication.cluster_model import DEFAULT_CLUSTER_SETTINGS, KnownState, PartitionState
from sordini.replication.controller.machine import shutdowns
from sordini.replication.controller.machine.election_algorithms import ElectionType
from sordini.replication.controller.machine.events import (
    ElectionsRequested,
    IsrChange,
    IsrChangesRequested,
    ReassignmentsRequested,
    ShutdownRequested,
)
from tests.support.controller_machine_harness import MachineHarness
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


def change_of(words: list[str], harness: MachineHarness) -> IsrChange:
    """`orders-0 isr=1,2 epoch=0 version=3` by name, `#orders-0` by id; `lives=2,old` is in which they were seen.

    Without an epoch and a version it is asked on the state of the moment.
    """
    name, *fields = words
    topic, partition = partition_of(name.lstrip("#"))
    known = harness.state(TopicPartition(topic, partition)) or KnownState(
        PartitionState(None, LeaderEpoch(0), (), 0), 0
    )
    told = dict(field.split("=") for field in fields)
    isr = tuple(BrokerId(int(broker)) for broker in told["isr"].split(","))
    seen = told["lives"].split(",") if "lives" in told else []
    epochs = tuple(
        {"old": 1, "-1": -1}[life] if life in ("old", "-1") else harness.epoch_of(int(life)) for life in seen
    )
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


def ask(harness: MachineHarness, verb: str, words: list[str]) -> None:
    """What brokers ask of the controller. `2!` is broker 2 in a life that is over."""
    broker = int(words[0].rstrip("!"))
    epoch = harness.epoch_of(broker) - words[0].count("!")
    if verb == "alter":
        parts = " ".join(words[1:]).split(";")
        changes = tuple(change_of(part.split(), harness) for part in parts)
        harness.feed(IsrChangesRequested(BrokerId(broker), epoch, changes))
    elif verb == "shutdown":
        wanted = ShutdownRequested(BrokerId(broker), epoch)
        refusal = None if harness.cluster is None else shutdowns.refusal(harness.cluster, wanted)
        harness.feed(wanted)
        if harness.cluster is not None:
            left = " ".join(map(str, shutdowns.remaining(harness.cluster, BrokerId(broker)))) or "nothing"
            harness.lines.append(f"reply {left} remains" if refusal is None else f"reply {refusal.name}")
    elif verb in ("holds", "held-at-first"):
        codes = {partition_of(name): int(code) for name, code in (word.split("=") for word in words[1:])}
        harness.answer_leader_and_isr(broker, codes, which=0 if verb == "held-at-first" else -1)
    else:
        harness.request_producer_ids(broker, epoch)


ELECTIONS = ("elect", "elect-leaders", "noted-elections", "balance", "allow-unclean", "conventions")


def hold_election(harness: MachineHarness, verb: str, words: list[str]) -> None:
    """Of a controller, of leaders, and by which rules. `conventions` are those of controllers elected from now on."""
    if verb == "elect":
        harness.elect(int(words[0]))
    elif verb == "elect-leaders":
        harness.feed(ElectionsRequested(ElectionType[words[0].upper()], tuple(map(partition_of, words[1:]))))
    elif verb == "noted-elections":
        harness.write_zk_elections(*map(partition_of, words))
        harness.read_zk_elections()
    elif verb == "balance":
        harness.rebalance(int(words[0]))
    elif verb == "allow-unclean":
        harness.allow_unclean(words[0])
    else:
        harness.cluster_settings = DEFAULT_CLUSTER_SETTINGS._replace(
            marks_recovery="recovery" in words, deletes_topics="deletion" in words
        )


def interfere(harness: MachineHarness, line: str) -> None:
    """Carry a line out in the middle of what the controller writes, once."""
    harness.before_write = lambda _: None
    carry_out(harness, line)


def half_moved(harness: MachineHarness, name: str, adding: str, *held: str) -> None:
    """A topic on the move, as a controller left it that died in the middle."""
    removing = replicas_of([word.removeprefix("without:") for word in held if word.startswith("without:")])
    placed = replicas_of([word for word in held if not word.startswith("without:")])
    identity = name.encode().ljust(16, b".")[:16]
    harness.write_topic(name, placed, identity, adding=replicas_of([adding]), removing=removing)


def carry_out(harness: MachineHarness, line: str) -> None:
    """One line of a story. A `*` at its start: the controller does not hear of it yet."""
    told = not line.startswith("*")
    verb, *words = line.lstrip("* ").split()
    if verb == "while-it-writes":
        harness.before_write = lambda _: interfere(harness, " ".join(words))
        return
    if verb in ("alter", "shutdown", "holds", "held-at-first", "producer-ids"):
        ask(harness, verb, words)
        return
    if verb in ELECTIONS:
        hold_election(harness, verb, words)
        return
    if verb == "brokers":
        for change in words:
            (harness.register_broker if change[0] == "+" else harness.fail_broker)(int(change[1:]))
        if told:
            harness.read_brokers()
    elif verb == "topic":
        harness.create_topic(words[0], replicas_of(words[1:]))
        if told:
            harness.read_topics()
    elif verb == "topic-without-id":
        harness.create_topic(words[0], replicas_of(words[1:]), topic_id=bytes(16))
        if told:
            harness.read_topics()
    elif verb == "rewrite-without-id":
        harness.write_topic(words[0], replicas_of(words[1:]), bytes(16))
        harness.read_topic(words[0])
    elif verb == "hear":
        harness.read_topic(words[0])
    elif verb == "partitions":
        harness.write_topic(words[0], replicas_of(words[1:]), words[0].encode().ljust(16, b".")[:16])
        if told:
            harness.read_topic(words[0])
    elif verb == "delete":
        harness.request_deletion(words[0])
        if told:
            harness.read_deletions()
    elif verb == "answer":
        harness.answer_stop_replica(int(words[0]) if words else 0)
    elif verb == "reconnect":
        harness.reconnect()
    elif verb == "move":
        harness.feed(ReassignmentsRequested(targets_of(words)))
    elif verb == "noted-moves":
        if words:
            harness.write_zk_reassignments({one: target or () for one, target in targets_of(words).items()})
        if told:
            harness.read_zk_reassignments()
    elif verb == "half-moved":
        half_moved(harness, *words)
    elif verb == "usurped":
        harness.elect_other_controller()
    elif verb == "noted":
        harness.write_isr_notification(*map(partition_of, words))
        if told:
            harness.read_isr_changes()
    elif verb == "directory-failed":
        harness.write_log_dir_event(int(words[0]))
        if told:
            harness.read_log_dir_events()
    elif verb == "state":
        topic, partition, leader, epoch, isr = words
        brokers = tuple(BrokerId(int(b)) for b in isr.split(","))
        state = PartitionState(BrokerId(int(leader)), LeaderEpoch(int(epoch)), brokers, 0)
        harness.write_state(TopicPartition(topic, int(partition)), state)
    else:
        raise AssertionError(f"no such line: {line!r}")


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_the_story_goes_as_it_is_written(path: Path) -> None:
    harness = MachineHarness()

    def answer(commands: Sequence[str]) -> list[str]:
        for command in commands:
            carry_out(harness, command)
        said, harness.lines = harness.lines, []
        return said or ["nothing"]

    assert_as_written(path, answer)
