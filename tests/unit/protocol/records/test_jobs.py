"""Jobs on records: the same outcome here and in another process, and how much is done at once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.protocol.errors import BrokerError, ErrorCode, RecordsRefused
from sordini.protocol.records import legacy
from sordini.protocol.records.batch import Record, build_batch, read_header
from sordini.protocol.records.compression import compress
from sordini.protocol.records.expansion import decompress
from sordini.protocol.records.jobs import (
    GROUP_BYTES,
    CheckJob,
    ConvertJob,
    Job,
    SearchJob,
    job_as_wire,
    job_from_wire,
    run_job,
    with_offsets,
)
from sordini.protocol.records.legacy_validation import LegacyMessages, OffsetMessages, WrongBaseOffset
from sordini.protocol.records.legacy_writing import write_messages
from sordini.protocol.records.message_down_conversion import down_convert
from sordini.protocol.records.produce_validation import CheckedBatches
from sordini.protocol.records.produced_records import check_produced
from sordini.protocol.records.timestamp_search import first_at_or_after
from sordini.protocol.records.work_budget import INLINE_STEPS, BudgetExceeded, WorkBudget
from tests.support import worst_batches
from tests.support.builders import BASE_TIMESTAMP, RULES
from tests.support.inline_record_jobs import as_if_sent
from tests.support.parts import examples

RECORDS = st.lists(
    st.tuples(st.integers(0, 5_000), st.none() | st.binary(max_size=8), st.none() | st.binary(max_size=40)),
    min_size=1,
    max_size=40,
)
CODECS = st.sampled_from(worst_batches.EVERY_CODEC)
TARGETS = st.sampled_from([None, *worst_batches.EVERY_CODEC])


def outcome(work: Any) -> Any:
    """What a piece of work came to, as a value."""
    try:
        made = work()
    except RecordsRefused as error:
        return error.code, str(error), error.records
    except BrokerError as error:
        return error.code, str(error)
    if isinstance(made, CheckedBatches):
        return bytes(made.buffer), made.batches
    if isinstance(made, OffsetMessages):
        return bytes(made.buffer), made.base_offset, made.end_offset
    return made


def records_of(rows: list[tuple[int, bytes | None, bytes | None]]) -> list[Record]:
    return [Record(number, BASE_TIMESTAMP + time, key, value) for number, (time, key, value) in enumerate(rows)]


@settings(deadline=None, max_examples=examples(60))
@given(
    RECORDS,
    st.sampled_from([0, 1, 2]),
    CODECS,
    st.sampled_from([0, 1, 2]),
    TARGETS,
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([2**63 - 1, 0]),
    st.integers(-1, 300),
)
def test_what_a_child_makes_of_a_record_set_is_what_the_broker_would_have_made(
    rows: list[tuple[int, bytes | None, bytes | None]],
    magic: int,
    codec: int,
    stored: int,
    target: int | None,
    compacted: bool,
    append_time: bool,
    check: bool,
    after_ms_max: int,
    damaged_at: int,
) -> None:
    if magic == 2:
        data = bytearray(build_batch(records_of(rows), codec=codec))
    else:
        data = bytearray(write_messages(records_of(rows), magic, codec=codec % 4))
    if 0 <= damaged_at < len(data):
        data[damaged_at] ^= 0x10
    rules = RULES._replace(
        codec=target,
        key_required=compacted,
        log_append_time=append_time,
        check_compressed=check,
        timestamp_after_ms_max=after_ms_max,
        magic=stored,
    )
    version = 9 if magic == 2 else 2

    def here() -> Any:
        checked = check_produced(memoryview(bytearray(data)), rules, BASE_TIMESTAMP, produce_version=version)
        return with_offsets(checked, 7) if isinstance(checked, LegacyMessages) else checked

    there = CheckJob(memoryview(bytearray(data)), rules, BASE_TIMESTAMP, version, 7)
    assert outcome(lambda: as_if_sent(there)) == outcome(here)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.tuples(RECORDS, CODECS), min_size=1, max_size=3), st.sampled_from([0, 1]), st.integers(0, 60))
def test_what_a_child_converts_is_what_the_broker_would_have_converted(
    sets: list[tuple[Any, int]], magic: int, start: int
) -> None:
    log, base = b"", 0
    for rows, codec in sets:
        records = [record._replace(offset=base + record.offset) for record in records_of(rows)]
        log += build_batch(records, base_offset=base, codec=codec)
        base += len(records)
    job = ConvertJob(log, magic, start, 500)
    there = outcome(lambda: as_if_sent(job).messages)  # type: ignore[union-attr]
    assert there == outcome(lambda: down_convert(log, magic, start=start, bytes_max=500))


@settings(deadline=None, max_examples=40)
@given(RECORDS, CODECS, st.integers(-1, 6_000), st.integers(0, 45))
def test_what_a_child_finds_is_what_the_broker_would_have_found(rows: Any, codec: int, time: int, offset: int) -> None:
    batch = build_batch(records_of(rows), codec=codec)
    found = as_if_sent(SearchJob(batch, BASE_TIMESTAMP + time, offset)).record  # type: ignore[union-attr]
    assert found == first_at_or_after(batch, read_header(batch), BASE_TIMESTAMP + time, offset)


@pytest.mark.parametrize(
    "job",
    [
        CheckJob(memoryview(b"abc"), RULES, 5, 9, 3),
        ConvertJob(b"abc", 1, 3, 4),
        SearchJob(b"abc", 3, 4),
    ],
)
def test_a_job_survives_the_way_to_another_process(job: Job) -> None:
    about, data = job_as_wire(job)
    again = job_from_wire(json.loads(json.dumps(about)), bytearray(data))
    assert again == job


def test_old_messages_come_with_one_header_for_all_that_are_indexed_together() -> None:
    data = worst_batches.old_messages(64 * 1024)
    rules = RULES._replace(magic=1)
    made = as_if_sent(CheckJob(memoryview(bytearray(data)), rules, 5, 2, 100))
    assert isinstance(made, OffsetMessages)
    whole = check_produced(memoryview(bytearray(data)), rules, 5, produce_version=2)
    assert isinstance(whole, LegacyMessages)
    end_offset = whole.assign_offsets(100)
    assert bytes(made.buffer) == bytes(whole.buffer)
    assert made.end_offset == end_offset == 100 + len(whole.batches)
    assert len(made.batches) < len(whole.batches) / 50
    position, offset = 0, 100
    for at, group in made.batches:
        assert (at, group.base_offset) == (position, offset)
        assert group.size <= GROUP_BYTES
        position, offset = at + group.size, group.last_offset + 1
    assert (position, offset) == (len(made.buffer), end_offset)


def test_messages_with_offsets_for_another_log_end_offset_are_refused() -> None:
    made = OffsetMessages(memoryview(b""), [], 5, 9)
    assert made.assign_offsets(5) == 9
    with pytest.raises(WrongBaseOffset):
        made.assign_offsets(6)


@pytest.mark.parametrize("codec", worst_batches.EVERY_COMPRESSION)
def test_a_bomb_is_expanded_only_as_far_as_the_effort_goes(codec: int) -> None:
    data = memoryview(worst_batches.bomb(codec, 16 * worst_batches.MIB))[61:]
    budget = WorkBudget()
    with pytest.raises(BudgetExceeded):
        decompress(codec, data, 64 * 1024 * 1024, budget)
    assert 0 <= budget.left < INLINE_STEPS


DEAR = {
    "keyless": (lambda: worst_batches.tiny_records(100_000), {"key_required": True}, 9),
    "shapeless": (lambda: worst_batches.tiny_plain(shapes=3), {}, 9),
    "wrong at its end": (worst_batches.last_is_wrong, {}, 9),
    "headers": (worst_batches.many_headers, {}, 9),
    "to compress": (worst_batches.noise, {"codec": 1}, 9),
    "messages": (worst_batches.old_messages, {}, 2),
    "messages to keep": (worst_batches.old_messages, {"magic": 1}, 2),
    "a wrapper": (worst_batches.wrapper, {}, 2),
}


@pytest.mark.parametrize("name", DEAR)
def test_what_takes_long_is_not_done_at_once_and_leaves_the_records_as_they_were(name: str) -> None:
    make, rules, version = DEAR[name]
    data = bytearray(make())
    before = bytes(data)
    with pytest.raises(BudgetExceeded):
        check_produced(
            memoryview(data),
            RULES._replace(**rules),
            worst_batches.TIMESTAMP,
            produce_version=version,
            budget=WorkBudget(),
        )
    assert data == before


@pytest.mark.parametrize("codec", worst_batches.EVERY_CODEC)
def test_an_ordinary_batch_is_checked_at_once(codec: int) -> None:
    records = [Record(number, BASE_TIMESTAMP, b"key-%d" % number, b"v" * (number % 300)) for number in range(600)]
    data = memoryview(bytearray(build_batch(records, codec=codec)))
    for target in (None, 2, 3, 4):
        rules = RULES._replace(key_required=True, codec=target)
        budget = WorkBudget()
        check_produced(data[:], rules, BASE_TIMESTAMP, produce_version=9, budget=budget)
        assert budget.left > 0


def test_a_thousand_bad_records_are_listed_and_the_others_counted() -> None:
    data = memoryview(bytearray(worst_batches.tiny_records(5_000, shapes=3)))
    with pytest.raises(RecordsRefused) as refusal:
        check_produced(data, RULES._replace(key_required=True), 0, produce_version=9)
    assert [index for index, _ in refusal.value.records] == list(range(1_000))
    assert str(refusal.value).endswith("; 4000 more records are wrong than are listed")


def test_a_refusal_that_was_sent_says_the_same() -> None:
    job = CheckJob(memoryview(bytearray(worst_batches.tiny_records(1_500))), RULES._replace(key_required=True), 0, 9, 0)
    with pytest.raises(RecordsRefused) as here:
        run_job(job)
    with pytest.raises(RecordsRefused) as there:
        as_if_sent(job)
    assert (there.value.code, str(there.value)) == (ErrorCode.INVALID_RECORD, str(here.value))
    assert there.value.records == here.value.records


@pytest.mark.parametrize("codec", worst_batches.EVERY_CODEC)
def test_what_is_compressed_in_pieces_expands_to_the_same(codec: int) -> None:
    data = b"".join(b"%d" % number for number in range(200_000))
    assert decompress(codec, compress(codec, data)) == data


def test_a_large_batch_is_converted_part_by_part_from_any_offset() -> None:
    records = [Record(number, BASE_TIMESTAMP, None, b"%d" % number * 20) for number in range(15_000)]
    batch = build_batch(records, codec=1)
    seen: list[int] = []
    while len(seen) < len(records):
        part = down_convert(batch, 1, start=len(seen), bytes_max=1)
        [entry] = legacy.entries(part)
        offsets = [record.offset for record in legacy.read_entry(part, entry, 2 * 1024 * 1024)]
        assert offsets[0] <= len(seen) < offsets[-1] + 1
        seen = list(range(offsets[-1] + 1))
    assert len(seen) == len(records)
