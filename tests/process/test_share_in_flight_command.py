"""`sordini share in-flight`: what Sordini's brokers know of records that were delivered and are not done."""

from __future__ import annotations

import json

from confluent_kafka import AcknowledgeType

from tests.outside.processes import BrokerProcess
from tests.process.test_share_commands import Run, Worker, broker, group_of, orders, polled, run, work

__all__ = ["broker", "orders", "run", "work"]


def test_records_in_flight_are_shown_with_their_member_deliveries_and_lock(
    broker: BrokerProcess, run: Run, orders: str, work: Worker
) -> None:
    group, worker = group_of(orders), work(orders)
    messages = polled(broker, worker)
    assert len(messages) == 3
    rows = json.loads(run("share", "in-flight", group, "--json"))
    assert {(row["topic"], row["partition"], row["state"], row["deliveries"]) for row in rows} == {
        (orders, 0, "acquired", 1)
    }
    assert (rows[0]["first_offset"], rows[-1]["last_offset"]) == (0, 2)
    (member,) = {row["member_id"] for row in rows}
    assert member
    assert all(row["acquired_ago_ms"] >= 0 and row["lock_left_ms"] > 0 for row in rows)
    assert all(row["delivery_count_limit"] == 5 for row in rows)
    assert "3 records acquired, 0 available again." in run("share", "in-flight", group)
    for message in messages:
        worker.acknowledge(message, AcknowledgeType.RELEASE)
    worker.commit_sync()
    assert "0 records acquired, 3 available again." in run("share", "in-flight", group)
