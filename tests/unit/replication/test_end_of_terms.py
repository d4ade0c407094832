"""What is left of a broker's terms when its registration is over."""

from __future__ import annotations

import pytest

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import BrokerId, LeaderEpoch
from sordini.replication.controller.cluster import PartitionInfo, PartitionState
from sordini.replication.replica_set import ReplicaSet
from tests.crash.forgetful_disk import ForgetfulDisk
from tests.unit.replication.held import ME, NAME, OTHER, TOPIC_ID, logs_on
from tests.unit.replication.test_replica_set import replicas_on

EPOCH = 5


@pytest.fixture
def replicas() -> ReplicaSet:
    return replicas_on(logs_on(ForgetfulDisk()))


def become(replicas: ReplicaSet, epoch: int, leader: BrokerId = ME) -> None:
    state = PartitionState(leader, LeaderEpoch(epoch), (ME, OTHER), 1)
    replicas.become(PartitionInfo(NAME, TOPIC_ID, (ME, OTHER), state, 0, is_new=False))


def refusal(replicas: ReplicaSet, epoch: int) -> ErrorCode:
    with pytest.raises(BrokerError) as refused:
        become(replicas, epoch)
    return refused.value.code


@pytest.mark.parametrize("suspended", [False, True])
@pytest.mark.parametrize("leader", [ME, OTHER])
def test_a_term_of_the_same_epoch_may_begin_again_and_an_older_one_may_not(
    replicas: ReplicaSet, leader: BrokerId, suspended: bool
) -> None:
    become(replicas, EPOCH, leader)
    if suspended:
        replicas.suspend()
    replicas.end_terms()
    partition = replicas.partition(*NAME)
    assert not partition.has_term
    assert refusal(replicas, EPOCH - 1) == ErrorCode.STALE_CONTROLLER_EPOCH
    become(replicas, EPOCH)
    assert partition.led(EPOCH).leader_epoch == EPOCH


def test_registrations_that_end_one_after_the_other_let_nothing_older_in(replicas: ReplicaSet) -> None:
    become(replicas, EPOCH)
    for _ in range(3):
        replicas.end_terms()
    assert refusal(replicas, EPOCH - 1) == ErrorCode.STALE_CONTROLLER_EPOCH


def test_a_partition_that_was_stopped_before_stays_past_its_epoch(replicas: ReplicaSet) -> None:
    become(replicas, EPOCH)
    replicas.stop(NAME, leader_epoch=EPOCH, delete=False)
    replicas.end_terms()
    assert refusal(replicas, EPOCH) == ErrorCode.STALE_CONTROLLER_EPOCH


def test_what_was_suspended_cannot_be_resumed_after_the_end(replicas: ReplicaSet) -> None:
    become(replicas, EPOCH)
    replicas.suspend()
    replicas.end_terms()
    replicas.resume()
    assert not replicas.partition(*NAME).has_term
    become(replicas, EPOCH + 1)
    assert replicas.partition(*NAME).leader is not None, "and what begins later is not suspended"
