"""What `sordini groups lag` prints."""

from __future__ import annotations

import pytest

from sordini.cli.commands.groups.lag_texts import age_text, duration_text, group_text, groups_text, number_text
from sordini.client.lag.model import Age, ClientLag, Condition, GroupLag, Owner, PartitionLag, UnreadRecord
from sordini.client.lag.outlook import CAUGHT_UP, Outlook, OutlookKind, Rate

SECOND = 1_000
MINUTE = 60 * SECOND


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 ms"),
        (0.35, "350 ms"),
        (1.24, "1.2 s"),
        (12.4, "12 s"),
        (60, "1 min"),
        (200, "3 min 20 s"),
        (3_600, "1 h"),
        (7_500, "2 h 5 min"),
        (273_600, "3 d 4 h"),
    ],
)
def test_a_duration_has_its_two_largest_units(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    ("age", "text"),
    [
        (Age(None, None), None),
        (Age(5 * MINUTE, None), "at least 5 min"),
        (Age(None, 2 * SECOND), "at most 2.0 s"),
        (Age(12 * SECOND, 14 * SECOND), "12-14 s"),
        (Age(7 * SECOND, 7 * SECOND), "7.0 s"),
        (Age(100, 900), "up to 900 ms"),
        (Age(200 * SECOND, 220 * SECOND), "~3 min 30 s"),
        (Age(50 * SECOND, 70 * SECOND), "50 s-1 min 10 s"),
    ],
)
def test_an_age_is_as_exact_as_its_bounds(age: Age, text: str | None) -> None:
    assert age_text(age) == text


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (0.25, "0.25"), (12.51, "12.5"), (99.6, "100"), (1300.4, "1300")]
)
def test_a_rate_has_three_digits_at_least(number: float, text: str) -> None:
    assert number_text(number) == text


def row(number: int, lag: int, outlook: Outlook, *, owner: Owner | None = None, topic: str = "orders") -> PartitionLag:
    unread = UnreadRecord(5, True, 1, False, 9_000, Age(8_000, 9_000)) if lag else None
    condition = Condition.BEHIND if lag else Condition.CAUGHT_UP
    rate = Rate(10, 60)
    return PartitionLag(
        topic, number, condition, 5, 0, 5 + lag, 5 + lag, lag, unread, rate, rate, 100, owner, False, outlook
    )  # fmt: skip


def group(*rows: PartitionLag, name: str = "billing") -> GroupLag:
    return GroupLag(name, "consumer", "Stable", 2, rows)


def test_a_group_is_shown_with_the_partitions_that_are_behind() -> None:
    text = group_text(group(row(0, 40, Outlook(OutlookKind.CATCHING_UP, seconds=40)), row(1, 0, CAUGHT_UP)))
    assert text.splitlines() == [
        "Group billing (consumer, Stable, 2 members)",
        "40 records behind, the oldest appended 8.0-9.0 s ago.",
        "Caught up in 40 s.",
        "",
        "PARTITION  LAG  APPENDED   OWN TIME  IN/S  OUT/S  OUTLOOK",
        "orders:0    40  8.0-9.0 s  9.0 s       10     10  caught up in 40 s",
        "",
        "1 partition caught up.",
    ]


def test_what_a_client_says_of_its_lag_has_a_column_where_any_says_it() -> None:
    one = row(0, 40, Outlook(OutlookKind.CATCHING_UP, seconds=40))._replace(client=ClientLag(7, 2_000))
    lines = group_text(group(one, row(1, 20, Outlook(OutlookKind.CATCHING_UP, seconds=40)))).splitlines()
    assert lines[4:7] == [
        "PARTITION  LAG  CLIENT'S LAG  APPENDED   OWN TIME  IN/S  OUT/S  OUTLOOK",
        "orders:0    40  7, 2.0 s ago  8.0-9.0 s  9.0 s       10     10  caught up in 40 s",
        "orders:1    20  -             8.0-9.0 s  9.0 s       10     10  caught up in 40 s",
    ]


def test_lines_fit_into_eighty_columns_with_names_of_usual_length() -> None:
    text = group_text(group(row(11, 123_456, Outlook(OutlookKind.FALLING_BEHIND, per_s=123.4))))
    assert max(map(len, text.splitlines())) <= 80


def test_a_member_that_holds_a_partition_and_does_not_read_is_named() -> None:
    stuck = row(0, 9, Outlook(OutlookKind.NOT_READING, per_s=1), owner=Owner("m", "worker-\x1b[2J", "/127.0.0.1"))
    text = group_text(group(stuck))
    assert "held, not read" in text
    assert "Held, not read: worker-\\x1b[2J has committed nothing for 30 s or more." in text
    assert "1 held, not read" in groups_text([group(stuck)])


def test_partitions_without_an_owner_are_marked_though_they_have_caught_up() -> None:
    text = group_text(group(row(0, 0, CAUGHT_UP)._replace(lacks_owner=True)))
    assert "caught up, no owner" in text
    assert "1 without owner" in groups_text([group(row(0, 0, CAUGHT_UP)._replace(lacks_owner=True))])


def test_what_does_not_fit_on_the_screen_is_counted() -> None:
    rows = [row(number, number + 1, CAUGHT_UP) for number in range(5)]
    assert "... and 3 partitions more" in group_text(group(*rows), 2)
    groups = [group(one, name=f"group-{one.partition}") for one in rows]
    assert "... and 4 groups more" in groups_text(groups, 1)


def test_groups_are_in_the_order_of_how_long_their_oldest_record_waits() -> None:
    done = group(row(0, 0, CAUGHT_UP), name="done")
    late = group(row(0, 1, CAUGHT_UP), name="late")
    later = group(
        row(0, 1, CAUGHT_UP)._replace(unread=UnreadRecord(1, True, 1, False, 1, Age(90_000, None))), name="later"
    )
    lines = groups_text([done, late, later]).splitlines()[1:]
    assert [line.split()[0] for line in lines] == ["later", "late", "done"]
