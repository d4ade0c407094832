from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from sordini.pipeline.errors import BadSetting, UnknownTopic
from sordini.pipeline.source import offset_lookup
from sordini.pipeline.source.options import SourceOptions, read_options
from sordini.protocol.types import TopicPartition

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


class Logs:
    """A cluster whose record at offset n is of the time 10 n."""

    def __init__(self, logs: Mapping[TopicPartition, tuple[int, int]], stable: int = 0) -> None:
        self.logs = logs
        self.uncommitted = stable
        self.asked: list[TopicPartition] = []

    def topics(self) -> list[str]:
        return sorted({partition.topic for partition in self.logs})

    def partitions(self, topics: Iterable[str]) -> dict[str, list[int]]:
        wanted = list(topics)
        if unknown := [topic for topic in wanted if topic not in self.topics()]:
            raise UnknownTopic(unknown)
        return {topic: sorted(one.partition for one in self.logs if one.topic == topic) for topic in wanted}

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        return {topic: "" if topic == "u" else f"id of {topic}" for topic in topics}

    def offsets(self, at: Mapping[TopicPartition, int], *, read_committed: bool = False) -> dict[TopicPartition, int]:
        self.asked += at
        return {partition: self.offset(partition, time, read_committed) for partition, time in at.items()}

    def offset(self, partition: TopicPartition, time: int, read_committed: bool) -> int:
        first, end = self.logs[partition]
        if time == -2:
            return first
        if time == -1:
            return end - self.uncommitted if read_committed else end
        offset = max(first, -(-time // 10))
        return offset if offset < end else -1


LOGS = Logs({T0: (3, 30), T1: (0, 20), U0: (0, 5)}, stable=2)


def options(*, streaming: bool = False, **given: str) -> SourceOptions:
    base = {"kafka.bootstrap.servers": "localhost:9092"}
    if not {"subscribe", "subscribePattern", "assign"} & given.keys():
        base["subscribe"] = "t"
    return read_options({**base, **given}, streaming=streaming)


class LateDeletion(Logs):
    """A cluster that still lists a topic which was deleted."""

    def topics(self) -> list[str]:
        return [*super().topics(), "view-gone"]

    def partitions(self, topics: Iterable[str]) -> dict[str, list[int]]:
        known = {partition.topic for partition in self.logs}
        if unknown := [topic for topic in topics if topic not in known]:
            raise UnknownTopic(unknown)
        return {topic: [0] for topic in topics}


def test_a_topic_that_is_deleted_while_a_pattern_is_looked_up_is_none_of_its_topics() -> None:
    logs = LateDeletion({TopicPartition("view", 0): (0, 1)})
    assert offset_lookup.subscribed(logs, options(subscribePattern="view.*").subscription) == {"view": [0]}
    assert offset_lookup.ends(logs, options(subscribePattern="view.*")).offsets == {"view": {0: 1}}
    with pytest.raises(UnknownTopic):
        offset_lookup.subscribed(logs, options(subscribe="view,view-gone").subscription)


def test_a_pattern_has_to_match_the_whole_name() -> None:
    logs = Logs({TopicPartition(name, 0): (0, 1) for name in ("view", "views", "preview")})
    assert offset_lookup.subscribed(logs, options(subscribePattern="view.?").subscription) == {
        "view": [0],
        "views": [0],
    }


def test_an_assignment_reads_its_partitions_alone() -> None:
    assert offset_lookup.subscribed(LOGS, options(assign='{"t": [1]}').subscription) == {"t": [1]}


def test_an_assigned_partition_that_is_not_there_is_refused() -> None:
    with pytest.raises(BadSetting, match="'t' has no partition 2, 3"):
        offset_lookup.subscribed(LOGS, options(assign='{"t": [1, 2, 3]}').subscription)


def test_a_topic_that_is_not_there_is_an_error() -> None:
    with pytest.raises(UnknownTopic):
        offset_lookup.start(LOGS, options(subscribe="t,none"))


def test_a_query_starts_at_the_first_offsets_and_remembers_that_it_started_there() -> None:
    position = offset_lookup.start(LOGS, options(subscribe="t,u"))
    assert position.offsets == position.started_at == {"t": {0: 3, 1: 0}, "u": {0: 0}}


def test_a_position_knows_the_ids_of_topics_that_have_one() -> None:
    assert offset_lookup.ends(LOGS, options(subscribe="t,u")).topic_ids == {"t": "id of t"}


def test_a_reader_of_committed_records_ends_at_the_last_stable_offset() -> None:
    assert offset_lookup.ends(LOGS, options()).offsets == {"t": {0: 30, 1: 20}}
    committed = options(**{"kafka.isolation.level": "read_committed"})
    assert offset_lookup.ends(LOGS, committed).offsets == {"t": {0: 28, 1: 18}}


def test_offsets_that_are_given_are_taken_and_only_ends_are_asked_for() -> None:
    logs = Logs(LOGS.logs)
    position = offset_lookup.start(logs, options(streaming=True, startingOffsets='{"t": {"0": 7, "1": -1}}'))
    assert position.offsets == {"t": {0: 7, 1: 20}}
    assert logs.asked == [T1]


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ('{"t": {"0": 7}}', "it leaves out t-1"),
        ('{"t": {"0": 7, "1": 7, "2": 7}}', "it names besides t-2"),
        ('{"t": {"0": 7, "1": 7}, "u": {"0": 1}}', "it names besides u-0"),
        ("{}", "it leaves out t-0, t-1"),
    ],
)
@pytest.mark.parametrize("option", ["startingOffsets", "startingOffsetsByTimestamp"])
def test_offsets_for_some_partitions_or_for_others_are_refused(given: str, complaint: str, option: str) -> None:
    with pytest.raises(BadSetting) as caught:
        offset_lookup.start(LOGS, options(**{option: given}))
    assert complaint in str(caught.value)
    assert option in str(caught.value)


def test_a_timestamp_starts_at_the_first_record_that_is_as_young() -> None:
    assert offset_lookup.start(LOGS, options(startingTimestamp="101")).offsets == {"t": {0: 11, 1: 11}}


def test_each_partition_may_have_a_timestamp_of_its_own() -> None:
    position = offset_lookup.start(LOGS, options(startingOffsetsByTimestamp='{"t": {"0": 0, "1": 50}}'))
    assert position.offsets == {"t": {0: 3, 1: 5}}


def test_a_start_where_no_record_is_so_young_is_an_error_that_names_the_partition() -> None:
    with pytest.raises(offset_lookup.NoRecordsSince, match="t-1 has no record"):
        offset_lookup.start(LOGS, options(startingTimestamp="250"))


def test_a_start_where_no_record_is_so_young_may_be_the_end_instead() -> None:
    given = {"startingTimestamp": "250", "startingOffsetsByTimestampStrategy": "latest"}
    assert offset_lookup.start(LOGS, options(**given)).offsets == {"t": {0: 25, 1: 20}}


def test_a_batch_ends_before_the_first_record_of_its_ending_timestamp_or_at_the_end() -> None:
    assert offset_lookup.stop(LOGS, options(endingTimestamp="250")).offsets == {"t": {0: 25, 1: 20}}
