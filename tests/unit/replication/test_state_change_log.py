"""The log lines of role changes."""

from __future__ import annotations

from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.state_change_log import LINES_MAX, RoleLog
from tests.support.fake_ports import ListLog


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
