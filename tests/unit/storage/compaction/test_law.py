"""Whatever was written and however often it is cleaned: a reader of the log learns what is true now."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.protocol.records.batch import CURRENT_MAGIC, Record
from sordini.protocol.records.batch_filter import delete_horizon_ms
from tests.support.compaction_history import RETENTION_MS, Found, History
from tests.support.parts import examples

KEYS = st.sampled_from([b"a", b"b", b"c", b"d" * 63, b"d" * 64, b"e" * 200, b"", None])
VALUES = st.one_of(st.none(), st.integers(0, 99).map(lambda number: b"%d" % number), st.just(b"v" * 70))
PAIRS = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=6)
OLD_PAIRS = st.lists(st.tuples(KEYS, st.one_of(VALUES, st.just(b""))), min_size=1, max_size=3)
CODECS = st.sampled_from([0, 0, 0, 1, 2, 3, 4])

STEPS = st.one_of(
    st.tuples(st.just("data"), PAIRS, st.just(-1), CODECS, st.lists(st.integers(0, 9), min_size=6, max_size=6)),
    st.tuples(st.just("data"), PAIRS, st.integers(10, 11), CODECS, st.just([0, 0, 5, 3, 70, 1])),
    st.tuples(st.just("transactional"), PAIRS, st.integers(1, 2), CODECS),
    st.tuples(st.just("transactional"), PAIRS, st.integers(1, 2), CODECS),
    st.tuples(st.just("end"), st.integers(1, 2), st.booleans()),
    st.tuples(st.just("end"), st.integers(1, 2), st.booleans()),
    st.tuples(st.just("old"), OLD_PAIRS, st.integers(0, 1), st.sampled_from([0, 0, 1])),
    st.tuples(st.just("append time"), PAIRS, CODECS),
    st.tuples(st.just("roll")),
    st.tuples(st.just("wait"), st.sampled_from([1, RETENTION_MS - 1, RETENTION_MS, 3 * RETENTION_MS])),
    st.tuples(st.just("clean"), st.sampled_from([1_000_000, 1_000_000, 900, 300])),
    st.tuples(st.just("clean"), st.sampled_from([1_000_000, 1_000_000, 900, 300])),
)


def carry_out(history: History, step: tuple[object, ...], check: Check) -> None:
    match step:
        case ("data", list(pairs), int(producer_id), int(codec), list(times)):
            history.data(pairs, producer_id=producer_id, codec=codec, times=times)
        case ("transactional", list(pairs), int(producer_id), int(codec)):
            history.data(pairs, producer_id=producer_id, codec=codec, transactional=True)
        case ("end", int(producer_id), bool(commit)):
            history.end(producer_id, commit=commit)
        case ("old", list(pairs), int(magic), int(codec)):
            history.old(pairs, magic=magic, codec=codec)
        case ("append time", list(pairs), int(codec)):
            history.data(pairs, codec=codec, log_append_time=True)
        case ("roll",):
            history.roll()
        case ("wait", int(passed_ms)):
            history.now_ms += passed_ms
        case ("clean", int(map_bytes)):
            check.clean(map_bytes)
        case _:
            raise AssertionError(step)


class Check:
    """Cleans a history and compares what is found then with what was written."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.first_cleaned_ms: dict[int, int] = {}
        """When a record was first below a cleaning's end: its tombstone has the retention's time from then on."""

    def clean(self, map_bytes: int) -> None:
        history = self.history
        before = history.found()
        progress = history.task()
        result = history.clean(map_bytes=map_bytes)
        # A map of any size makes progress.
        assert result.cleaned_to >= progress.first_dirty_offset
        if any(
            progress.first_dirty_offset <= found.header.last_offset < progress.uncleanable_offset for found in before
        ):
            assert result.cleaned_to > progress.first_dirty_offset
        for offset in history.written:
            if offset < result.cleaned_to:
                self.first_cleaned_ms.setdefault(offset, history.now_ms)
        found = history.found()
        self.every_record_left_is_as_it_was_written(found)
        self.every_batch_left_keeps_its_place(found)
        self.nothing_beyond_the_end_changed(before, found)
        self.the_newest_record_of_each_key_is_there()
        self.nothing_outdated_is_left(found)
        self.the_last_sequence_of_each_producer_is_there(found)

    def every_record_left_is_as_it_was_written(self, found: list[Found]) -> None:
        offsets = [record.offset for batch in found for record in batch.records]
        assert offsets == sorted(set(offsets))
        for batch in found:
            if not batch.header.is_control:
                for record in batch.records:
                    assert record == self.history.written[record.offset].record

    def every_batch_left_keeps_its_place(self, found: list[Found]) -> None:
        ends = [batch.header.last_offset for batch in found]
        assert ends == sorted(set(ends))
        for batch in found:
            header = batch.header
            if header.magic != CURRENT_MAGIC:
                continue
            was = self.history.batches[header.last_offset]
            assert header[:1] == was[:1]
            assert header.partition_leader_epoch == was.partition_leader_epoch
            assert header.last_offset_delta == was.last_offset_delta
            assert header[9:12] == was[9:12]
            assert header.attributes & 0x38 == was.attributes & 0x38
            if header.record_count:
                assert header.codec == was.codec
                if not header.is_log_append_time and not header.is_control:
                    assert header.max_timestamp == max(record.timestamp for record in batch.records)
            assert header.record_count == len(batch.records)

    def nothing_beyond_the_end_changed(self, before: list[Found], found: list[Found]) -> None:
        end = self.history.cleaned_to
        assert [one.data for one in before if one.header.last_offset >= end] == [
            one.data for one in found if one.header.last_offset >= end
        ]

    def the_newest_record_of_each_key_is_there(self) -> None:
        read = newest(self.history.committed())
        for key, record in newest(self.history.truly_committed()).items():
            if key is None and record.offset < self.history.cleaned_to:
                continue
            if read.get(key) == record:
                continue
            # Only a tombstone past delete.retention.ms may be gone, and then so is all that it deleted.
            assert record.value is None, f"{record} is missing"
            assert key not in read, f"{read[key]} rose from the dead"
            since = self.first_cleaned_ms[record.offset]
            if self.history.written[record.offset].magic < CURRENT_MAGIC:
                since = self.history.written[record.offset].written_ms
            assert self.history.now_ms - since >= RETENTION_MS, f"{record} went too early"

    def nothing_outdated_is_left(self, found: list[Found]) -> None:
        end = self.history.cleaned_to
        true = {record.key: record.offset for record in self.history.truly_committed() if record.offset < end}
        for batch in found:
            if batch.header.is_control:
                continue
            for record in batch.records:
                if batch.header.last_offset >= end:
                    continue
                # An old message cannot be empty, so one may stay for its offset alone.
                if batch.header.magic < CURRENT_MAGIC and batch.header.next_offset == end:
                    continue
                assert record.key is not None
                assert true.get(record.key) == record.offset

    def the_last_sequence_of_each_producer_is_there(self, found: list[Found]) -> None:
        sequences = {
            batch.header.producer_id: batch.header.last_sequence + 1
            for batch in found
            if not batch.header.is_control and batch.header.producer_id >= 0
        }
        assert sequences == {who: next_one for who, (_, next_one) in self.history.producers.items()}


