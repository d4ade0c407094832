"""docs/cluster.md's recipes, followed by an operator: the cluster is well after each, and no record is lost.

One cluster goes through them all: begun in one process, moved to a ZooKeeper, upgraded, and its brokers replaced.
`make mixed` follows those that take longer, too.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.conftest import EVERYTHING
from tests.cluster.recipes import ENDLESS, ROOT, Machine, Operator, recipes
from tests.outside.ports import free_port
from tests.outside.processes import DevProcess, ProcessError
from tests.process.test_cluster_commands import ports_in_a_row

PAGE = recipes(ROOT / "docs" / "cluster.md")
IN_ONE_PROCESS, WATCHING, REBALANCES = "In one process", "Watching it", "Why a group rebalances"
UPGRADING, REPLACING = "Upgrading, one broker at a time", "Replacing a broker"
ONE_TO_THREE = "From one broker to three"
ELSEWHERE = {
    "As processes": "tests/process/test_cluster_commands.py",
    "In containers": "examples/ci/containers.yml",
}
"""Who follows the others."""
FILE = "/etc/sordini/server.properties"
SERVE, STOP = f"sordini serve {FILE} --daemon", f"sordini stop {FILE}"
CHECK = "sordini cluster status --check --wait 600"
QUICK: dict[str, object] = {
    "zookeeper.session.timeout.ms": 2_000,
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 5,
    "default.replication.factor": 3,
}
MOVED = "An earlier coordinator may have."
long = pytest.mark.skipif(not EVERYTHING, reason="sessions have to expire, or brokers of their own: SORDINI_MIXED=all")


class Site:
    """An operator, the machines of a cluster by broker id, and the topics `orders` and `payments` with their records."""

    def __init__(self, directory: Path, zookeeper: str) -> None:
        self.connect = f"{zookeeper}/{directory.name}"
        self.directory = directory
        self.machines: dict[int, Machine] = {}
        self.operator = Operator(directory, "", {"127.0.0.1:2181/sordini": self.connect})

    def machine(self, broker_id: int, port: int | None = None, **settings: object) -> Machine:
        """A machine for a broker; its log directory may be another one's, its port too."""
        given = {
            **QUICK,
            "broker.id": broker_id,
            "listeners": f"PLAINTEXT://127.0.0.1:{port or free_port()}",
            "zookeeper.connect": self.connect,
            **settings,
        }
        made = Machine(self.directory / f"machine-{len(self.operator.machines)}", given)
        self.operator.machines.append(made)
        self.machines[broker_id] = made
        self.operator.bootstrap = ",".join(
            str(one.settings["listeners"]).removeprefix("PLAINTEXT://") for one in self.machines.values()
        )
        return made

    def at(self, broker_id: int) -> None:
        """Follow recipes on this broker's machine from now on."""
        self.operator.places[FILE] = str(self.machines[broker_id].properties)

    def start_all(self) -> None:
        serving = [f"sordini serve {machine.properties} --daemon &" for machine in self.machines.values()]
        self.operator.run(" ".join([*serving, "wait"]))
        for machine in self.machines.values():
            assert "ready" in machine.daemon_log, machine.daemon_log

    def write(self, *topics: str) -> None:
        for topic in topics:
            self.operator.run(f"sordini topics create {topic} --partitions 3; seq 1 1000 | sordini produce {topic}")

    def verify(self, *topics: str) -> str:
        """Every record is there, and the cluster is well: its status."""
        status = self.operator.run("sordini cluster status --check --wait 60")
        for topic in topics:
            read = self.operator.run(f"sordini consume {topic} --from beginning --max-messages 1000")
            assert sorted(map(int, read.split())) == list(range(1, 1001)), topic
        return status


