"""The events that a broker remembers of itself, and the CPU time of its loop."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.broker.administration.activity.event_log import EVENTS_MAX, MERGED_MS, BrokerEvent, EventKind, EventLog
from sordini.broker.administration.activity.loop_cpu import WINDOW_MS, LoopCpu
from sordini.protocol.types import TopicPartition
from tests.support.parts import examples

KINDS = (EventKind.SEGMENTS_DELETED, EventKind.COMPACTED)
STEPS = st.tuples(
    st.integers(0, 2 * MERGED_MS), st.sampled_from(KINDS), st.integers(0, 400), st.integers(0, 3), st.integers(1, 5)
)


def deleted(topic: str, partition: int) -> tuple[EventKind, TopicPartition]:
    return EventKind.SEGMENTS_DELETED, TopicPartition(topic, partition)


def test_events_of_one_kind_in_a_topic_within_a_minute_are_one_row() -> None:
    log = EventLog()
    log.add(EventKind.SEGMENTS_DELETED, 1_000, TopicPartition("orders", 0), 2, 100)
    log.add(EventKind.SEGMENTS_DELETED, 1_500, TopicPartition("orders", 1), 1, 50)
    log.add(EventKind.SEGMENTS_DELETED, 1_500, TopicPartition("orders", 1), 1, 50)
    log.add(EventKind.SEGMENTS_DELETED, 1_600, TopicPartition("payments", 1), 1, 7)
    log.add(EventKind.COMPACTED, 1_700, TopicPartition("orders", 0), 3, 9)
    log.add(EventKind.SEGMENTS_DELETED, 1_001 + MERGED_MS, TopicPartition("orders", 0), 1, 1)
    assert log.newest(-1, None) == [
        BrokerEvent(EventKind.SEGMENTS_DELETED, 1_000, 1_500, "orders", 2, 4, 200),
        BrokerEvent(EventKind.SEGMENTS_DELETED, 1_600, 1_600, "payments", 1, 1, 7),
        BrokerEvent(EventKind.COMPACTED, 1_700, 1_700, "orders", 1, 3, 9),
        BrokerEvent(EventKind.SEGMENTS_DELETED, 1_001 + MERGED_MS, 1_001 + MERGED_MS, "orders", 1, 1, 1),
    ]


def test_a_start_is_an_event_of_no_topic() -> None:
    log = EventLog()
    log.started(5)
    assert log.newest(-1, None) == [BrokerEvent(EventKind.STARTED, 5, 5)]


def test_the_newest_events_since_a_time_are_given_oldest_first() -> None:
    log = EventLog()
    for number in range(5):
        log.add(*deleted(f"t{number}", 0)[:1], number * 10, TopicPartition(f"t{number}", 0), 1, 1)
    assert [event.topic for event in log.newest(10, None)] == ["t1", "t2", "t3", "t4"]
    assert [event.topic for event in log.newest(10, 2)] == ["t3", "t4"]
    assert log.newest(10, 0) == []


def test_a_clock_that_is_set_back_begins_a_row_of_its_own() -> None:
    log = EventLog()
    for at_ms in (10_000, 9_000):
        log.add(EventKind.COMPACTED, at_ms, TopicPartition("orders", 0), 1, 1)
    assert [event.ended_at_ms for event in log.newest(-1, None)] == [10_000, 9_000]


@settings(max_examples=examples(100))
@given(st.lists(STEPS, max_size=600))
def test_the_list_is_bounded_and_loses_its_oldest_rows_alone(
    steps: list[tuple[int, EventKind, int, int, int]],
) -> None:
    log, at_ms, reference = EventLog(), 0, []
    newest: dict[tuple[EventKind, str], list[object]] = {}
    for wait_ms, kind, topic, partition, segments in steps:
        at_ms += wait_ms // 400
        name = TopicPartition(f"t{topic}", partition)
        log.add(kind, at_ms, name, segments, segments)
        row = newest.get((kind, name.topic))
        if row is None or at_ms - row[1] > MERGED_MS or row not in reference[-EVENTS_MAX:]:
            row = newest[kind, name.topic] = [kind, at_ms, at_ms, name.topic, {partition}, 0, 0]
            reference.append(row)
        row[2], row[4], row[5], row[6] = at_ms, row[4] | {partition}, row[5] + segments, row[6] + segments
    expected = [(*tuple(row[:4]), len(row[4]), row[5], row[6]) for row in reference[-EVENTS_MAX:]]
    assert [tuple(event) for event in log.newest(-1, None)] == expected


def test_a_row_that_was_dropped_is_not_continued() -> None:
    log = EventLog()
    topics = [f"t{number}" for number in range(EVENTS_MAX + 5)]
    for topic in topics:
        log.add(EventKind.COMPACTED, 0, TopicPartition(topic, 0), 1, 1)
    for topic in ("t0", "t5", topics[-1]):
        log.add(EventKind.COMPACTED, 1, TopicPartition(topic, 1), 1, 1)
    assert [(event.topic, event.segments) for event in log.newest(-1, None)] == [
        *((topic, 1) for topic in topics[7:-1]),
        (topics[-1], 2),
        ("t0", 1),
        ("t5", 1),
    ]


def test_cpu_time_is_of_the_last_minute() -> None:
    cpu = LoopCpu()
    assert cpu.use(0, 5) == (0, 0)
    for second in range(200):
        cpu.sample(second * 1_000, second * 250)
    assert cpu.use(199_500, 199 * 250 + 125) == (59_500 // 4, 59_500)
    assert cpu.use(199_000 + 2 * WINDOW_MS, 99_999) == (0, 0)
