"""Events of brokers as lines of the time line, and which of them are shown."""

from __future__ import annotations

from sordini.admin.broker_activity import COMPACTED, SEGMENTS_DELETED, STARTED, UNCLEANABLE, BrokerActivity
from sordini.console.pages.cluster_pages import CHANGES_SHOWN, HOUSEKEEPING_SHOWN, shown_changes
from sordini.console.readers.broker_activity import event_changes
from sordini.console.readers.changes import COMPACTION, ELECTION, RESTART, RETENTION, Change
from sordini.protocol.messages.describe_broker_activity import BrokerEventRow


def activity(*events: BrokerEventRow) -> BrokerActivity:
    return BrokerActivity("1.0", 1, 0.1, 1, {}, list(events))


def test_each_kind_of_event_is_a_line_that_names_the_broker() -> None:
    rows = [
        BrokerEventRow(kind=STARTED, began_at_ms=1, ended_at_ms=2),
        BrokerEventRow(
            kind=SEGMENTS_DELETED, ended_at_ms=3, topic="orders", partitions=2, segments=5, bytes_removed=3_000_000
        ),
        BrokerEventRow(kind=COMPACTED, ended_at_ms=4, topic="orders", partitions=1, segments=1, bytes_removed=5),
        BrokerEventRow(kind=UNCLEANABLE, ended_at_ms=5, topic="orders", partitions=1),
    ]
    assert event_changes({7: activity(*rows), 8: None}) == [
        Change(2, RESTART, "broker 7 started"),
        Change(3, RETENTION, "broker 7 deleted 5 segments (3 MB): orders, 2 partitions"),
        Change(4, COMPACTION, "broker 7 compacted 1 segment, 5 B less: orders, 1 partition"),
        Change(5, COMPACTION, "broker 7 cannot compact orders, 1 partition; its log has the reason", is_bad=True),
    ]


def test_kinds_of_a_newer_broker_are_left_out() -> None:
    assert event_changes({1: activity(BrokerEventRow(kind=99, ended_at_ms=1))}) == []


def test_housekeeping_hides_no_election() -> None:
    housekeeping = [Change(1_000 + at, RETENTION, "deleted") for at in range(500)]
    elections = [Change(at, ELECTION, "elected") for at in range(10)]
    newest_first = sorted(housekeeping + elections, key=lambda change: -change.at_ms)
    shown = shown_changes(newest_first)
    assert [change.kind for change in shown] == [RETENTION] * HOUSEKEEPING_SHOWN + [ELECTION] * 10
    assert shown == sorted(shown, key=lambda change: -change.at_ms)
    assert shown[0].at_ms == 1_499


def test_the_list_is_full_of_other_changes_where_there_are_many() -> None:
    elections = [Change(at, ELECTION, "elected") for at in reversed(range(200))]
    assert shown_changes(elections) == elections[:CHANGES_SHOWN]