@pytest.fixture(scope="module")
def site(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Three daemons that were begun with `sordini dev`, by the recipe; and a consumer group has read there."""
    made = Site(tmp_path_factory.mktemp("recipes"), zookeeper)
    operator = made.operator
    with operator:
        # The daemons get the same ports afterwards: none that the system may give to others meanwhile.
        options = ("--port", str(ports_in_a_row()), "--override", "offsets.topic.num.partitions=1")
        with DevProcess(made.directory / "dev", *options) as dev:
            operator.bootstrap = dev.bootstrap
            made.write("orders", "payments")
            operator.run("sordini consume orders --group readers --from beginning --max-messages 1000")
            data, ports = dev.directory / "data", dev.ports
            assert dev.stop() == 0
        operator.places["data/dev"] = str(data)

        def serve() -> None:
            # The page has broker 1; its options become the file of each machine.
            (line,) = (line for line in PAGE[IN_ONE_PROCESS] if line.startswith("sordini serve"))
            for number, port in enumerate(ports, 1):
                words = line.replace("broker.id=1", f"broker.id={number}").replace("broker-1", f"broker-{number}")
                for text, here in operator.places.items():
                    words = words.replace(text, here)
                pairs = dict(word.split("=", 1) for word in words.split() if "=" in word)
                assert pairs.keys() == {"broker.id", "log.dirs", "zookeeper.connect"}
                made.machine(number, port, **pairs)
            made.start_all()

        serving = {line: serve for line in PAGE[IN_ONE_PROCESS] if line.startswith("sordini serve")}
        operator.follow(PAGE[IN_ONE_PROCESS], {"sordini dev": None, **serving})
        yield made


def test_every_recipe_of_the_page_is_followed_and_none_waits_for_ever() -> None:
    assert PAGE.keys() == {IN_ONE_PROCESS, WATCHING, REBALANCES, UPGRADING, REPLACING, ONE_TO_THREE, *ELSEWHERE}
    assert [line for lines in PAGE.values() for line in lines if ENDLESS.search(line)] == []
    assert all((ROOT / place).exists() for place in ELSEWHERE.values())


def test_an_unknown_line_a_stale_substitution_and_a_failing_line_fail(tmp_path: Path) -> None:
    operator = Operator(tmp_path, "127.0.0.1:1", {})
    with pytest.raises(AssertionError, match="neither a command of ours nor in the table"):
        operator.follow(["systemctl restart sordini"])
    with pytest.raises(AssertionError, match="may wait for ever"):
        operator.follow(["sordini ping || sleep 5"])
    with pytest.raises(AssertionError, match="no line of the recipe"):
        operator.follow([], {"pip install ../sordini": None})
    with pytest.raises(ProcessError, match=r"ended with 1, not 0\n.*127\.0\.0\.1"):
        operator.follow(["sordini cluster status --check --wait 0.1 --timeout 1"])


def test_what_was_begun_in_one_process_goes_on_as_a_cluster_and_is_watched(site: Site) -> None:
    site.operator.run("sordini cluster status --check --wait 60")  # The brokers have just started.
    site.operator.follow(PAGE[WATCHING])
    assert "0 without a leader, 0 under-replicated" in site.operator.outputs["sordini cluster status"]
    assert "1,2,3" in site.operator.outputs["sordini topics describe orders"]
    assert "readers" in site.operator.run("sordini groups list")


def test_the_history_of_a_group_tells_who_caused_its_rebalances(site: Site) -> None:
    for _ in range(5):
        site.operator.run("sordini consume orders --group billing --from beginning --max-messages 1")
        site.operator.follow(PAGE[REBALANCES])
        found = site.operator.outputs["sordini groups history billing"]
        if MOVED not in found:  # It goes to its preferred replica once, seconds after the controller's election.
            break
    assert "joined: " in found


def test_brokers_are_upgraded_one_at_a_time_and_a_check_that_waits_in_vain_says_what_is_not_well(site: Site) -> None:
    def while_it_is_stopped() -> None:
        reported = site.operator.run("sordini cluster status --check --wait 0.5", status=1)
        assert "after 0.5 s" in reported
        assert "orders-0" in reported, "which partition lacks what"

    for broker_id in site.machines if EVERYTHING else [2]:
        site.at(broker_id)
        site.operator.follow(PAGE[UPGRADING], {"pip install --upgrade ../sordini": while_it_is_stopped})
        if EVERYTHING:
            site.verify("orders", "payments")


def test_a_broker_is_replaced_for_good_by_one_with_another_id(site: Site) -> None:
    site.machine(4)
    site.at(4)
    site.operator.run(SERVE)
    site.at(1)
    for_good = PAGE[REPLACING][-4:]
    assert for_good[-1] == STOP
    plan = next(line for line in for_good if " generate " in line)
    # Stopping broker 1 last is what the recipe is for: before, the plan must be carried out.
    site.operator.follow(for_good)
    assert site.operator.outputs[plan] == ""
    site.operator.bootstrap = site.operator.bootstrap.partition(",")[2]
    del site.machines[1]
    assert "\n1 " not in site.verify("orders", "payments"), "nothing is left on broker 1"


@long
def test_the_disks_move_to_a_new_machine(site: Site) -> None:
    moved = [line for line in PAGE[REPLACING] if line in (SERVE, CHECK)][:2]
    assert moved == [SERVE, CHECK]
    site.at(2)
    site.operator.run(STOP)
    old = site.machines[2]
    new = site.machine(2, **{"log.dirs": old.directory / "moved"})
    shutil.move(str(old.settings["log.dirs"]), str(new.settings["log.dirs"]))
    site.at(2)
    site.operator.follow(moved)
    site.verify("orders", "payments")


@long
def test_a_broker_without_its_disks_gets_everything_from_the_others(site: Site) -> None:
    begin = PAGE[REPLACING].index("sordini cluster status")
    gone = PAGE[REPLACING][begin : begin + 3]
    assert gone[1] == SERVE
    machine = site.machines[3]
    data = Path(str(machine.settings["log.dirs"]))
    machine.end_daemon()
    shutil.rmtree(data)
    site.at(3)

    def until_it_is_gone() -> None:
        for _ in range(60):
            if " gone " in site.operator.run("sordini cluster status"):
                return
        raise AssertionError(site.operator.run("sordini cluster status"))

    site.operator.follow(gone, {"sordini cluster status": until_it_is_gone})
    site.verify("orders", "payments")


@long
def test_one_broker_becomes_three(zookeeper: str, tmp_path: Path) -> None:
    site = Site(tmp_path, zookeeper)
    operator = site.operator
    with operator:
        first = site.machine(1, **{"default.replication.factor": 1, "offsets.topic.replication.factor": 1})
        del first.settings["zookeeper.connect"]
        first.write()
        operator.run(f"sordini serve {first.properties} --daemon")
        site.write("orders")
        operator.run("sordini consume orders --group readers --from beginning --max-messages 1000")
        lines = PAGE[ONE_TO_THREE]
        operator.places |= {
            "zk-1:2181,zk-2:2181,zk-3:2181/sordini": site.connect,
            "embedded:data": f"embedded:{first.data}",
            " server.properties": f" {first.properties}",
        }
        operator.follow(lines[:2])
        first.settings |= {"zookeeper.connect": site.connect, "default.replication.factor": 3}
        first.write()
        site.machine(2)
        site.machine(3)
        site.start_all()
        operator.follow(lines[2:])
        site.verify("orders")
        assert "2" in operator.run("sordini configs describe --topic orders | grep min.insync.replicas")
        assert "1,2,3" in operator.run("sordini topics describe __consumer_offsets")
