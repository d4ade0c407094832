"""kcat, as an operator uses it at a shell."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.compat.sent import CODECS, START_MS

MakeTopic = Callable[..., str]


def test_metadata_lists_the_topic_with_its_partitions(kcat: Callable[..., str], make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=3)
    listed = json.loads(kcat("-L", "-J", "-t", topic))
    (described,) = listed["topics"]
    assert described["topic"] == topic
    assert [partition["partition"] for partition in described["partitions"]] == [0, 1, 2]
    assert all(partition["leader"] == listed["brokers"][0]["id"] for partition in described["partitions"])


@pytest.mark.parametrize("codec", CODECS)
def test_lines_of_a_file_come_back_in_order(kcat: Callable[..., str], make_topic: MakeTopic, codec: str) -> None:
    topic = make_topic()
    lines = [f"line {number}" for number in range(500)]
    kcat("-P", "-t", topic, "-p", "0", "-z", codec, standard_input="\n".join(lines))
    assert kcat("-C", "-q", "-e", "-t", topic, "-p", "0", "-o", "beginning").splitlines() == lines


def test_keys_and_headers_come_back(kcat: Callable[..., str], make_topic: MakeTopic) -> None:
    topic = make_topic()
    kcat("-P", "-t", topic, "-p", "0", "-K", ":", "-H", "who=kcat", "-H", "n=1", standard_input="k1:v1\nk2:v2\n")
    got = kcat("-C", "-q", "-e", "-t", topic, "-o", "beginning", "-f", "%o %k %s %h\n")
    assert got.splitlines() == ["0 k1 v1 who=kcat,n=1", "1 k2 v2 who=kcat,n=1"]


def test_an_offset_from_either_end_is_where_reading_starts(kcat: Callable[..., str], make_topic: MakeTopic) -> None:
    topic = make_topic()
    kcat("-P", "-t", topic, "-p", "0", standard_input="\n".join("abcdef"))
    assert kcat("-C", "-q", "-e", "-t", topic, "-p", "0", "-o", "4").split() == ["e", "f"]
    assert kcat("-C", "-q", "-e", "-t", topic, "-p", "0", "-o", "-3").split() == ["d", "e", "f"]


def test_offsets_are_queried_by_time(kcat: Callable[..., str], make_topic: MakeTopic) -> None:
    topic = make_topic()
    kcat("-P", "-t", topic, "-p", "0", standard_input="\n".join("abc"))
    assert kcat("-Q", "-t", f"{topic}:0:{START_MS}").split() == [topic, "[0]", "offset", "0"]
    assert kcat("-Q", "-t", f"{topic}:0:-1").split() == [topic, "[0]", "offset", "3"]
    assert kcat("-Q", "-t", f"{topic}:0:-2").split() == [topic, "[0]", "offset", "0"]


def test_idempotent_production_is_granted(kcat: Callable[..., str], make_topic: MakeTopic) -> None:
    topic = make_topic()
    kcat("-P", "-t", topic, "-p", "0", "-X", "enable.idempotence=true", standard_input="one\ntwo\n")
    assert kcat("-C", "-q", "-e", "-t", topic, "-p", "0").split() == ["one", "two"]
