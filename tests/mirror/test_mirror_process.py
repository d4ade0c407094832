"""The command as an operator runs it: kills, signals, reports, metrics, and Java's view of what it writes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.mirror.campaign import TOPIC, Collector, Contents, Kill, Numbers, contents_of, create, drawn, run
from tests.mirror.conftest import KILLS, MINUTES, SEED
from tests.mirror.mirror_process import MirrorProcess, settings
from tests.mirror.running import eventually
from tests.outside.java import ApacheKafkaProcess
from tests.outside.mirror_maker import MirrorMakerProcess
from tests.outside.needs import need_mirror_maker
from tests.outside.processes import SordiniProcess

Start = Callable[..., SordiniProcess]
HERE = Path(__file__).parent
SORDINI = str(Path(sys.prefix) / "bin" / "sordini")
SMALL: dict[str, object] = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}
PATIENT: dict[str, object] = {"zookeeper.session.timeout.ms": 10_000}
LOG4J = HERE.parent / "outside" / "log4j.properties"


def test_no_record_is_lost_or_repeated_though_the_mirror_and_brokers_are_killed(
    start_sordini: Start, tmp_path: Path
) -> None:
    sources = {"east": start_sordini(SMALL), "west": start_sordini(SMALL)}
    kills = [Kill(60, "mirror"), Kill(60, "east"), Kill(60, "target"), Kill(60, "mirror")]
    found = run(tmp_path, sources, start_sordini(SMALL), kills)
    assert min(len(values) for contents in found.values() for values in contents.values()) > 20


@pytest.mark.long_mirror
def test_no_record_is_lost_or_repeated_in_fifty_kills(start_sordini: Start, zookeeper: str, tmp_path: Path) -> None:
    """One of the sources is Apache Kafka."""
    with ApacheKafkaProcess(tmp_path / "west", f"{zookeeper}/mirror-kills", PATIENT) as west:
        sources = {"east": start_sordini(), "west": west}
        run(tmp_path, sources, start_sordini(), drawn(SEED, list(sources), KILLS))


@pytest.mark.long_mirror
def test_apache_kafka_is_a_target_as_well(start_sordini: Start, zookeeper: str, tmp_path: Path) -> None:
    with ApacheKafkaProcess(tmp_path / "central", f"{zookeeper}/mirror-target", PATIENT) as central:
        run(
            tmp_path,
            {"east": start_sordini()},
            central,
            [Kill(100, "mirror"), Kill(100, "target"), Kill(100, "mirror")],
        )


@pytest.mark.long_mirror
def test_a_mirror_goes_on_where_mirrormaker_2_stopped(start_sordini: Start, tmp_path: Path) -> None:
    east, central = start_sordini(SMALL), start_sordini(SMALL)
    create(east.bootstrap)
    sent = [str(number) for number in range(300)]

    def produce(values: list[str]) -> None:
        producer = Producer({"bootstrap.servers": east.bootstrap})
        for value in values:
            producer.produce(TOPIC, value, partition=0)
        assert producer.flush(30) == 0

    produce(sent[:200])
    with MirrorMakerProcess(tmp_path / "mirror-maker", east.bootstrap, central.bootstrap):
        collector = Collector(central.bootstrap, [f"east.{TOPIC}"])
        collector.until(200)
        collector.close()
    produce(sent[200:])
    with MirrorProcess(tmp_path / "mirror", settings(central.bootstrap, {"east": east.bootstrap})):
        collector = Collector(central.bootstrap, [f"east.{TOPIC}"])
        collector.until(300)
        collector.close()
    assert contents_of(central.bootstrap, f"east.{TOPIC}") == {0: sent, 1: [], 2: []}


@pytest.mark.long_mirror
@pytest.mark.parametrize("naming", ["prefix", "merge"])
def test_two_ways_for_minutes_never_loop(start_sordini: Start, tmp_path: Path, naming: str) -> None:
    east, central = start_sordini(), start_sordini()
    for broker in (east, central):
        create(broker.bootstrap)
    forth = settings(central.bootstrap, {"east": east.bootstrap}, naming=naming)
    back = settings(east.bootstrap, {"central": central.bootstrap}, naming=naming)
    back["target"]["alias"] = "east"
    with MirrorProcess(tmp_path / "forth", forth), MirrorProcess(tmp_path / "back", back):
        with Numbers("e", east.bootstrap), Numbers("c", central.bootstrap):
            time.sleep(60 * MINUTES)  # What is tested is that nothing happens meanwhile.
        for mirror in ("forth", "back"):
            words = [SORDINI, "mirror", "status", str(tmp_path / mirror / "mirror.yaml"), "--wait", "60"]
            subprocess.run(words, check=True, timeout=120)
        # Once more: what loops now would come with the next commit.
        subprocess.run([*words, "--wait", "5"], check=True, timeout=120)
    own = {"e": numbered(east.bootstrap, "e"), "c": numbered(central.bootstrap, "c")}
    for broker, letter, other in ((east, "e", "c"), (central, "c", "e")):
        copied = TOPIC if naming == "merge" else f"{'central' if other == 'c' else 'east'}.{TOPIC}"
        found = contents_of(broker.bootstrap, copied)
        for partition, values in found.items():
            assert [value for value in values if value.startswith(other)] == own[other][partition]
            assert len(values) == len(set(values))
        assert numbered(broker.bootstrap, letter) == own[letter]


def numbered(bootstrap: str, alias: str) -> Contents:
    """What was produced at a site itself, as the site has it."""
    found = contents_of(bootstrap, TOPIC)
    return {number: [value for value in values if value.startswith(alias)] for number, values in found.items()}


class Site:
    """One source, one target, and a mirror between them."""

    def __init__(self, directory: Path, source: SordiniProcess, target: SordiniProcess, **others: Any) -> None:
        self.source = source
        self.target = target
        self.mirror = MirrorProcess(directory, settings(target.bootstrap, {"east": source.bootstrap}, **others))

    def produce(self, count: int) -> None:
        producer = Producer({"bootstrap.servers": self.source.bootstrap})
        for number in range(count):
            producer.produce("orders", str(number), partition=0)
        assert producer.flush(30) == 0

    def commit(self, group: str, offset: int) -> None:
        member = Consumer({"bootstrap.servers": self.source.bootstrap, "group.id": group})
        member.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
        member.close()

    def report(self, command: str, *options: str) -> Any:
        words = [SORDINI, "mirror", command, str(self.mirror.file), *options]
        done = subprocess.run([*words, "--json"], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        readable = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout
        assert readable.startswith("SOURCE")
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Brokers and a mirror that the tests share; what one commits is there for the others."""
    home = tmp_path_factory.mktemp("mirror")
    two = {**SMALL, "num.partitions": 2}  # Of which the second has no records.
    with SordiniProcess(home / "east", two) as east, SordiniProcess(home / "central", SMALL) as central:
        made = Site(home / "mirror", east, central, metrics="127.0.0.1:0")
        made.produce(100)
        made.commit("billing", 40)
        with made.mirror:
            yield made


