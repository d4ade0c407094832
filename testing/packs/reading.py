"""The records of a pack, for tests."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping

from sordini.packs.pack_reader import records_of
from sordini.packs.packed_records import KitRecord, kit_record
from sordini.testing.arguments import texts


def topic_names(topics: Iterable[str] | None) -> list[str] | None:
    """The names of topics: one, several, or those of a mapping. Raises ArgumentRefused."""
    if topics is None:
        return None
    return list(topics) if isinstance(topics, Mapping) else texts("topics", topics)


def read_pack(path: str | os.PathLike[str], topics: Iterable[str] | None = None) -> Iterator[KitRecord]:
    """The records of a file that `sordini topics pack` has written, or those of some of its topics.

    They come partition by partition, in the order of their offsets. Raises PackError, and ValueError for a topic that
    is not in the file.
    """
    for one, record, _ in records_of(os.fspath(path), topic_names(topics)):
        yield kit_record(one.topic, one.partition, record)
