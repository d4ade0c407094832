"""Operations that wait for partitions to grow."""

from __future__ import annotations

from sordini.replication.purgatory import DelayedOperation


class WatchedPartition:
    """A log that can be watched."""

    def __init__(self) -> None:
        self.purgatory: dict[DelayedOperation, None] = {}


def test_an_operation_completes_once_enough_bytes_have_arrived_in_all_its_logs() -> None:
    logs, answers = [WatchedPartition(), WatchedPartition()], []
    operation = DelayedOperation(10, logs, lambda: answers.append("done"))
    operation.bytes_arrived(4)
    assert not answers
    operation.bytes_arrived(6)
    assert answers == ["done"]
    assert not any(log.purgatory for log in logs)


def test_a_completed_operation_does_not_complete_again() -> None:
    answers: list[str] = []
    operation = DelayedOperation(1, [WatchedPartition()], lambda: answers.append("done"))
    operation.complete()
    operation.complete()
    operation.bytes_arrived(5)
    assert answers == ["done"]


def test_a_cancelled_operation_never_completes() -> None:
    log, answers = WatchedPartition(), []
    operation = DelayedOperation(1, [log], lambda: answers.append("done"))
    operation.cancel()
    operation.bytes_arrived(5)
    assert not answers
    assert not log.purgatory
