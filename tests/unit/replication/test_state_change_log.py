"""The log lines of role changes, and of changes of in-sync sets."""

from __future__ import annotations

from sordini.protocol.types import BrokerId, LeaderEpoch, Offset, TopicPartition
from sordini.replication.isr_change_lines import INTERVAL_MS
from sordini.replication.leader import Leader, Term
from sordini.replication.state_change_log import LINES_MAX, IsrChangeLog, RoleLog
from tests.support.fake_ports import ListLog, StillClock
from tests.support.unit_broker import Timers, a_broker


def test_each_role_change_has_a_line_and_is_logged_once() -> None:
    log = ListLog()
    roles = RoleLog(log)
    roles.became_leader(TopicPartition("orders", 0), 4, (BrokerId(1), BrokerId(2)))
    roles.became_follower(TopicPartition("orders", 1), 7, BrokerId(2))
    roles.write()
    roles.write()
    assert log.at("info") == [
        ("became leader", {"partition": "orders-0", "leader_epoch": 4, "isr": [1, 2]}),
        ("became follower", {"partition": "orders-1", "leader": 2, "leader_epoch": 7}),
    ]


def test_many_role_changes_are_counted_in_one_line_for_each_leader() -> None:
    log = ListLog()
    roles = RoleLog(log)
    for index in range(LINES_MAX):
        roles.became_leader(TopicPartition("orders", index), 0, (BrokerId(1),))
    roles.became_follower(TopicPartition("bills", 0), 0, BrokerId(2))
    roles.became_follower(TopicPartition("bills", 1), 0, BrokerId(3))
    roles.became_follower(TopicPartition("bills", 2), 0, BrokerId(2))
    roles.write()
    assert log.at("info") == [
        ("became leader", {"partitions": LINES_MAX, "first": "orders-0"}),
        ("became follower", {"partitions": 2, "first": "bills-0", "leader": 2}),
        ("became follower", {"partitions": 1, "first": "bills-1", "leader": 3}),
    ]


def shrink(changes: IsrChangeLog, index: int) -> None:
    term = Term(LeaderEpoch(0), (BrokerId(1),), (BrokerId(1), BrokerId(2)))
    leader = Leader(BrokerId(1), term, high_watermark=Offset(0), log_end_offset=Offset(0))
    changes.changed(TopicPartition("orders", index), leader, (BrokerId(1), BrokerId(2)))


def test_changes_of_in_sync_sets_are_written_once_when_their_interval_ends() -> None:
    log, clock, timers = ListLog(), StillClock(), Timers()
    changes = IsrChangeLog(log, clock, timers.call_later)
    for index in range(2):
        shrink(changes, index)
        clock.ms += 400
    assert log.lines == []
    (timer,) = timers.waiting
    assert timer.seconds * 1000 == INTERVAL_MS
    timers.fire()
    assert [(event, fields["partition"]) for event, fields in log.at("info")] == [
        ("ISR shrunk", "orders-0"),
        ("ISR shrunk", "orders-1"),
    ]
    assert timers.waiting == [], "nothing runs while nothing changes"
    shrink(changes, 2)
    timers.fire()
    assert len(log.lines) == 3, "the next interval has a timer of its own"


async def test_a_broker_logs_changes_of_its_in_sync_sets_and_those_not_yet_written_when_it_stops() -> None:
    async with a_broker() as broker:
        changes = broker.parts.inter_broker.peers.log
        assert changes is not None
        shrink(changes, 0)
        broker.timers.fire()
        assert [event for event, _ in broker.log.at("info")].count("ISR shrunk") == 1
        shrink(changes, 1)
        waiting = len(broker.timers.waiting)
        broker.parts.inter_broker.close()
        assert [event for event, _ in broker.log.at("info")].count("ISR shrunk") == 2
        assert len(broker.timers.waiting) == waiting - 1, "no timer is left"
