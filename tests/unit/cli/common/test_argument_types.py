"""How durations, partitions, settings and starting points are read."""

from __future__ import annotations

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.admin.selections import selected_partitions
from sordini.cli.common.argument_types import (
    DURATION,
    parse_duration_ms,
    parse_instant,
    parse_numbers,
    parse_setting,
    parse_start,
    parse_topic_partitions,
)
from sordini.client.addresses import Address, parse_bootstrap
from sordini.protocol.types import TopicPartition
from sordini.system.clock import utc_ms, utc_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", 90_000),
        ("1h30m", 5_400_000),
        ("2d", 172_800_000),
        ("500ms", 500),
        ("1w1d", 691_200_000),
        ("PT1H", 3_600_000),
        ("P1DT2H3M4.5S", 93_784_500),
        ("P2W", 1_209_600_000),
        ("pt5m", 300_000),
        ("PT0.25S", 250),
    ],
)
def test_a_duration_is_read_in_plain_units_and_in_iso_8601(text: str, expected: int) -> None:
    assert parse_duration_ms(text) == expected


@pytest.mark.parametrize("text", ["", "1", "h", "1x", "P", "PT", "P1H", "-1h", "1h-1m", "1.5h"])
def test_what_is_no_duration_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match="PT1H30M"):
        parse_duration_ms(text)


def test_an_option_says_what_is_wrong_with_its_value() -> None:
    with pytest.raises(click.BadParameter, match="'soon' is not a duration"):
        DURATION("soon")


@given(st.sets(st.integers(0, 500), min_size=1))
def test_partitions_are_read_as_they_are_listed(wanted: set[int]) -> None:
    assert parse_numbers(",".join(map(str, wanted))) == tuple(sorted(wanted))


@given(st.integers(0, 300), st.integers(0, 300))
def test_a_range_of_partitions_includes_both_its_ends(first: int, count: int) -> None:
    assert parse_numbers(f"{first}-{first + count}") == tuple(range(first, first + count + 1))


@pytest.mark.parametrize("text", ["", "a", "1,", "3-1", "-1", "1-2-3", "٣"])
def test_what_is_no_list_of_numbers_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"list of numbers|ends before it begins"):
        parse_numbers(text)


def test_a_topic_stands_for_all_its_partitions_or_for_those_named() -> None:
    assert parse_topic_partitions("orders") == ("orders", None)
    assert parse_topic_partitions("orders:0,2-3") == ("orders", (0, 2, 3))
    with pytest.raises(ValueError, match="names no topic"):
        parse_topic_partitions(":1")


def test_partitions_that_are_named_twice_are_meant_once() -> None:
    wanted = [("b", (1,)), ("a", None), ("b", (1, 0))]
    assert selected_partitions(wanted, {"a": 2, "b": 2}) == [
        TopicPartition("b", 1),
        TopicPartition("a", 0),
        TopicPartition("a", 1),
        TopicPartition("b", 0),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("retention.ms=60000", ("retention.ms", "", "60000")),
        ("cleanup.policy+=compact", ("cleanup.policy", "+", "compact")),
        ("cleanup.policy-=compact", ("cleanup.policy", "-", "compact")),
        ("a=b=c", ("a", "", "b=c")),
        ("a=", ("a", "", "")),
        ("a-b=c", ("a-b", "", "c")),
    ],
)
def test_a_setting_is_set_added_to_or_taken_from(text: str, expected: tuple[str, str, str]) -> None:
    assert parse_setting(text) == expected


@pytest.mark.parametrize("text", ["", "a", "=b", "+=b", " =b"])
def test_what_is_no_setting_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="KEY=VALUE"):
        parse_setting(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("beginning", ("beginning", 0)),
        ("earliest", ("beginning", 0)),
        ("end", ("end", 0)),
        ("42", ("offset", 42)),
        ("-10", ("last", 10)),
        ("1970-01-01T00:00:01Z", ("time", 1_000)),
        ("1970-01-02", ("time", 86_400_000)),
    ],
)
def test_reading_starts_at_an_end_an_offset_a_count_or_a_time(text: str, expected: tuple[str, int]) -> None:
    assert parse_start(text) == expected


def test_a_duration_is_a_starting_time_that_long_ago() -> None:
    kind, hour_ago = parse_start("1h")
    _, two_hours_ago = parse_start("PT2H")
    assert kind == "time"
    assert 3_600_000 - 10_000 < hour_ago - two_hours_ago <= 3_600_000 + 10_000


def test_a_time_may_be_milliseconds_since_1970_and_eight_digits_are_a_date() -> None:
    assert parse_instant("1795286459500") == parse_instant("2026-11-21T18:40:59.5+00:00")
    assert parse_instant("20261121") == parse_instant("2026-11-21")
    for text in ("now", "1234567", "12345678901234567", "-1795286459500"):
        with pytest.raises(ValueError, match=r"is not a time: .*, or milliseconds since 1970 such as"):
            parse_instant(text)


@pytest.mark.parametrize("text", ["", "soon", "1x", "2026-13-01", "--5"])
def test_what_is_no_starting_point_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not beginning, end"):
        parse_start(text)


@given(st.integers(-(10**12), 10**14))
def test_a_time_is_read_as_it_is_written(time_ms: int) -> None:
    assert utc_ms(utc_text(time_ms)) == time_ms


def test_a_time_without_a_zone_is_utc_and_one_outside_the_calendar_stays_a_number() -> None:
    assert utc_ms("2026-11-21T18:30") == utc_ms("2026-11-21T20:30+02:00") == utc_ms("2026-11-21T18:30:00.000Z")
    assert utc_text(2**62) == str(2**62)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:1", [Address("a", 1)]),
        ("a", [Address("a", 9092)]),
        ("a:1, b:2,", [Address("a", 1), Address("b", 2)]),
        ("[::1]:9093", [Address("::1", 9093)]),
        ("[::1]", [Address("::1", 9092)]),
        ("PLAINTEXT://a:1", [Address("a", 1)]),
        ("SSL://a, INTERNAL://[::1]:2", [Address("a", 9092), Address("::1", 2)]),
    ],
)
def test_addresses_are_read_with_or_without_ports(text: str, expected: list[Address]) -> None:
    assert parse_bootstrap(text) == expected
    assert parse_bootstrap(",".join(map(str, expected))) == expected


@pytest.mark.parametrize("text", ["http://a:1", "HTTPS://a", "b:1,http://a:1/"])
def test_an_address_of_the_web_is_refused_with_the_reason(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not HOST:PORT: brokers do not speak HTTP, leave https?:// out"):
        parse_bootstrap(text.lower())
    with pytest.raises(ValueError, match="brokers do not speak HTTP"):
        parse_bootstrap(text)


@pytest.mark.parametrize("text", ["", ",", ":1", "a:0", "a:65536", "a:b", "a:", "PLAINTEXT://", "PLAINTEXT://a:b"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"HOST:PORT|no address"):
        parse_bootstrap(text)
