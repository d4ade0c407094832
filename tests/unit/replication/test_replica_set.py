"""The partitions of one broker: which are here, which are elsewhere, and how commands change that."""

from __future__ import annotations

import errno
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import NO_TOPIC_ID, BrokerId, LeaderEpoch, TopicId, TopicPartition
from sordini.replication.cluster_model import PartitionInfo, PartitionState
from sordini.replication.partition import Partition
from sordini.replication.partition_deps import PartitionSettings
from sordini.replication.purgatory import DelayedOperation
from sordini.replication.replica_set import ReplicaSet, ReplicaSetDeps
from sordini.storage.errors import StorageError
from sordini.storage.log_config import LogConfig
from sordini.storage.log_manager import LogManager
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.support.fake_ports import ListLog
from tests.support.partitions import ME, NAME, OTHER, OTHER_TOPIC_ID, SETTINGS, TOPIC_ID, checked, logs_on

ELSEWHERE = TopicPartition("orders", 7)
SEEN_MS = 1_000


def replicas_on(
    logs: LogManager,
    settings_of: Callable[[str], PartitionSettings] = lambda _: SETTINGS,
    *,
    known_id: TopicId = TOPIC_ID,
    **deps: Any,
) -> ReplicaSet:
    """A broker whose cluster has the topic "orders" with eight partitions."""
    return ReplicaSet(
        ME,
        logs,
        ReplicaSetDeps(
            settings_of,
            lambda topic, index: topic == "orders" and index < 8,
            lambda topic_id: "orders" if topic_id == known_id else None,
            lambda: SEEN_MS,
            lambda: 0,
            **{"log": ListLog(), **deps},
        ),
    )


def lead(
    replicas: ReplicaSet,
    name: TopicPartition = NAME,
    topic_id: TopicId = TOPIC_ID,
    *,
    epoch: int = 0,
    isr: tuple[BrokerId, ...] = (ME,),
    leader: BrokerId | None = ME,
    is_new: bool = True,
) -> None:
    state = PartitionState(leader, LeaderEpoch(epoch), isr, 1)
    replicas.become_leader_or_follower(PartitionInfo(name, topic_id, (ME, OTHER), state, 0, is_new=is_new))


def code_of(action: Callable[[], object]) -> ErrorCode:
    with pytest.raises(BrokerError) as refusal:
        action()
    return refusal.value.code


