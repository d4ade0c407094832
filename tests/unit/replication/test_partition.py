"""A partition as its leader serves it: epochs, the high watermark, and delayed operations."""

from __future__ import annotations

import pytest

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import LeaderEpoch, Offset, TopicPartition
from sordini.replication.leader import Term
from sordini.replication.partition import Partition
from sordini.replication.purgatory import DelayedOperation
from tests.support.builders import a_batch, an_idempotent_batch
from tests.support.partitions import ME, OTHER, SETTINGS, TOPIC_ID, a_partition, checked


def code_of(action) -> ErrorCode:
    with pytest.raises(BrokerError) as refusal:
        action()
    return refusal.value.code


def a_waiter(missing_bytes: int, *partitions: Partition) -> tuple[DelayedOperation, list[str]]:
    woken: list[str] = []
    return DelayedOperation(missing_bytes, partitions, lambda: woken.append("woken")), woken


def test_with_one_replica_what_is_appended_is_readable_at_once() -> None:
    partition = a_partition()
    appended = partition.append(checked(), 0, all_replicas=True)
    assert (appended.base_offset, appended.end_offset) == (0, 3)
    assert partition.readable_end(committed_only=False) == 3
    assert partition.log.high_watermark == 3
    piece = partition.read(0, 1_000_000, whole_first=True, committed_only=False)
    assert piece is not None
    assert piece.read() == a_batch(leader_epoch=0)
    piece.release()


def test_a_replica_in_sync_that_has_not_fetched_holds_the_high_watermark_down() -> None:
    partition = a_partition(in_sync=[ME, OTHER], replicas=2)
    partition.append(checked(), 0, all_replicas=True)
    assert partition.readable_end(committed_only=False) == 0
    assert partition.log.high_watermark == 0
    assert partition.read(0, 1_000_000, whole_first=True, committed_only=False) is None


def test_a_new_term_begins_at_the_high_watermark_that_was_known() -> None:
    partition = a_partition()
    partition.append(checked(), 0, all_replicas=True)
    partition.resign()
    partition.become_leader(ME, Term(LeaderEpoch(1), (ME, OTHER), (ME, OTHER)), 0)
    assert partition.log.epochs.entries == [(0, 0), (1, 3)], "an epoch begins before its first record"
    assert partition.readable_end(committed_only=False) == 3
    partition.append(checked(), 0, all_replicas=True)
    assert partition.readable_end(committed_only=False) == 3
    assert list(partition.log.epochs.entries) == [(0, 0), (1, 3)]


def test_a_reelected_leader_answers_produces_that_waited_for_a_replica_no_longer_in_sync() -> None:
    partition = a_partition(in_sync=[ME, OTHER], replicas=2)
    end_offset = partition.append(checked(), 0, all_replicas=True).end_offset
    codes: list[ErrorCode] = []
    partition.pending_commits.add(Offset(end_offset), lambda _commit, code: codes.append(code))
    partition.become_leader(ME, Term(LeaderEpoch(1), (ME, OTHER), (ME, OTHER)), 0)
    assert codes == []
    partition.become_leader(ME, Term(LeaderEpoch(2), (ME,), (ME, OTHER)), 0)
    assert codes == [ErrorCode.NONE]


def test_an_offset_outside_the_log_is_out_of_range() -> None:
    partition = a_partition()
    partition.append(checked(), 0, all_replicas=True)
    assert partition.read(3, 100, whole_first=True, committed_only=False) is None
    for offset in (-5, 4):
        assert (
            code_of(lambda offset=offset: partition.read(offset, 100, whole_first=True, committed_only=False))
            == ErrorCode.OFFSET_OUT_OF_RANGE
        )


def test_committed_readers_stop_before_an_open_transaction() -> None:
    partition = a_partition()
    partition.append(checked(), 0, all_replicas=True)
    partition.append(checked(an_idempotent_batch(transactional=True)), 0, all_replicas=True)
    assert partition.readable_end(committed_only=False) == 6
    assert partition.readable_end(committed_only=True) == 3
    assert partition.read(3, 1_000_000, whole_first=True, committed_only=True) is None


