"""Packs as tests make them, without a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from hypothesis import strategies as st

from sordini.packs.pack_format import Header, PackedSlice, PackedTopic
from sordini.packs.pack_reader import open_pack, records_of
from sordini.packs.pack_writer import PackWriter
from sordini.protocol.records.batch import Record


class Given(NamedTuple):
    """The records of one slice, each with whether its time is that of the append."""

    start_offset: int
    end_offset: int
    records: Sequence[tuple[Record, bool]]


def write(
    path: Path,
    slices: Mapping[tuple[str, int], Given],
    *,
    codec: int = 0,
    partitions: int = 1,
    configs: Mapping[str, str] | None = None,
) -> Path:
    """Write a pack of some slices; the path."""
    names = sorted({topic for topic, _ in slices})
    topics = tuple(PackedTopic(name, partitions, dict(configs or {})) for name in names)
    rows = tuple(PackedSlice(*name, one.start_offset, one.end_offset) for name, one in slices.items())
    with PackWriter(str(path), Header("a-cluster", "read_committed", None, topics, rows), codec) as pack:
        for number, one in enumerate(slices.values()):
            pack.begin(number)
            for record, is_log_append_time in one.records:
                pack.add(record, is_log_append_time=is_log_append_time)
            pack.end(one.end_offset)
        pack.finish()
    return path


def read(path: Path) -> dict[tuple[str, int], Given]:
    """What `write` was given."""
    found: dict[tuple[str, int], list[tuple[Record, bool]]] = {}
    for one, record, is_log_append_time in records_of(str(path)):
        found.setdefault((one.topic, one.partition), []).append((record, is_log_append_time))
    return {
        (one.topic, one.partition): Given(one.start_offset, one.end_offset, found.get((one.topic, one.partition), []))
        for one in open_pack(str(path)).slices
    }


def plain(*values: bytes | None, start: int = 0, timestamp: int = 1_000) -> Given:
    """Records with one value each, at dense offsets."""
    rows = [(Record(start + index, timestamp + index, b"k", value), False) for index, value in enumerate(values)]
    return Given(start, start + len(rows), rows)


bytes_or_null = st.none() | st.binary(max_size=40)
headers = st.lists(st.tuples(st.text(max_size=8), bytes_or_null), max_size=3).map(tuple)
steps = st.sampled_from([1, 1, 1, 2, 7, 2**31 - 1, 2**31, 2**33])
"""From one offset to the next."""


@st.composite
def givens(draw: st.DrawFn, timestamps: st.SearchStrategy[int], *, at_most: int = 12) -> Given:
    """A slice with gaps before, between and behind its records."""
    start = draw(st.sampled_from([0, 1, 5_000, 2**33]))
    offset, records = start + draw(st.integers(0, 3)), []
    for _ in range(draw(st.integers(0, at_most))):
        record = Record(offset, draw(timestamps), draw(bytes_or_null), draw(bytes_or_null), draw(headers))
        records.append((record, draw(st.booleans())))
        offset += draw(steps)
    return Given(start, max(offset, start) + draw(st.integers(0, 3)), records)
