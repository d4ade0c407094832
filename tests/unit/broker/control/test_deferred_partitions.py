"""Partitions that could not be taken for now."""

from sordini.broker.control.deferred_partitions import RETRY_MS, RETRY_MS_MAX, DeferredPartitions
from sordini.protocol.types import TopicPartition
from tests.support.fake_ports import ListLog

NAME = TopicPartition("orders", 0)


def dues(deferred: DeferredPartitions, until_ms: int) -> list[int]:
    return [now_ms for now_ms in range(0, until_ms, 500) if deferred.is_due(now_ms)]


def test_it_is_tried_again_after_pauses_that_double_up_to_a_bound() -> None:
    deferred = DeferredPartitions(ListLog())
    assert dues(deferred, 10_000) == []
    deferred.refused(NAME, "no descriptor")
    found = dues(deferred, 200_000)
    assert found[:3] == [RETRY_MS, 3 * RETRY_MS, 7 * RETRY_MS]
    assert found[-1] - found[-2] == RETRY_MS_MAX


def test_each_partition_has_one_line_when_it_is_put_off_and_one_when_it_is_taken() -> None:
    log = ListLog()
    deferred = DeferredPartitions(log)
    for _ in range(5):
        deferred.refused(NAME, "no descriptor")
    deferred.taken(NAME)
    deferred.taken(NAME)
    assert [event for _, event, _ in log.lines] == ["partition deferred", "deferred partition opened"]


def test_what_is_taken_before_the_controller_was_told_is_told_of_once() -> None:
    """A command that takes the replica's leader away makes its log, and the controller still counts it as offline."""
    deferred = DeferredPartitions(ListLog())
    deferred.refused(NAME, "no descriptor")
    deferred.taken(NAME)
    assert dues(deferred, 10_000) == [RETRY_MS]


def test_what_is_taken_after_the_controller_was_told_needs_no_second_note() -> None:
    deferred = DeferredPartitions(ListLog())
    deferred.refused(NAME, "no descriptor")
    assert dues(deferred, RETRY_MS + 500) == [RETRY_MS]
    deferred.taken(NAME)
    assert dues(deferred, 10_000) == []


def test_what_was_deleted_meanwhile_is_not_tried_again() -> None:
    deferred = DeferredPartitions(ListLog())
    deferred.refused(NAME, "no descriptor")
    deferred.forget(NAME)
    assert not deferred
    assert dues(deferred, 10_000) == [RETRY_MS]


def test_of_many_partitions_that_one_full_disk_puts_off_the_first_is_named() -> None:
    log = ListLog()
    deferred = DeferredPartitions(log)
    names = [TopicPartition("t", number) for number in range(5)]
    for name in names * 2:
        deferred.refused(name, "no room", has_line=True)
    assert len(deferred) == 5
    for name in names:
        deferred.taken(name)
    assert [fields["partition"] for _, _, fields in log.lines] == ["t-0", "t-0"]
    assert len(deferred) == 0
