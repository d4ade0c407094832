"""A leader that registers again, or is superseded without a command: it leads until a newer leader epoch arrives."""

from __future__ import annotations

import pytest

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import BrokerId, LeaderEpoch, Offset
from sordini.replication.cluster_model import PartitionInfo, PartitionState
from sordini.replication.follower_truncation import FetchPosition
from sordini.replication.partition import Partition
from sordini.replication.replica_set import ReplicaSet
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.support.partitions import ME, NAME, OTHER, TOPIC_ID, logs_on
from tests.unit.replication.test_partition_replication import checked
from tests.unit.replication.test_replica_set import ELSEWHERE, replicas_on

EPOCH = LeaderEpoch(5)
THIRD = BrokerId(9)


@pytest.fixture
def replicas() -> ReplicaSet:
    return replicas_on(logs_on(ForgetfulDisk()))


def info(
    epoch: int, leader: BrokerId | None = ME, isr: tuple[BrokerId, ...] = (ME, OTHER), version: int = 0
) -> PartitionInfo:
    state = PartitionState(leader, LeaderEpoch(epoch), isr, 1)
    return PartitionInfo(NAME, TOPIC_ID, (ME, OTHER), state, version, is_new=False)


def a_leader_with_a_waiter(replicas: ReplicaSet) -> tuple[Partition, list[ErrorCode]]:
    """Leading with a record that is committed, and one that waits for the other replica."""
    replicas.become_leader_or_follower(info(EPOCH))
    partition = replicas.partition(*NAME)
    partition.append(checked(), 0, all_replicas=True)
    fetched(partition)
    reported: list[ErrorCode] = []
    end = partition.append(checked(), 0, all_replicas=True).end_offset
    partition.pending_commits.add(Offset(end), lambda _, code: reported.append(code))
    return partition, reported


def fetched(partition: Partition, epoch: int = EPOCH) -> None:
    """The other replica has everything."""
    end = Offset(partition.log.log_end_offset)
    partition.update_follower_fetch_state(OTHER, FetchPosition(end, LeaderEpoch(epoch), -1), 0)


def refusal(replicas: ReplicaSet, reported: PartitionInfo) -> ErrorCode:
    with pytest.raises(BrokerError) as refused:
        replicas.become_leader_or_follower(reported)
    return refused.value.code


@pytest.mark.parametrize("isr", [(ME,), (ME, OTHER)])
def test_a_controller_that_repeats_the_epoch_after_a_new_registration_changes_nothing(
    replicas: ReplicaSet, isr: tuple[BrokerId, ...]
) -> None:
    partition, reported = a_leader_with_a_waiter(replicas)
    leader, committed = partition.require_leader(), partition.log.high_watermark
    assert refusal(replicas, info(EPOCH, isr=isr, version=3)) == ErrorCode.STALE_CONTROLLER_EPOCH
    assert partition.require_leader(EPOCH) is leader, "the same term, with all that it knows of its followers"
    assert (leader.isr, leader.high_watermark, reported) == ((ME, OTHER), committed, [])
    fetched(partition)
    assert reported == [ErrorCode.NONE], "the delayed produce is answered when the record is committed"


def test_a_newer_epoch_of_the_same_leader_keeps_delayed_operations_and_one_of_another_leader_answers_them(
    replicas: ReplicaSet,
) -> None:
    partition, reported = a_leader_with_a_waiter(replicas)
    replicas.become_leader_or_follower(info(EPOCH + 2))
    assert reported == []
    replicas.become_leader_or_follower(info(EPOCH + 3, OTHER))
    assert reported == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert partition.leader is None


def test_a_superseded_leader_acknowledges_nothing_to_all_and_its_watermark_stays(replicas: ReplicaSet) -> None:
    """Its followers are in a newer epoch and are refused; no ISR change is granted."""
    partition, reported = a_leader_with_a_waiter(replicas)
    committed = partition.log.high_watermark
    for epoch in (EPOCH + 1, EPOCH + 2):
        with pytest.raises(BrokerError) as refused:
            fetched(partition, epoch)
        assert refused.value.code == ErrorCode.UNKNOWN_LEADER_EPOCH
    partition.maybe_shrink_isr(1 << 40)
    assert (partition.log.high_watermark, reported) == (committed, [])


def test_metadata_that_names_another_leader_of_a_newer_epoch_ends_the_leading_and_the_waiting(
    replicas: ReplicaSet,
) -> None:
    partition, reported = a_leader_with_a_waiter(replicas)
    replicas.resign_if_superseded(info(EPOCH + 1, THIRD)._replace(replicas=(THIRD,)))
    assert reported == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    with pytest.raises(BrokerError) as refused:
        partition.require_leader()
    assert refused.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert refusal(replicas, info(EPOCH)) == ErrorCode.STALE_CONTROLLER_EPOCH, "nothing older begins again"
    replicas.become_leader_or_follower(info(EPOCH + 1, OTHER))
    assert partition.follower is not None


@pytest.mark.parametrize(
    "named",
    [
        info(EPOCH, OTHER),
        info(EPOCH - 1, OTHER),
        info(EPOCH + 1, ME),
        info(EPOCH + 1, None),
        info(EPOCH + 1, OTHER)._replace(topic_partition=ELSEWHERE),
    ],
)
def test_metadata_of_no_newer_epoch_or_of_no_other_leader_ends_nothing(
    replicas: ReplicaSet, named: PartitionInfo
) -> None:
    partition, reported = a_leader_with_a_waiter(replicas)
    replicas.resign_if_superseded(named)
    assert partition.require_leader(EPOCH)
    assert reported == []


def test_metadata_ends_no_following(replicas: ReplicaSet) -> None:
    replicas.become_leader_or_follower(info(EPOCH, OTHER))
    replicas.resign_if_superseded(info(EPOCH + 1, THIRD))
    assert replicas.partition(*NAME).follower is not None, "a LeaderAndIsr names the leader to follow"


def test_a_partition_that_was_stopped_stays_past_its_epoch(replicas: ReplicaSet) -> None:
    replicas.become_leader_or_follower(info(EPOCH))
    replicas.stop_replica(NAME, leader_epoch=EPOCH, delete=False)
    assert refusal(replicas, info(EPOCH)) == ErrorCode.STALE_CONTROLLER_EPOCH
