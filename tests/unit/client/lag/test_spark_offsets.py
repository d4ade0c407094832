"""The offsets in a checkpoint of Spark: of its last batch that is done, of every source that reads Kafka."""

from __future__ import annotations

import pytest

from sordini.client.lag.spark_offsets import NoCheckpoint, parse_offsets, read_checkpoint
from sordini.protocol.types import TopicPartition

HEAD = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1795950806888,"conf":{}}\n'
ORDERS, BILLS = TopicPartition("orders", 0), TopicPartition("bills", 3)


class FolderOfATest:
    location = "/checkpoints/views"

    def __init__(self, files: dict[str, str]) -> None:
        self.files = files

    def names(self, folder: str) -> list[str]:
        return [name.removeprefix(f"{folder}/") for name in self.files if name.startswith(f"{folder}/")]

    def text_of(self, name: str) -> str | None:
        return self.files.get(name)


def offsets(orders: int) -> str:
    return f'{HEAD}{{"orders":{{"0":{orders}}}}}'


def test_it_is_the_end_of_the_last_batch_that_is_done() -> None:
    files = {f"offsets/{number}": offsets(10 * number) for number in (8, 9, 10)}
    folder = FolderOfATest({**files, "commits/8": "v1\n{}", "commits/9": "v1\n{}", "offsets/.10.tmp": "x"})
    found = read_checkpoint(folder)
    assert (found.name, found.kind, found.offsets) == ("/checkpoints/views", "checkpoint", {ORDERS: 90})


def test_before_its_first_batch_is_done_a_query_has_no_offsets() -> None:
    assert read_checkpoint(FolderOfATest({"offsets/0": offsets(5)})).offsets == {}


def test_a_folder_that_is_no_checkpoint_is_reported() -> None:
    with pytest.raises(NoCheckpoint, match="/checkpoints/views is no checkpoint of Spark"):
        read_checkpoint(FolderOfATest({"commits/0": "v1\n{}"}))


def test_all_sources_that_read_kafka_count_and_others_do_not() -> None:
    text = HEAD + '{"orders":{"0":7,"1":8}}\n{"logOffset":4}\n-\n{"bills":{"3":9}}\n42'
    assert parse_offsets(text, "f") == {ORDERS: 7, TopicPartition("orders", 1): 8, BILLS: 9}


def test_of_two_sources_of_one_topic_the_one_that_is_farther_behind_counts() -> None:
    assert parse_offsets(HEAD + '{"orders":{"0":7}}\n{"orders":{"0":5}}', "f") == {ORDERS: 5}


def test_entries_of_our_own_source_that_are_no_topics_are_left_out() -> None:
    line = '{"orders":{"0":7},"$topic_ids":{"orders":"MgYZ"},"$started_at":{"orders":{"0":0}}}'
    assert parse_offsets(HEAD + line, "f") == {ORDERS: 7}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is damaged"),
        ("v1\n{}", "is damaged"),
        ("x\n{}\n{}", "is damaged"),
        (HEAD + '{"logOffset":4}', "no source that reads Kafka"),
        (HEAD + '{"orders":{"0":-7}}', "no source that reads Kafka"),
        (HEAD + '{"orders":{"x":7}}', "no source that reads Kafka"),
        (HEAD + '{"orders":{"0":"7"}}', "no source that reads Kafka"),
    ],
)
def test_a_damaged_file_is_reported_with_its_name(text: str, problem: str) -> None:
    with pytest.raises(NoCheckpoint, match=f"^the-file .*{problem}"):
        parse_offsets(text, "the-file")
