"""docker-compose.yml and `make cluster`: one cluster with the same commands and settings, in containers and without."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from dockerfile_parse import DockerfileParser

from scripts import base_images, cluster
from sordini.broker.configuration.config import Config, build_config
from sordini.broker.configuration.environment import environment_entries, key_of
from sordini.broker.configuration.properties_file import read_properties
from tests.outside.ports import PORTS_END, free_port, is_listening
from tests.outside.processes import OutsideProcess

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = ROOT / "config" / "cluster"
MOUNTED = "/etc/sordini/cluster"
BROKERS = (1, 2, 3)
PROCESSES = tuple(f"{kind}-{number}" for kind in ("broker", "zookeeper") for number in BROKERS)
DEFAULTS = cluster.options_of([])
EVERYTHING = bool(os.environ.get("SORDINI_MIXED"))

ZOOKEEPER_KEYS = {
    "ZOO_TICK_TIME": "tickTime",
    "ZOO_INIT_LIMIT": "initLimit",
    "ZOO_SYNC_LIMIT": "syncLimit",
    "ZOO_MAX_CLIENT_CNXNS": "maxClientCnxns",
    "ZOO_AUTOPURGE_PURGEINTERVAL": "autopurge.purgeInterval",
    "ZOO_AUTOPURGE_SNAPRETAINCOUNT": "autopurge.snapRetainCount",
    "ZOO_ADMINSERVER_ENABLED": "admin.enableServer",
    "ZOO_4LW_COMMANDS_WHITELIST": "4lw.commands.whitelist",
}
"""The image's variables, and what its start script writes for each into ZooKeeper's settings."""
PLACES_OF_ZOOKEEPER = ("ZOO_CONF_DIR", "ZOOCFGDIR", "SERVER_JVMFLAGS", "ZK_SERVER_HEAP")
"""Where settings are, and how large the JVM gets: what only a container has."""


@cache
def compose(variables: tuple[tuple[str, str], ...] = ()) -> dict[str, Any]:
    """The file as Docker Compose reads it, with these variables."""
    given = dict(variables)
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    filled = re.sub(r"\$\{(\w+):-([^}]*)\}", lambda found: given.get(found[1]) or found[2], text)
    assert "$" not in filled
    value: dict[str, Any] = yaml.safe_load(filled)
    return value


def service(name: str) -> dict[str, Any]:
    found: dict[str, Any] = compose()["services"][name]
    return found


def of_file(number: int) -> dict[str, str]:
    return read_properties((SETTINGS / f"broker-{number}.properties").read_text(encoding="utf-8"))


def in_container(number: int) -> Config:
    image = {
        name: text
        for name, text in DockerfileParser(path=str(ROOT / "Dockerfile")).envs.items()
        if name.startswith("KAFKA_") or name == "SORDINI_ADVERTISED_HOST"
    }
    settings = image | service(f"broker-{number}")["environment"]
    # The bootstrap server of commands in the container, such as the health check: it advertises container addresses.
    assert settings.pop("SORDINI_BOOTSTRAP") == f"broker-{number}:29092"
    assert [name for name in settings if key_of(name) is None] == []
    config, unknown = build_config({**of_file(number), **environment_entries(settings)})
    assert unknown == []
    return config


def ensemble_variables() -> dict[str, str]:
    lines = (SETTINGS / "ensemble.env").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("=", 1) for line in lines if line and not line.startswith("#"))
    return {name: shlex.split(text)[0] for name, text in pairs}


def test_there_are_three_brokers_and_one_zookeeper_or_with_the_ensembles_variables_three() -> None:
    """By `scale`, and no service has a profile: `docker compose down` stops all, whatever variables it is given."""
    scales = {name: one.get("scale", 1) for name, one in compose()["services"].items()}
    assert scales == {**dict.fromkeys(PROCESSES, 1), "zookeeper-2": 0, "zookeeper-3": 0}
    ensemble = compose(tuple(sorted(ensemble_variables().items())))["services"]
    assert {name: one.get("scale", 1) for name, one in ensemble.items()} == dict.fromkeys(PROCESSES, 1)
    assert not any("profiles" in one for one in ensemble.values())
    assert not any(name.startswith("COMPOSE_") for name in ensemble_variables())
    waited_for = {name for one in ensemble.values() for name in one.get("depends_on", {})}
    assert waited_for == {"zookeeper-1"}, "Compose fails where a service waits for one of which there is none"


@pytest.mark.parametrize("name", PROCESSES)
def test_a_container_is_confined(name: str) -> None:
    one = service(name)
    assert (one["read_only"], one["cap_drop"], one["security_opt"]) == (True, ["ALL"], ["no-new-privileges:true"])
    assert one["pids_limit"] <= 512
    assert int(one["mem_limit"].rstrip("mg")) * {"m": 1, "g": 1024}[one["mem_limit"][-1]] <= 1024
    assert "privileged" not in one
    assert "cap_add" not in one
    assert all(mount.endswith(":ro") for mount in one["volumes"] if mount.startswith("."))


@pytest.mark.parametrize("number", BROKERS)
def test_a_zookeeper_is_its_images_user_and_may_write_what_it_has_to(number: int) -> None:
    """The start script gives root up by itself, which takes capabilities; started as its user it writes as that."""
    one = service(f"zookeeper-{number}")
    assert one["user"] == "1000:1000"
    places = {place: options.split(",") for place, _, options in (entry.partition(":") for entry in one["tmpfs"])}
    settings = one["environment"]
    assert settings["ZOO_CONF_DIR"] == settings["ZOOCFGDIR"] in places, "each start writes its settings"
    own = (settings["ZOO_CONF_DIR"], "/logs")  # /logs is a volume of the image; without a name it would outlive `down`.
    assert all({"uid=1000", "gid=1000", "mode=0700"} <= set(places[place]) for place in own)
    assert set(places) == {*own, "/tmp"}
    volumes = {mount.split(":")[1] for mount in one["volumes"]}
    assert volumes == {"/data", "/datalog"}
    assert "-Dlogback.configurationFile=/conf/logback.xml" in settings["SERVER_JVMFLAGS"], (
        "the image's, not in ZOOCFGDIR"
    )
    assert int(settings["ZK_SERVER_HEAP"]) + 200 < int(one["mem_limit"].removesuffix("m"))


def test_every_image_that_is_fetched_has_its_digest_in_one_place() -> None:
    found = list(base_images.pins(ROOT))
    assert [pin.tag for pin in found] == ["python:3.11-slim", "zookeeper:3.8"]
    images = {one["image"] for one in compose()["services"].values()}
    assert images == {"sordini", str(found[1])}
    assert "# syntax=" not in (ROOT / "Dockerfile").read_text(encoding="utf-8"), "which is an image, too"


REGISTRY = """#!/bin/sh
# In the place of Docker: what a registry knows, a file for each name.
[ "$1 $2 $3 $5 $6" = "buildx imagetools inspect --format {{.Manifest.Digest}}" ] || exit 64
cat "$(dirname "$0")/registry/$(echo "$4" | tr / _)"
"""


def test_the_script_for_base_images_compares_tags_with_digests_and_writes_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in base_images.FILES:
        shutil.copy(ROOT / file, tmp_path / file)
    (tmp_path / "docker").write_text(REGISTRY)
    (tmp_path / "docker").chmod(0o755)
    registry = tmp_path / "registry"
    registry.mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    python, zookeeper = base_images.pins(ROOT)
    assert base_images.main([], tmp_path) == base_images.UNKNOWN
    assert "No such file" in capsys.readouterr().err
    for pin in (python, zookeeper):
        (registry / str(pin)).write_text(f"{pin.digest}\n")
        (registry / pin.tag).write_text(f"{pin.digest}\n")
    assert base_images.main([], tmp_path) == base_images.CURRENT
    newer = f"sha256:{'5' * 64}"
    (registry / python.tag).write_text(f"{newer}\n")
    assert base_images.main([], tmp_path) == base_images.MOVED
    assert f"points to {newer}" in capsys.readouterr().out
    assert list(base_images.pins(tmp_path)) == [python, zookeeper]
    assert base_images.main(["--write"], tmp_path) == base_images.MOVED
    assert list(base_images.pins(tmp_path)) == [python._replace(digest=newer), zookeeper]


@pytest.mark.parametrize("number", BROKERS)
def test_a_broker_has_the_same_command_in_a_container_and_as_a_process(number: int) -> None:
    entry = [
        row["value"]
        for row in DockerfileParser(path=str(ROOT / "Dockerfile")).structure
        if row["instruction"] == "ENTRYPOINT"
    ][-1]  # Of the last stage, which a build without a target makes.
    one = service(f"broker-{number}")
    assert f"./config/cluster:{MOUNTED}:ro" in one["volumes"]
    command = [word.replace(MOUNTED, "config/cluster") for word in [*json.loads(entry), *one["command"]]]
    assert command == cluster.broker(DEFAULTS, number).command


@pytest.mark.parametrize("number", BROKERS)
def test_the_file_alone_says_what_make_cluster_says(number: int) -> None:
    settings = environment_entries(cluster.broker(DEFAULTS, number).environment)
    assert settings.items() <= of_file(number).items()


def test_the_files_differ_in_id_and_places_only() -> None:
    own = {"broker.id", "listeners", "log.dirs"}
    common = [{key: text for key, text in of_file(number).items() if key not in own} for number in BROKERS]
    assert common[0] == common[1] == common[2]
    assert [of_file(number)["broker.id"] for number in BROKERS] == ["1", "2", "3"]
    assert (common[0]["default.replication.factor"], common[0]["min.insync.replicas"]) == ("3", "2")


@pytest.mark.parametrize("number", BROKERS)
def test_a_container_serves_clients_inside_and_outside_and_brokers_apart(number: int) -> None:
    config, one = in_container(number), service(f"broker-{number}")
    assert config.broker_id == number
    assert {end.port for end in config.endpoints} == {9092, 19092, 29092}
    listeners = dict(entry.split("://") for entry in (config.advertised_listeners or "").split(","))
    assert listeners == {
        "CLIENTS": f"127.0.0.1:{9091 + number}",
        "BROKERS": f"broker-{number}:19092",
        "CONTAINERS": f"broker-{number}:29092",
    }
    assert config.inter_broker_listener == "BROKERS"
    assert one["ports"] == [f"127.0.0.1:{9091 + number}:9092"], "open to this machine only, without authentication"
    assert config.zookeeper_connect == "zookeeper-1:2181/sordini"
    (directory,) = config.log_directories
    assert f"broker-{number}:{directory}" in one["volumes"]


@pytest.mark.parametrize("number", BROKERS)
def test_a_container_may_take_as_long_to_stop_as_the_broker(number: int) -> None:
    one = service(f"broker-{number}")
    assert int(one["stop_grace_period"].removesuffix("s")) * 1000 > in_container(number).shutdown_deadline_ms
    assert one["depends_on"] == {"zookeeper-1": {"condition": "service_healthy"}}
    assert "healthcheck" not in one, "the image's connects to SORDINI_BOOTSTRAP"


def test_data_is_on_volumes_that_are_declared_once_and_used_once() -> None:
    mounts = [mount.split(":")[0] for one in compose()["services"].values() for mount in one["volumes"]]
    named = [source for source in mounts if not source.startswith(".")]
    assert sorted(named) == sorted(compose()["volumes"])


def test_zookeeper_settings_are_equal_in_containers_and_as_processes() -> None:
    common = read_properties((SETTINGS / "zookeeper.properties").read_text(encoding="utf-8"))
    for number in BROKERS:
        one = service(f"zookeeper-{number}")
        settings = {name: text for name, text in one["environment"].items() if name not in PLACES_OF_ZOOKEEPER}
        assert settings.pop("ZOO_MY_ID") == str(number)
        assert settings.pop("ZOO_SERVERS") == ""
        assert {ZOOKEEPER_KEYS[name]: text for name, text in settings.items()} == common
        assert one["healthcheck"]["test"] == ["CMD", "zkServer.sh", "status"]
    # A session of a broker must be one that ZooKeeper grants: two ticks at the least.
    assert in_container(1).zookeeper_session_timeout_ms >= 2 * int(common["tickTime"])


def test_the_ensembles_variables_name_each_zookeeper_to_all_others_and_to_the_brokers() -> None:
    variables = ensemble_variables()
    services = compose(tuple(sorted(variables.items())))["services"]
    for number in BROKERS:
        connect = services[f"broker-{number}"]["environment"]["KAFKA_ZOOKEEPER_CONNECT"]
        assert connect == "zookeeper-1:2181,zookeeper-2:2181,zookeeper-3:2181/sordini"
        members = services[f"zookeeper-{number}"]["environment"]["ZOO_SERVERS"].split()
        assert members == [f"server.{other}=zookeeper-{other}:2888:3888;2181" for other in BROKERS]


def ports_in_a_row() -> int:
    """The first of three free ports, each with a free one 10,000 above it: there, too, below those of connections."""
    while True:
        first = free_port()
        if first + 10_002 < PORTS_END and not any(
            is_listening(first + beyond + step) for beyond in (0, 10_000) for step in range(3)
        ):
            return first


class MakeCluster(OutsideProcess):
    """What `make cluster` runs, beside whatever is on this machine."""

    name = "make-cluster"
    start_seconds_max = 120.0
    stop_seconds_max = 60.0

    def __init__(self, directory: Path, *options: str) -> None:
        super().__init__(directory)
        self._options = options
        self.port = ports_in_a_row()

    def environment(self) -> dict[str, str]:
        """A broker that was killed is soon given up."""
        return {**os.environ, "KAFKA_ZOOKEEPER_SESSION_TIMEOUT_MS": "2000"}

    def command(self) -> list[str]:
        own = ["--directory", str(self.directory / "data"), "--port", str(self.port), *self._options]
        return [sys.executable, str(ROOT / "scripts" / "cluster.py"), *own]

    def is_ready(self) -> bool:
        return "three brokers are ready" in self.output()

    def sordini(self, *arguments: str, given: str = "") -> str:
        """A command of ours on the cluster; what it prints."""
        program = str(Path(sys.prefix) / "bin" / "sordini")
        environment = {**os.environ, "SORDINI_BOOTSTRAP": self.bootstrap}
        done = subprocess.run(
            [program, *arguments], input=given, capture_output=True, text=True, timeout=60, check=False, env=environment
        )
        assert done.returncode == 0, f"{arguments}\n{done.stderr}\n{self.tail()}"
        return done.stdout

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{self.port + number - 1}" for number in BROKERS)

    def started(self) -> Mapping[str, int]:
        """Process ids by name."""
        return {name: int(pid) for name, pid in re.findall(r"^(\S+) is process (\d+)", self.output(), re.MULTILINE)}


def test_a_broker_of_make_cluster_may_be_killed_and_started_again_and_ctrl_c_ends_all(
    zookeeper: str, tmp_path: Path
) -> None:
    cluster_of_three = MakeCluster(tmp_path / "cluster", "--zookeeper", f"{zookeeper}/make-cluster-{os.getpid()}")
    again: subprocess.Popen[bytes] | None = None
    try:
        with cluster_of_three as made:
            made.sordini("topics", "create", "orders")
            made.sordini("produce", "orders", given="1 pear\n2 figs\n")
            os.kill(made.started()["broker-2"], signal.SIGKILL)
            made.wait_until(lambda: "broker-2 has ended with status -9" in made.output(), 10, "say so")
            assert sorted(made.sordini("consume", "orders", "--from", "beginning", "--max-messages", "2").split()) == [
                "1",
                "2",
                "figs",
                "pear",
            ]
            (line,) = re.findall(r"^  (cd .*)$", made.output(), re.MULTILINE)
            log = tmp_path / "again.log"
            with log.open("wb") as output:
                again = subprocess.Popen(
                    ["bash", "-c", line], stdout=output, env=made.environment(), start_new_session=True
                )
            made.wait_until(lambda: "sordini is ready: broker 2" in log.read_text(), 30, "have broker 2 again")
            os.kill(made.pid, signal.SIGINT)
            assert made.wait_for_exit(60) == 0, made.tail()
            for name in ("broker-1", "broker-3"):
                assert f"{name} has ended with status 0" in made.output()
    finally:
        if again is not None:
            os.killpg(again.pid, signal.SIGKILL)
            again.wait(10)


@pytest.mark.skipif(not EVERYTHING, reason="three ZooKeepers more: with SORDINI_MIXED=all")
def test_make_cluster_starts_an_ensemble_and_finds_everything_again(tmp_path: Path) -> None:
    options = ("--zookeepers", "3", "--zookeeper-port", str(ports_in_a_row()))
    with MakeCluster(tmp_path / "cluster", *options) as made:
        assert set(made.started()) == {f"{kind}-{number}" for kind in ("zookeeper", "broker") for number in BROKERS}
        made.sordini("topics", "create", "orders")
        made.sordini("produce", "orders", given="1 pear\n")
        os.kill(made.pid, signal.SIGINT)
        assert made.wait_for_exit(60) == 0, made.tail()
        made.start()
        assert made.sordini("consume", "orders", "--from", "beginning", "--max-messages", "1").strip() == "1 pear"
        made.terminate()
        assert made.wait_for_exit(60) == 0, made.tail()
