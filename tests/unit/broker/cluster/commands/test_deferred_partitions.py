"""Partitions that could not be taken for now."""

from sordini.broker.cluster.commands.deferred_partitions import RETRY_MS, RETRY_MS_MAX, DeferredPartitions
from sordini.protocol.types import TopicPartition
from tests.support.fake_ports import ListLog

NAME = TopicPartition("orders", 0)


def dues(deferred: DeferredPartitions, until_ms: int) -> list[int]:
    return [now_ms for now_ms in range(0, until_ms, 500) if deferred.is_due(now_ms)]


def test_it_is_tried_again_after_pauses_that_double_up_to_a_bound() -> None:
    deferred = DeferredPartitions(ListLog())
    assert dues(deferred, 10_000) == []
    deferred.defer(NAME, "no descriptor")
    found = dues(deferred, 200_000)
    assert found[:3] == [RETRY_MS, 3 * RETRY_MS, 7 * RETRY_MS]
    assert found[-1] - found[-2] == RETRY_MS_MAX


def test_each_partition_has_one_line_when_it_is_put_off_and_one_when_it_is_taken() -> None:
    log = ListLog()
    deferred = DeferredPartitions(log)
    for _ in range(5):
        deferred.defer(NAME, "no descriptor")
    deferred.opened(NAME)
    deferred.opened(NAME)
    assert [event for _, event, _ in log.lines] == ["partition deferred", "deferred partition opened"]


def test_a_partition_opened_before_the_controller_was_notified_is_notified_once() -> None:
    """A command that takes the replica's leader away makes its log, and the controller still counts it as offline."""
    deferred = DeferredPartitions(ListLog())
    deferred.defer(NAME, "no descriptor")
    deferred.opened(NAME)
    assert dues(deferred, 10_000) == [RETRY_MS]


def test_a_partition_opened_after_the_controller_was_notified_is_not_notified_again() -> None:
    deferred = DeferredPartitions(ListLog())
    deferred.defer(NAME, "no descriptor")
    assert dues(deferred, RETRY_MS + 500) == [RETRY_MS]
    deferred.opened(NAME)
    assert dues(deferred, 10_000) == []


def test_what_was_deleted_meanwhile_is_not_tried_again() -> None:
    deferred = DeferredPartitions(ListLog())
    deferred.defer(NAME, "no descriptor")
    deferred.forget(NAME)
    assert not deferred
    assert dues(deferred, 10_000) == [RETRY_MS]


def test_of_many_partitions_that_one_full_disk_puts_off_the_first_is_named() -> None:
    log = ListLog()
    deferred = DeferredPartitions(log)
    names = [TopicPartition("t", number) for number in range(5)]
    for name in names * 2:
        deferred.defer(name, "no room", is_shared=True)
    assert len(deferred) == 5
    for name in names:
        deferred.opened(name)
    assert [fields["partition"] for _, _, fields in log.lines] == ["t-0", "t-0"]
    assert len(deferred) == 0
