"""Loads a pack into the topics of a cluster, which are created where they are missing.

Records do not go through Produce requests: a pack's batches are what a leader stores (pack_format.py), so that offsets,
gaps, timestamps and their type stay, and the rules of a topic for new records do not apply (brokers/pack_appends.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Final

from sordini.packs.pack_format import PackedTopic
from sordini.packs.pack_reader import Pack, chosen_topics, open_pack
from sordini.testing.cluster import Cluster
from sordini.testing.own_client import KitError
from sordini.testing.packs.reading import topic_names
from sordini.testing.partitions import END, Partitions
from sordini.testing.topics import Topics

KEEP: Final = "keep"
DENSE: Final = "dense"
OFFSETS: Final = (KEEP, DENSE)
OFFSET_MAX: Final = 2**43
"""The largest offset that can be kept: batches without records lead to it, 2^31 offsets each."""
CONFIGS: Final = frozenset(
    {
        "cleanup.policy",
        "compression.type",
        "delete.retention.ms",
        "max.compaction.lag.ms",
        "max.message.bytes",
        "message.timestamp.type",
        "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms",
    }
)
"""Those of a pack's topic that its copy gets: what clients notice, and not what a cluster's size asks for."""


class PackLoading:
    """Loads packs."""

    def __init__(self, cluster: Cluster, topics: Topics, partitions: Partitions) -> None:
        self._cluster = cluster
        self._topics = topics
        self._partitions = partitions

    def load(
        self,
        path: str | os.PathLike[str],
        topics: Mapping[str, str] | Iterable[str] | None,
        offsets: str,
        config: Mapping[str, str],
    ) -> dict[tuple[str, int], int]:
        """As `Kafka.load`."""
        if offsets not in OFFSETS:
            raise ValueError(f"offsets={offsets!r}: allowed are {' and '.join(map(repr, OFFSETS))}")
        pack = open_pack(os.path.abspath(path))  # noqa: PTH100 - the brokers' process may be in another directory.
        chosen = chosen_topics(pack.header, topic_names(topics))
        names = {name: topics[name] if isinstance(topics, Mapping) else name for name in chosen}
        if len(set(names.values())) < len(names):
            raise ValueError(f"topics={topics!r}: two topics of the pack cannot be loaded into one")
        if offsets == KEEP:
            _check_offsets(pack, names)
        there = self._topics.partitions()
        for name, new_name in names.items():
            self._prepare(pack, pack.topics[name], new_name, there.get(new_name), offsets, config)
        self._cluster.load(pack.path, names, keeps_offsets=offsets == KEEP)
        counts = zip(pack.header.slices, pack.ending.records, strict=True)
        return {(names[one.topic], one.partition): count for one, count in counts if one.topic in names}

    def _prepare(
        self,
        pack: Pack,
        topic: PackedTopic,
        name: str,
        partitions: int | None,
        offsets: str,
        config: Mapping[str, str],
    ) -> None:
        """Create a topic, or check that it can take the records. Raises KitError."""
        if partitions is None:
            kept = {key: value for key, value in topic.configs.items() if key in CONFIGS}
            # Records of long ago would be removed as soon as the brokers' clock is moved.
            self._topics.create(name, topic.partitions, None, {"retention.ms": "-1", **kept, **config})
            return
        if partitions < topic.partitions:
            raise KitError(f"topic {name!r} has {partitions} partitions, and in the pack {topic.partitions}")
        if offsets == KEEP:
            ends = self._partitions.offsets(name, END)
            for one in pack.slices:
                if one.topic == topic.name and ends[one.partition] > one.start_offset:
                    raise KitError(
                        f"partition {one.partition} of topic {name!r} ends at offset {ends[one.partition]}, and the "
                        f"pack begins at {one.start_offset}: load it with offsets={DENSE!r}, or into another topic"
                    )


def _check_offsets(pack: Pack, names: Mapping[str, str]) -> None:
    for one in pack.slices:
        if one.topic in names and one.end_offset > OFFSET_MAX:
            raise ValueError(
                f"partition {one.partition} of topic {one.topic!r} ends at offset {one.end_offset}: offsets up to "
                f"{OFFSET_MAX} can be kept; load it with offsets={DENSE!r}"
            )