def test_a_partition_is_here_elsewhere_or_nowhere() -> None:
    replicas = replicas_on(logs_on(ForgetfulDisk()))
    lead(replicas)
    assert replicas.partition("orders", 0).name == NAME
    assert code_of(lambda: replicas.partition("orders", 7)) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert code_of(lambda: replicas.partition("orders", 8)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code_of(lambda: replicas.partition("nothing", 0)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_by_its_id_a_topic_is_known_or_its_id_is_not() -> None:
    replicas = replicas_on(logs_on(ForgetfulDisk()))
    lead(replicas)
    assert replicas.partition_by_id(TOPIC_ID, 0) is replicas.partition("orders", 0)
    assert code_of(lambda: replicas.partition_by_id(TOPIC_ID, 7)) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert code_of(lambda: replicas.partition_by_id(OTHER_TOPIC_ID, 0)) == ErrorCode.UNKNOWN_TOPIC_ID


def test_an_epoch_that_is_not_newer_changes_nothing() -> None:
    replicas = replicas_on(logs_on(ForgetfulDisk()))
    lead(replicas, epoch=4)
    for epoch, code in ((3, ErrorCode.FENCED_LEADER_EPOCH), (4, ErrorCode.STALE_CONTROLLER_EPOCH)):
        assert code_of(lambda epoch=epoch: lead(replicas, epoch=epoch, isr=(ME, OTHER))) == code
    leader = replicas.partition("orders", 0).require_leader()
    assert (leader.leader_epoch, leader.isr) == (4, (ME,))
    lead(replicas, epoch=5, isr=(ME, OTHER))
    assert replicas.partition("orders", 0).require_leader().isr == (ME, OTHER)


def test_a_log_of_another_topic_id_is_not_served() -> None:
    disk = ForgetfulDisk()
    logs = logs_on(disk)
    logs.create(NAME, OTHER_TOPIC_ID, LogConfig())
    replicas = replicas_on(logs)
    assert code_of(lambda: lead(replicas)) == ErrorCode.INCONSISTENT_TOPIC_ID
    assert replicas.get("orders", 0) is None


def test_a_log_from_before_topic_ids_takes_the_id_it_is_given() -> None:
    disk = ForgetfulDisk()
    logs = logs_on(disk)
    log = logs.create(NAME, NO_TOPIC_ID, LogConfig())
    lead(replicas_on(logs))
    assert log.topic_id == TOPIC_ID
    assert b"AAECAwQFBgcICQoLDA0ODw" in disk.contents("/logs/orders-0/partition.metadata")


def test_a_log_that_was_there_is_led_on_with_the_topics_present_configuration() -> None:
    logs = logs_on(ForgetfulDisk())
    log = logs.create(NAME, TOPIC_ID, LogConfig())
    lead(replicas_on(logs, lambda _: SETTINGS._replace(log=LogConfig(segment_bytes=1_234))))
    assert logs.get(NAME) is log
    assert log.config.segment_bytes == 1_234


def test_a_missing_log_is_made_while_every_directory_works() -> None:
    logs = logs_on(ForgetfulDisk(), "/a", "/b")
    lead(replicas_on(logs), is_new=False)
    assert logs.get(NAME) is not None


def test_with_a_directory_offline_only_new_partitions_get_an_empty_log() -> None:
    logs = logs_on(ForgetfulDisk(), "/a", "/b")
    replicas = replicas_on(logs)
    lead(replicas)
    lost = replicas.partition("orders", 0).log.log_dir
    lost.take_offline(OSError(errno.EIO, "gone"))
    assert code_of(lambda: lead(replicas, ELSEWHERE, is_new=False)) == ErrorCode.KAFKA_STORAGE_ERROR
    assert logs.get(ELSEWHERE) is None
    lead(replicas, ELSEWHERE, is_new=True)
    assert replicas.partition("orders", 7).log.log_dir is not lost


def test_stopping_completes_delayed_operations_and_keeps_the_log() -> None:
    logs = logs_on(ForgetfulDisk())
    replicas = replicas_on(logs)
    lead(replicas)
    partition = replicas.partition("orders", 0)
    woken: list[bool] = []
    DelayedOperation(1, [partition], lambda: woken.append(True))
    replicas.stop_replica(NAME, delete=False)
    assert woken == [True]
    assert code_of(replicas.partition("orders", 0).require_leader) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert logs.get(NAME) is partition.log
    lead(replicas, epoch=1)
    assert replicas.partition("orders", 0).log is partition.log


def test_deleting_takes_the_log_away_and_a_new_topic_of_the_name_begins_at_zero() -> None:
    disk = ForgetfulDisk()
    logs = logs_on(disk)
    replicas = replicas_on(logs, known_id=OTHER_TOPIC_ID)
    lead(replicas)
    replicas.partition("orders", 0).append(checked(), 0, all_replicas=True)
    replicas.stop_replica(NAME, delete=True)
    assert logs.get(NAME) is None
    assert not disk.exists("/logs/orders-0")
    lead(replicas, topic_id=OTHER_TOPIC_ID)
    assert replicas.partition_by_id(OTHER_TOPIC_ID, 0).log.log_end_offset == 0


def test_stopping_what_is_not_here_is_fine() -> None:
    replicas = replicas_on(logs_on(ForgetfulDisk()))
    replicas.stop_replica(NAME, delete=True)
    replicas.stop_replica(NAME, delete=False)
    assert list(replicas) == []


def test_deleting_in_a_directory_that_failed_says_so_and_keeps_the_log() -> None:
    logs = logs_on(ForgetfulDisk())
    replicas = replicas_on(logs)
    lead(replicas)
    logs.get(NAME).log_dir.take_offline(OSError(errno.EIO, "gone"))
    with pytest.raises(StorageError):
        replicas.stop_replica(NAME, delete=True)
    assert logs.get(NAME) is not None
    assert replicas.get("orders", 0) is None, "but it is not served any more"


def test_a_failed_directory_takes_its_partitions_and_no_others() -> None:
    logs = logs_on(ForgetfulDisk(), "/a", "/b")
    replicas = replicas_on(logs)
    lead(replicas)
    lead(replicas, ELSEWHERE)
    one, two = replicas.partition("orders", 0), replicas.partition("orders", 7)
    assert one.log.log_dir is not two.log.log_dir
    woken: list[bool] = []
    DelayedOperation(1, [one, two], lambda: woken.append(True))
    replicas.directory_failed(StorageError(one.log.log_dir.path, "input/output error"))
    assert list(replicas) == [two]
    assert woken == [True]
    assert not two.purgatory
    assert code_of(lambda: replicas.partition("orders", 0)) == ErrorCode.KAFKA_STORAGE_ERROR
    assert two.append(checked(), 0, all_replicas=True).base_offset == 0


def test_asked_again_what_is_in_a_failed_directory_the_broker_says_that_it_is_lost() -> None:
    """A controller learns which replicas are offline (KIP-112) by repeating its decision."""
    logs = logs_on(ForgetfulDisk(), "/a", "/b")
    replicas = replicas_on(logs)
    lead(replicas)
    lead(replicas, ELSEWHERE)
    home = replicas.partition("orders", 0).log.log_dir
    replicas.directory_failed(home.take_offline(OSError(errno.EIO, "gone")))
    for epoch in (0, 1):
        assert code_of(lambda epoch=epoch: lead(replicas, epoch=epoch)) == ErrorCode.KAFKA_STORAGE_ERROR
        assert code_of(lambda: replicas.partition("orders", 0)) == ErrorCode.KAFKA_STORAGE_ERROR
    lead(replicas, ELSEWHERE, epoch=1)
    assert replicas.partition("orders", 7).leader_epoch == 1


def test_a_changed_configuration_reaches_every_partition_of_its_topic_and_no_other() -> None:
    bytes_by_topic = {"orders": 1_000, "bills": 2_000}
    replicas = replicas_on(
        logs_on(ForgetfulDisk()), lambda topic: SETTINGS._replace(log=LogConfig(segment_bytes=bytes_by_topic[topic]))
    )
    for name in (NAME, ELSEWHERE, TopicPartition("bills", 0)):
        lead(replicas, name)
    bytes_by_topic.update(orders=5_000, bills=6_000)
    replicas.reconfigure("orders")
    found = {str(partition.name): partition.log.config.segment_bytes for partition in replicas}
    assert found == {"orders-0": 5_000, "orders-7": 5_000, "bills-0": 2_000}


def test_resigning_from_all_answers_every_delayed_operation_and_keeps_the_partitions() -> None:
    replicas = replicas_on(logs_on(ForgetfulDisk()))
    lead(replicas)
    lead(replicas, ELSEWHERE)
    woken: list[int] = []
    for partition in replicas:
        DelayedOperation(1, [partition], lambda index=partition.name.partition: woken.append(index))
    replicas.resign_all()
    assert sorted(woken) == [0, 7]
    assert code_of(replicas.partition("orders", 0).require_leader) == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("leader", [ME, OTHER])
def test_a_leader_epoch_that_is_older_than_the_logs_last_is_refused_after_a_restart(leader: BrokerId) -> None:
    disk = ForgetfulDisk()
    logs = logs_on(disk)
    replicas = replicas_on(logs)
    lead(replicas, epoch=7)
    again = replicas_on(logs)
    refused = code_of(lambda: lead(again, epoch=6, isr=(ME, OTHER), leader=leader, is_new=False))
    assert refused == ErrorCode.FENCED_LEADER_EPOCH
    assert again.get(*NAME) is None, "nothing has begun"
    lead(again, epoch=7, isr=(ME, OTHER), leader=leader, is_new=False)
    assert again.partition(*NAME).leader_epoch == 7


def test_a_follower_leaves_it_to_its_leader_to_say_that_a_leader_epoch_is_too_old() -> None:
    """Of the two only the leader has all that was committed, and the first to say so is elected."""
    replicas = replicas_on(logs_on(ForgetfulDisk()))
    lead(replicas, epoch=7, isr=(OTHER,), leader=OTHER)
    replicas.partition(*NAME).log.assign_epoch(LeaderEpoch(7))
    assert code_of(lambda: lead(replicas, epoch=6)) == ErrorCode.STALE_CONTROLLER_EPOCH


def test_the_log_of_a_topic_without_an_id_may_be_that_of_a_former_one_and_refuses_nothing() -> None:
    logs = logs_on(ForgetfulDisk())
    lead(replicas_on(logs), topic_id=NO_TOPIC_ID, epoch=7)
    again = replicas_on(logs)
    lead(again, topic_id=NO_TOPIC_ID, epoch=0)
    assert again.partition(*NAME).leader_epoch == 0


class Fetched:
    """Which partitions are fetched, and nothing of it."""

    def __init__(self) -> None:
        self.names: set[TopicPartition] = set()

    def add_partition(self, partition: Partition) -> None:
        self.names.add(partition.name)

    def remove_partition(self, partition: Partition) -> None:
        self.names.discard(partition.name)


@pytest.mark.parametrize("is_leaving", [False, True])
def test_a_broker_that_leaves_does_not_fetch_what_it_has_handed_over(is_leaving: bool) -> None:
    fetched = Fetched()
    replicas = replicas_on(logs_on(ForgetfulDisk()), fetchers=fetched)
    kept, handed_over = TopicPartition("orders", 1), NAME
    lead(replicas, handed_over)
    lead(replicas, kept)
    if is_leaving:
        replicas.stop_joining_isr()
    lead(replicas, handed_over, epoch=1, isr=(OTHER,), leader=OTHER)
    lead(replicas, kept, epoch=1, isr=(OTHER, ME), leader=OTHER)
    assert fetched.names == ({kept} if is_leaving else {kept, handed_over})


def test_a_leaving_broker_continues_to_fetch_until_a_command_stops_it() -> None:
    fetched = Fetched()
    replicas = replicas_on(logs_on(ForgetfulDisk()), fetchers=fetched)
    lead(replicas, epoch=1, isr=(OTHER,), leader=OTHER)
    replicas.stop_joining_isr()
    assert fetched.names == {NAME}
    replicas.stop_replica(NAME, leader_epoch=1, delete=False)
    assert fetched.names == set()


def test_a_deleted_partition_is_freed_without_the_garbage_collector() -> None:
    """What the start made is not tracked by it: a cycle would keep the memory of each deleted partition."""
    logs = logs_on(ForgetfulDisk())
    replicas = replicas_on(logs)
    lead(replicas)
    log = logs.get(NAME)
    assert log is not None
    remains = weakref.ref(log)
    del log
    gc.disable()
    try:
        replicas.stop_replica(NAME, delete=True)
        assert remains() is None
    finally:
        gc.enable()