@pytest.mark.parametrize(
    ("believed", "code"), [(3, ErrorCode.FENCED_LEADER_EPOCH), (5, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_the_error_code_says_whether_a_requests_leader_epoch_is_older_or_newer(believed: int, code: ErrorCode) -> None:
    partition = a_partition(epoch=4)
    assert code_of(lambda: partition.require_leader(believed)) == code
    assert partition.require_leader(4) is partition.require_leader(-1) is partition.leader


def test_without_a_term_nothing_is_served() -> None:
    partition = a_partition()
    partition.resign()
    refused = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert code_of(partition.require_leader) == refused
    assert code_of(lambda: partition.append(checked(), 0, all_replicas=False)) == refused
    assert code_of(lambda: partition.readable_end(committed_only=False)) == refused
    assert code_of(lambda: partition.read(0, 1, whole_first=True, committed_only=False)) == refused
    assert partition.log.log_end_offset == 0


def test_resigning_completes_all_delayed_operations_and_leaves_purgatory_empty() -> None:
    one, two = a_partition(), a_partition()
    _, both = a_waiter(1_000, one, two)
    _, single = a_waiter(1_000, one)
    one.resign()
    assert (both, single) == (["woken"], ["woken"])
    assert not one.purgatory
    assert not two.purgatory


def test_delayed_operations_are_notified_of_everything_appended_since_the_last_notification() -> None:
    partition = a_partition()
    size = len(a_batch())
    _, woken = a_waiter(2 * size, partition)
    partition.append(checked(), 0, all_replicas=True)
    partition.notify_purgatory()
    partition.notify_purgatory()
    assert woken == []
    partition.append(checked(), 0, all_replicas=True)
    partition.notify_purgatory()
    assert woken == ["woken"]
    _, woken = a_waiter(2 * size, partition)
    for _ in range(2):
        partition.append(checked(), 0, all_replicas=True)
    partition.notify_purgatory()
    assert woken == ["woken"], "two at once count as two"


def test_records_that_are_not_readable_yet_complete_no_delayed_operation() -> None:
    partition = a_partition(in_sync=[ME, OTHER], replicas=2)
    _, woken = a_waiter(1, partition)
    partition.append(checked(), 0, all_replicas=True)
    partition.notify_purgatory()
    assert woken == []


def test_a_duplicate_is_answered_again_and_completes_no_delayed_operation() -> None:
    partition = a_partition()
    first = partition.append(checked(an_idempotent_batch()), 0, all_replicas=True)
    partition.notify_purgatory()
    _, woken = a_waiter(1, partition)
    again = partition.append(checked(an_idempotent_batch()), 0, all_replicas=True)
    partition.notify_purgatory()
    assert again.duplicate
    assert again.base_offset == first.base_offset
    assert partition.log.log_end_offset == 3
    assert woken == []


def test_too_few_in_sync_replicas_refuse_only_requests_with_acks_all() -> None:
    partition = a_partition(in_sync=[ME], replicas=3, settings=SETTINGS._replace(min_insync_replicas=2))
    assert code_of(lambda: partition.append(checked(), 0, all_replicas=True)) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert partition.log.log_end_offset == 0
    assert partition.append(checked(), 0, all_replicas=False).base_offset == 0


def test_a_batch_that_is_in_the_log_is_not_refused_as_if_nothing_had_been_written() -> None:
    """With too few in-sync replicas its producer is told to send the same again; the next batch is not in the log."""
    partition = a_partition(in_sync=[ME], replicas=3, settings=SETTINGS._replace(min_insync_replicas=2))
    partition.append(checked(an_idempotent_batch(3, sequence=0)), 0, all_replicas=False)

    def refusal(batch: bytes) -> ErrorCode:
        return code_of(lambda: partition.append(checked(batch), 0, all_replicas=True))

    assert refusal(an_idempotent_batch(3, sequence=0)) == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert refusal(an_idempotent_batch(3, sequence=3)) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert refusal(an_idempotent_batch(4, sequence=0)) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert refusal(a_batch()) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert partition.log.log_end_offset == 3


def test_a_topic_with_fewer_replicas_than_it_asks_for_is_content_with_all_of_them() -> None:
    partition = a_partition(in_sync=[ME, OTHER], replicas=2, settings=SETTINGS._replace(min_insync_replicas=5))
    assert partition.append(checked(), 0, all_replicas=True).base_offset == 0
    alone = a_partition(in_sync=[ME], replicas=2, settings=SETTINGS._replace(min_insync_replicas=5))
    assert code_of(lambda: alone.append(checked(), 0, all_replicas=True)) == ErrorCode.NOT_ENOUGH_REPLICAS


@pytest.mark.parametrize(
    ("topic", "is_internal"), [("__consumer_offsets", True), ("__transaction_state", True), ("__mine", False)]
)
def test_only_the_brokers_own_topics_are_internal(topic: str, is_internal: bool) -> None:
    log = a_partition().log
    assert Partition(TopicPartition(topic, 0), TOPIC_ID, log, SETTINGS).is_internal is is_internal