def newest(records: list[Record]) -> dict[bytes | None, Record]:
    return {record.key: record for record in records}


@settings(max_examples=examples(120))
@given(st.lists(STEPS, max_size=40))
def test_a_reader_of_a_cleaned_log_learns_the_newest_value_of_every_key(steps: list[tuple[object, ...]]) -> None:
    history = History()
    check = Check(history)
    for step in steps:
        carry_out(history, step, check)
    history.roll()
    check.clean(1_000_000)
    _cleaning_again_changes_nothing(history)
    history.now_ms += 2 * RETENTION_MS
    check.clean(1_000_000)
    _no_tombstone_is_left(history)


def _cleaning_again_changes_nothing(history: History) -> None:
    def batches_of_data() -> list[bytes]:
        return [one.data for one in history.found() if one.header.magic == CURRENT_MAGIC and not one.header.is_control]

    before = batches_of_data()
    # A marker learns a round later than its records that they went, and so does an old tombstone that its segment is
    # among those that were cleaned; what became smaller may then be one segment with its neighbours.
    rounds = [len(history.clean().replacements) for _ in range(4)]
    assert batches_of_data() == before
    assert rounds[-1] == 0


def _no_tombstone_is_left(history: History) -> None:
    for found in history.found():
        horizon_ms = delete_horizon_ms(found.header)
        if found.header.magic == CURRENT_MAGIC and found.header.last_offset < history.cleaned_to:
            assert horizon_ms is None or horizon_ms > history.now_ms or None not in [one.value for one in found.records]
