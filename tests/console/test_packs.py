"""Records of a topic as a pack for a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from sordini.packs.pack_reader import open_pack, records_of
from sordini.testing import make_kafka
from tests.console.console_process import ConsoleProcess, Visitor, words

RECORDS = 30


@pytest.fixture(scope="module")
def visitor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    with make_kafka(topics={"orders": 2}) as kafka:
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
        for number in range(RECORDS):
            producer.produce("orders", f"value {number}".encode(), partition=number % 2, headers=[("a", b"\xff")])
        assert producer.flush(30) == 0
        with ConsoleProcess(tmp_path_factory.mktemp("console"), kafka.bootstrap_servers) as console:
            yield console.logged_in()


def packed(visitor: Visitor, path: Path, query: str) -> list[tuple[int, int, bytes | None]]:
    """Partition, offset and value of each record of a pack."""
    answer = visitor.download(f"/topic/records/pack?name=orders{query}")
    path.write_bytes(answer)
    return [(one.partition, record.offset, record.value) for one, record, _ in records_of(str(path))]


def test_a_pack_has_the_records_with_their_offsets(visitor: Visitor, tmp_path: Path) -> None:
    found = packed(visitor, tmp_path / "orders.pack", "")
    assert found == [
        (number % 2, number // 2, f"value {number}".encode()) for number in [*range(0, 30, 2), *range(1, 30, 2)]
    ]
    assert open_pack(str(tmp_path / "orders.pack")).header.topics[0].partitions == 2


def test_a_pack_begins_where_the_form_says_and_has_its_partition(visitor: Visitor, tmp_path: Path) -> None:
    found = packed(visitor, tmp_path / "part.pack", "&partition=1&start=offset&at=12")
    assert [offset for _, offset, _ in found] == [12, 13, 14]
    assert {partition for partition, _, _ in found} == {1}


def test_a_pack_is_offered_where_nothing_is_sought(visitor: Visitor) -> None:
    assert "Download a pack" in words(visitor.get("/topic/records?name=orders").text)
    assert "Download a pack" not in words(visitor.get("/topic/records?name=orders&text=value").text)


def test_a_topic_that_is_not_there_gives_no_pack(visitor: Visitor) -> None:
    assert visitor.get("/topic/records/pack?name=no-such-topic").status == 404
