"""The controller's transcripts: commands, `----`, and all actions that follow.

Each file is a scenario of its own. `UPDATE=1 pytest ...` rewrites the expected actions; the diff is reviewed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from sordini.protocol.types import NO_TOPIC_ID, BrokerId, LeaderEpoch, TopicId, TopicPartition
from sordini.replication.cluster_model import DEFAULT_CLUSTER_SETTINGS, KnownState, PartitionState
from sordini.replication.controller.machine import controlled_shutdown
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

SCENARIOS = sorted((Path(__file__).parent / "controller").glob("*.txt"))


def replicas_of(words: list[str]) -> dict[int, tuple[BrokerId, ...]]:
    """`0=1,2 1=2,1` is partition 0 on brokers 1 and 2, partition 1 on 2 and 1."""
    pairs = [word.partition("=")[::2] for word in words]
    return {int(partition): tuple(BrokerId(int(b)) for b in held.split(",")) for partition, held in pairs}


def partition_of(word: str) -> TopicPartition:
    topic, _, partition = word.rpartition("-")
    return TopicPartition(topic, int(partition))


def targets_of(words: list[str]) -> dict[TopicPartition, tuple[BrokerId, ...] | None]:
    """`orders-0=1,2` is the target 1, 2; `orders-0=cancel` cancels the ongoing reassignment."""
    pairs = [word.split("=") for word in words]
    return {
        partition_of(name): None if held == "cancel" else tuple(BrokerId(int(broker)) for broker in held.split(","))
        for name, held in pairs
    }


def change_of(words: list[str], harness: MachineHarness) -> IsrChange:
    """`orders-0 isr=1,2 epoch=0 version=3` by name, `#orders-0` by id; `broker-epochs=2,old` those of broker 2 and a former
    one. Without an epoch and a version the request refers to the present state.
    """
    name, *pairs = words
    topic, partition = partition_of(name.lstrip("#"))
    known = harness.state(TopicPartition(topic, partition)) or KnownState(
        PartitionState(None, LeaderEpoch(0), (), 0), 0
    )
    fields = dict(pair.split("=") for pair in pairs)
    isr = tuple(BrokerId(int(broker)) for broker in fields["isr"].split(","))
    known_epochs = fields["broker-epochs"].split(",") if "broker-epochs" in fields else []
    epochs = tuple(
        {"old": 1, "-1": -1}[one] if one in ("old", "-1") else harness.epoch_of(int(one)) for one in known_epochs
    )
    by_id = TopicId(topic.encode().ljust(16, b".")[:16]) if name.startswith("#") else NO_TOPIC_ID
    return IsrChange(
        partition,
        isr,
        int(fields["epoch"]) if "epoch" in fields else known.state.leader_epoch,
        int(fields["version"]) if "version" in fields else known.version,
        topic="" if name.startswith("#") else topic,
        topic_id=by_id,
        broker_epochs=epochs,
        recovering="recovering" in fields,
    )


def request(harness: MachineHarness, verb: str, words: list[str]) -> None:
    """Requests and responses of brokers. `2!` is a former incarnation of broker 2."""
    broker = int(words[0].rstrip("!"))
    epoch = harness.epoch_of(broker) - words[0].count("!")
    if verb == "alter":
        parts = " ".join(words[1:]).split(";")
        changes = tuple(change_of(part.split(), harness) for part in parts)
        harness.feed(IsrChangesRequested(BrokerId(broker), epoch, changes))
    elif verb == "shutdown":
        event = ShutdownRequested(BrokerId(broker), epoch)
        refusal = None if harness.cluster is None else controlled_shutdown.refusal(harness.cluster, event)
        harness.feed(event)
        if harness.cluster is not None:
            left = " ".join(map(str, controlled_shutdown.remaining(harness.cluster, BrokerId(broker)))) or "nothing"
            harness.lines.append(f"reply {left} remains" if refusal is None else f"reply {refusal.name}")
    elif verb in ("leader-and-isr-response", "first-leader-and-isr-response"):
        codes = {partition_of(name): int(code) for name, code in (word.split("=") for word in words[1:])}
        harness.answer_leader_and_isr(broker, codes, which=0 if verb == "first-leader-and-isr-response" else -1)
    else:
        harness.request_producer_ids(broker, epoch)


ELECTIONS = ("elect", "elect-leaders", "zk-elect", "rebalance", "allow-unclean", "cluster-settings")


def hold_election(harness: MachineHarness, verb: str, words: list[str]) -> None:
    """Elections of controllers and leaders. `cluster-settings` are those of controllers elected from now on."""
    if verb == "elect":
        harness.elect(int(words[0]))
    elif verb == "elect-leaders":
        harness.feed(ElectionsRequested(ElectionType[words[0].upper()], tuple(map(partition_of, words[1:]))))
    elif verb == "zk-elect":
        harness.write_zk_elections(*map(partition_of, words))
        harness.read_zk_elections()
    elif verb == "rebalance":
        harness.rebalance(int(words[0]))
    elif verb == "allow-unclean":
        harness.allow_unclean(words[0])
    else:
        harness.cluster_settings = DEFAULT_CLUSTER_SETTINGS._replace(
            marks_recovery="recovery" in words, deletes_topics="deletion" in words
        )


def interfere(harness: MachineHarness, line: str) -> None:
    """Carry out a line during the next write of the controller, once."""
    harness.before_write = lambda _: None
    carry_out(harness, line)


def interrupted_reassignment(harness: MachineHarness, name: str, adding: str, *held: str) -> None:
    """A topic as a controller left it that crashed during its reassignment."""
    removing = replicas_of([word.removeprefix("removing:") for word in held if word.startswith("removing:")])
    placed = replicas_of([word for word in held if not word.startswith("removing:")])
    identity = name.encode().ljust(16, b".")[:16]
    harness.write_topic(name, placed, identity, adding=replicas_of([adding]), removing=removing)


def carry_out(harness: MachineHarness, line: str) -> None:
    """One line of a scenario. With a leading `*` the controller does not read the change yet."""
    is_read = not line.startswith("*")
    verb, *words = line.lstrip("* ").split()
    if verb == "while-it-writes":
        harness.before_write = lambda _: interfere(harness, " ".join(words))
        return
    if verb in ("alter", "shutdown", "leader-and-isr-response", "first-leader-and-isr-response", "producer-ids"):
        request(harness, verb, words)
        return
    if verb in ELECTIONS:
        hold_election(harness, verb, words)
        return
    if verb == "brokers":
        for change in words:
            (harness.register_broker if change[0] == "+" else harness.fail_broker)(int(change[1:]))
        if is_read:
            harness.read_brokers()
    elif verb == "topic":
        harness.create_topic(words[0], replicas_of(words[1:]))
        if is_read:
            harness.read_topics()
    elif verb == "topic-without-id":
        harness.create_topic(words[0], replicas_of(words[1:]), topic_id=bytes(16))
        if is_read:
            harness.read_topics()
    elif verb == "rewrite-without-id":
        harness.write_topic(words[0], replicas_of(words[1:]), bytes(16))
        harness.read_topic(words[0])
    elif verb == "topic-changed":
        harness.read_topic(words[0])
    elif verb == "partitions":
        harness.write_topic(words[0], replicas_of(words[1:]), words[0].encode().ljust(16, b".")[:16])
        if is_read:
            harness.read_topic(words[0])
    elif verb == "delete":
        harness.request_deletion(words[0])
        if is_read:
            harness.read_deletions()
    elif verb == "stop-replica-response":
        harness.answer_stop_replica(int(words[0]) if words else 0)
    elif verb == "reconnect":
        harness.reconnect()
    elif verb == "reassign":
        harness.feed(ReassignmentsRequested(targets_of(words)))
    elif verb == "zk-reassign":
        if words:
            harness.write_zk_reassignments({one: target or () for one, target in targets_of(words).items()})
        if is_read:
            harness.read_zk_reassignments()
    elif verb == "interrupted-reassignment":
        interrupted_reassignment(harness, *words)
    elif verb == "other-controller-elected":
        harness.elect_other_controller()
    elif verb == "isr-notification":
        harness.write_isr_notification(*map(partition_of, words))
        if is_read:
            harness.read_isr_changes()
    elif verb == "log-dir-failed":
        harness.write_log_dir_event(int(words[0]))
        if is_read:
            harness.read_log_dir_events()
    elif verb == "state":
        topic, partition, leader, epoch, isr = words
        brokers = tuple(BrokerId(int(b)) for b in isr.split(","))
        state = PartitionState(BrokerId(int(leader)), LeaderEpoch(int(epoch)), brokers, 0)
        harness.write_state(TopicPartition(topic, int(partition)), state)
    else:
        raise AssertionError(f"no such line: {line!r}")


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_the_story_goes_as_it_is_written(path: Path) -> None:
    harness = MachineHarness()

    def answer(commands: Sequence[str]) -> list[str]:
        for command in commands:
            carry_out(harness, command)
        said, harness.lines = harness.lines, []
        return said or ["nothing"]

    assert_as_written(path, answer)
