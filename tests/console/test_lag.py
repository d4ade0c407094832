"""Lag on the pages: in records, in time, and what becomes of it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from sordini.testing import Kafka, make_kafka
from tests.console.console_process import ConsoleProcess, Visitor, words
from tests.console.scene import Member, commit

RECORDS = 40


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with make_kafka(topics={"orders": 2, "other": 1}) as cluster:
        produce(cluster.bootstrap_servers, RECORDS)
        commit(cluster.bootstrap_servers, "reports", "orders", {0: 10})
        yield cluster


@pytest.fixture(scope="module")
def visitor(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    with ConsoleProcess(tmp_path_factory.mktemp("console"), kafka.bootstrap_servers) as process:
        yield process.logged_in()


def produce(bootstrap: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce("orders", str(number).encode(), partition=0)
    assert producer.flush(30) == 0


def cells(page: str, row: str) -> list[str]:
    """What the cells of a table's row say."""
    (found,) = re.findall(rf'<tr data-row="{row}">(.*?)</tr>', page, re.DOTALL)
    return [words(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", found, re.DOTALL)]


def test_a_group_shows_for_how_long_its_oldest_unread_record_waits(visitor: Visitor) -> None:
    page = visitor.get("/group?name=reports").text
    found = cells(page, "orders:0")
    assert found[:4] == ["orders:0", "10", "40", "30"]
    for age in found[4:6]:
        assert re.search(r"\d (ms|s|min)$", age), found
    assert "Lag 30 records" in words(page)
    assert re.search(r"Oldest unread (at least |up to |~)?[\d.-]+ (ms|s|min)", words(page))
    assert '<figure class="line plot"' in page


def test_the_list_and_the_topic_show_the_same(visitor: Visitor) -> None:
    for page in ("/groups/lags?group=reports", "/topic/consumers?name=orders"):
        text = words(visitor.get(page).text)
        assert re.search(r"reports .* 30 .*\d (ms|s|min)", text), text
    assert "No group reads this topic" in words(visitor.get("/topic/consumers?name=other").text)


def test_each_partition_names_its_owner(visitor: Visitor, kafka: Kafka) -> None:
    member = Member(kafka.bootstrap_servers, "billing", "billing-1", ["orders"])
    try:
        assert member.has_partitions.wait(30)
        page = visitor.get("/group?name=billing").text
        assert cells(page, "orders:1")[-1] == "billing-1"
        assert "Partitions without an owner 0" in words(page)
    finally:
        member.close()


def test_the_plot_goes_on_with_each_look_and_is_kept_when_the_page_is_loaded_again(
    visitor: Visitor, kafka: Kafka
) -> None:
    def points(markup: str) -> int:
        return sum(len(line.split()) for line in re.findall(r'<polyline points="([^"]+)"', markup))

    before = points(visitor.get("/group?name=reports").text)
    produce(kafka.bootstrap_servers, 5)
    found = [fields for kind, fields in visitor.events("/live/group?name=reports", 10) if kind == "part"]
    plots = [part["html"] for part in found if part["id"] == "lag_plot"]
    assert [points(html) for html in plots] == [before + 1, before + 2]
    assert "35 records" in words(next(part["html"] for part in found if part["id"] == "group_facts"))
    assert points(visitor.get("/group?name=reports").text) == before + 3


def test_a_group_that_does_not_exist_has_no_page(visitor: Visitor) -> None:
    assert visitor.get("/group?name=no-such-group").status == 404