def test_a_running_mirror_reports_and_measures(site: Site) -> None:
    site.report("status", "--wait", "60")
    eventually(lambda: site.report("status")[0]["heartbeat"])
    (row,) = site.report("status")
    assert row.pop("heartbeat").startswith("20")
    assert row == {
        "source": "east",
        "topic": "orders",
        "target": "east.orders",
        "partitions": 2,
        "copied": 2,
        "behind": 0,
    }
    wanted = {
        "source": "east",
        "group": "billing",
        "topic": "east.orders",
        "partition": 0,
        "upstream": 40,
        "downstream": 40,
        "committed": 40,
    }
    eventually(lambda: any(row["committed"] for row in site.report("groups")))
    assert site.report("groups") == [wanted]
    address = re.search(r"metrics at (http://\S+)", site.mirror.output())
    assert address is not None
    text = urllib.request.urlopen(address[1], timeout=20).read().decode()
    assert 'sordini_mirror_lag_records{partition="0",source="east",topic="orders"} 0.0' in text
    assert 'sordini_mirror_exactly_once{source="east"} 1.0' in text
    copied = re.search(r'^sordini_mirror_records_total\{source="east"\} (\S+)$', text, re.MULTILINE)
    assert copied is not None
    assert float(copied[1]) >= 100


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM])
def test_a_signal_lets_the_mirror_end_in_order(site: Site, number: int) -> None:
    os.kill(site.mirror.pid, number)
    try:
        assert site.mirror.wait_for_exit(20) == 0
        assert re.search(r"^sordini: east: [\d,]+ records copied, [\d,]+ behind$", site.mirror.output(), re.MULTILINE)
    finally:
        site.mirror.start()


def groups_of(site: Site) -> list[dict[str, Any]]:
    words = [str(Path(sys.prefix) / "bin" / "sordini"), "mirror", "groups", str(site.mirror.file), "--json"]
    found: list[dict[str, Any]] = json.loads(subprocess.run(words, capture_output=True, timeout=60, check=True).stdout)
    return found


@pytest.mark.slow
def test_java_s_remote_cluster_utils_read_what_the_mirror_writes(site: Site) -> None:
    jars = need_mirror_maker()
    eventually(lambda: site.report("groups"))
    program = [
        sys.executable,
        str(HERE / "java_mirror_client.py"),
        site.target.bootstrap,
        "east",
        "billing",
        str(LOG4J),
    ]
    done = subprocess.run([*program, *map(str, jars)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "offsets": {"east.orders-0": 40},
        "upstream": ["east"],
        "hops": 1,
        "heartbeats": ["east.heartbeats", "heartbeats"],
        "checkpoints": ["east.checkpoints.internal"],
    }
