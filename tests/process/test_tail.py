"""`sordini tail`, against a running broker."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.outside.processes import SordiniProcess

PROGRAM = Path(sys.prefix) / "bin" / "sordini"
TAIL_S_MAX = 60
Run = Callable[..., str]
Send = Callable[..., None]


@pytest.fixture
def tail(sordini_broker: SordiniProcess) -> Run:
    def command(*words: str, code: int = 0) -> str:
        """What is printed: standard output, or with another code standard error."""
        done = subprocess.run(
            [str(PROGRAM), "tail", *words, "-b", sordini_broker.bootstrap],
            capture_output=True,
            text=True,
            timeout=TAIL_S_MAX,
            check=False,
        )
        assert done.returncode == code, done.stderr
        return done.stderr if code else done.stdout

    return command


@pytest.fixture
def send(sordini_broker: SordiniProcess) -> Send:
    def produced(
        topic: str, *values: str | bytes, partition: int = 0, first_ms: int = 1_000, **settings: object
    ) -> None:
        producer = Producer({"bootstrap.servers": sordini_broker.bootstrap, "linger.ms": 0})
        for number, value in enumerate(values):
            producer.produce(topic, value, partition=partition, timestamp=first_ms + 10 * number, **settings)
        producer.flush(30)

    return produced


@pytest.fixture
def topics(sordini_broker: SordiniProcess, topic: str) -> tuple[str, str]:
    """Two topics, the first with two partitions."""
    for name, partitions in ((topic, 2), (f"{topic}-b", 1)):
        command = [str(PROGRAM), "topics", "create", name, "--partitions", str(partitions)]
        subprocess.run([*command, "-b", sordini_broker.bootstrap], check=True, capture_output=True, timeout=TAIL_S_MAX)
    return topic, f"{topic}-b"


def values(printed: str) -> list[str]:
    return [line.rsplit("  ", 1)[1] for line in printed.splitlines()]


def test_the_newest_records_of_topics_are_printed_in_the_order_of_their_times(
    tail: Run, send: Send, topics: tuple[str, str]
) -> None:
    first, second = topics
    send(first, "a", "d", first_ms=1_000)
    send(first, "b", "e", partition=1, first_ms=1_002)
    send(second, "c", "f", first_ms=1_004)
    assert values(tail(first, second)) == ["a", "b", "c", "d", "e", "f"]
    assert values(tail(first, second, "-n", "3")) == ["d", "e", "f"]
    assert values(tail(f"{first}:1")) == ["b", "e"]
    assert tail(first, "-n", "0") == ""


def test_a_line_has_time_place_key_value_and_headers(tail: Run, send: Send, topics: tuple[str, str]) -> None:
    topic = topics[0]
    send(topic, "figs", first_ms=1_795_955_583_174, key="k", headers=[("trace", b"abc"), ("none", None)])
    assert tail(topic) == f"2026-11-29T12:33:03.174Z  {topic}:0@0  k  figs  trace=abc none=null\n"
    send(topic, b"\x00\xff\x1b[31m")
    send(topic, None, key="k")
    assert [line.split("  ", 2)[2] for line in tail(topic).splitlines()] == [
        '-  {"base64":"AP8bWzMxbQ=="}',
        "k  null",
        "k  figs  trace=abc none=null",
    ]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--grep", "pen"], ["0", "1", "3"]),
        (["--key", "pen"], ["1"]),
        (["--value", "pen"], ["0"]),
        (["--header", "pen"], ["3"]),
        (["--where", "item.name=pen"], ["0"]),
        (["--where", "item.name"], ["0", "1"]),
        (["--where", "item.name", "--key", "pen"], ["1"]),
        (["--since", "1970-01-01T00:00:01.020", "--grep", "pen"], ["3"]),
        (["--since", "1970-01-01T00:00:01.010"], ["1", "2", "3"]),
        (["--since", "1970-01-01T00:00:01.010", "-n", "2"], ["2", "3"]),
        (["--since", "1h"], []),
    ],
)
def test_filters_choose_records(
    tail: Run, send: Send, topics: tuple[str, str], options: list[str], found: list[str]
) -> None:
    topic = topics[0]
    send(topic, '{"item": {"name": "pen"}}')
    send(topic, '{"item": {"name": "cup"}}', first_ms=1_010, key="pen")
    send(topic, "no json", first_ms=1_020)
    send(topic, "other", first_ms=1_030, headers=[("pen", b"1")])
    assert [line.split("@")[1].split(" ")[0] for line in tail(topic, *options).splitlines()] == found


def test_transactions_are_shown_as_far_as_is_asked_for(
    tail: Run, topics: tuple[str, str], sordini_broker: SordiniProcess
) -> None:
    topic = topics[1]
    producer = Producer({"bootstrap.servers": sordini_broker.bootstrap, "transactional.id": topic, "linger.ms": 0})
    producer.init_transactions(30)
    for value, ends in (("kept", producer.commit_transaction), ("lost", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(30)
        ends(30)
    producer.begin_transaction()
    producer.produce(topic, "open")
    producer.flush(30)
    assert values(tail(topic)) == ["kept"]
    # By offset: a marker has the broker's time, which may be after that of the producer's next record.
    aborted = sorted(line.split("@")[1] for line in tail(topic, "--aborted").splitlines())
    assert aborted == ["0  -  kept", "1  commit marker", "2  aborted  -  lost", "3  abort marker"]
    rows = [json.loads(line) for line in tail(topic, "--aborted", "--json").splitlines()]
    kinds = {row["offset"]: row.get("kind") for row in rows}
    assert kinds == {0: None, 1: "commit marker", 2: "aborted", 3: "abort marker"}
    assert "open" in tail(topic, "--uncommitted")
    producer.abort_transaction(30)


def test_json_is_what_consume_prints(
    tail: Run, send: Send, topics: tuple[str, str], sordini_broker: SordiniProcess
) -> None:
    topic = topics[1]
    send(topic, "figs", b"\xff", key="k", headers=[("h", b"1")])
    command = [str(PROGRAM), "consume", topic, "--from", "beginning", "--exit-at-end", "--json"]
    consumed = subprocess.run(
        [*command, "-b", sordini_broker.bootstrap], capture_output=True, text=True, check=True, timeout=TAIL_S_MAX
    )
    assert tail(topic, "--json") == consumed.stdout


def test_a_value_that_does_not_fit_its_schema_is_named_and_shown_as_it_is(
    tail: Run, send: Send, topics: tuple[str, str], tmp_path: Path
) -> None:
    topic = topics[1]
    send(topic, b"\x06", b"\x80")
    (tmp_path / "number.avsc").write_text('"int"')
    printed = tail(topic, "--avro", str(tmp_path / "number.avsc"), code=1)
    assert printed.splitlines() == [
        f"sordini: {topic}-0 offset 1: not Avro of this schema: it ends too early",
        "sordini: 1 record does not fit the schema",
    ]


@pytest.fixture
def following(sordini_broker: SordiniProcess) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def start(*words: str) -> subprocess.Popen[str]:
        command = [str(PROGRAM), "tail", "--follow", *words, "-b", sordini_broker.bootstrap]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_followed_records_come_once_behind_the_newest_ones_and_ctrl_c_ends_it(
    send: Send, topics: tuple[str, str], following: Callable[..., subprocess.Popen[str]]
) -> None:
    first, second = topics
    send(first, *(f"old-{number}" for number in range(20)))
    process = following(first, second, "-n", "2")
    assert process.stdout is not None
    seen = [process.stdout.readline() for _ in range(2)]
    many = [f"new-{number}" for number in range(3_000)]
    send(first, *many, partition=1, first_ms=2_000)
    send(second, "last", first_ms=2_000)
    seen += [process.stdout.readline() for _ in range(len(many) + 1)]
    found = [line.rstrip("\n").rsplit("  ", 1)[1] for line in seen]
    assert found[:2] == ["old-18", "old-19"]
    assert [value for value in found if value.startswith("new")] == many
    assert found.count("last") == 1
    process.send_signal(2)
    assert process.wait(TAIL_S_MAX) == 130


def test_records_of_open_transactions_are_followed_where_they_are_asked_for(
    send: Send,
    topics: tuple[str, str],
    sordini_broker: SordiniProcess,
    following: Callable[..., subprocess.Popen[str]],
) -> None:
    topic = topics[1]
    send(topic, "before")
    process = following(topic, "--uncommitted")
    assert process.stdout is not None
    assert process.stdout.readline().endswith("before\n"), "it follows from here on"
    producer = Producer({"bootstrap.servers": sordini_broker.bootstrap, "transactional.id": f"{topic}-open"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, "open")
    producer.flush(30)
    assert process.stdout.readline().endswith("open\n")
    producer.abort_transaction(30)
    assert process.stdout.readline().endswith("abort marker\n")


def test_a_reader_that_stops_ends_it_in_silence(
    send: Send, topics: tuple[str, str], sordini_broker: SordiniProcess
) -> None:
    send(topics[0], *("x" * 900 for _ in range(500)))
    command = (
        f'PYTHONFAULTHANDLER=1 timeout -s ABRT 60 "{PROGRAM}" tail {topics[0]} -n 500 -b {sordini_broker.bootstrap}'
    )
    shell = f'{command} | head -n 1; echo "${{PIPESTATUS[0]}}"'
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=90, check=True)
    assert done.stderr == ""
    assert done.stdout.splitlines()[1] == "0"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--where", "[["], "--where: '[[' is no path"),
        (["--grep", ""], "the text of a filter is empty"),
        (["--since", "soon"], "'soon' is neither a time such as 2026-11-21T18:30 nor a duration such as 15m"),
    ],
)
def test_options_that_mean_nothing_are_refused(tail: Run, topic: str, words: list[str], why: str) -> None:
    assert why in tail(topic, *words, code=2)


def test_topics_and_partitions_that_do_not_exist_are_named(tail: Run, topics: tuple[str, str]) -> None:
    assert "no such topic" in tail(f"{topics[0]}-c", code=1)
    assert re.search(rf"'?{topics[0]}-7|partition 7", tail(f"{topics[0]}:7", code=1))
