"""One broker in a container: what an operator relies on."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from tests.docker.engine import Engine

CONFINED = ("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")
# The image's own check, so that a change of it is seen in seconds.
QUICK_CHECKS = ("--health-interval", "500ms", "--health-timeout", "5s", "--health-retries", "2")


def start(engine: Engine, *options: str, name: str = "broker") -> str:
    engine.docker("run", "--detach", "--name", name, *CONFINED, *QUICK_CHECKS, *options, "sordini")
    engine.wait_for(name, "State.Health.Status", "healthy")
    return name


def host(engine: Engine, script: str) -> str:
    """A shell script of "this machine"."""
    return engine.run("bash", "-e", "-o", "pipefail", "-c", script)


def process_of(engine: Engine, container: str) -> str:
    return engine.inspect(container, "State.Pid")


def test_clients_on_the_host_and_in_other_containers_reach_it(engine: Engine) -> None:
    engine.docker("network", "create", "shop")
    advertised = "HOST://localhost:9092,SHOP://broker:29092"
    start(
        engine, "--network", "shop", "-p", "9092:9092",
        "-e", "KAFKA_LISTENERS=HOST://:9092,SHOP://:29092",
        "-e", f"KAFKA_ADVERTISED_LISTENERS={advertised}",
        "-e", "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=HOST:PLAINTEXT,SHOP:PLAINTEXT",
        "-e", "KAFKA_INTER_BROKER_LISTENER_NAME=SHOP",
    )  # fmt: skip
    host(engine, "echo 'from the host' | kcat -P -b localhost:9092 -t orders")
    consumed = engine.docker(
        "run", "--rm", "--network", "shop", *CONFINED, "sordini",
        "consume", "orders", "--from", "beginning", "--max-messages", "1", "-b", "broker:29092",
    )  # fmt: skip
    assert "from the host" in consumed


def test_it_turns_unhealthy_when_the_broker_hangs_and_healthy_when_it_runs_on(engine: Engine) -> None:
    start(engine)
    pid = process_of(engine, "broker")
    engine.run("kill", "-STOP", pid)
    engine.wait_for("broker", "State.Health.Status", "unhealthy")
    engine.run("kill", "-CONT", pid)
    engine.wait_for("broker", "State.Health.Status", "healthy")


@pytest.mark.parametrize("policy", ["on-failure", "unless-stopped"])
def test_it_is_started_again_when_the_process_inside_is_killed(engine: Engine, policy: str) -> None:
    start(engine, "--restart", policy, "-p", "9092:9092", "-v", "orders:/var/lib/sordini")
    host(engine, "echo kept | kcat -P -b localhost:9092 -t orders")
    engine.run("kill", "-KILL", process_of(engine, "broker"))
    # The health of the new process, and not the last one of the old.
    engine.wait_for("broker", "RestartCount", "1")
    engine.wait_for("broker", "State.Running", "true")
    engine.wait_for("broker", "State.Health.Status", "healthy")
    assert process_of(engine, "broker") != "0"
    assert "kept" in host(engine, "kcat -C -b localhost:9092 -t orders -c 1 -e")


def test_sigterm_stops_it_within_the_grace_period_and_the_next_start_recovers_nothing(engine: Engine) -> None:
    start(engine, "-p", "9092:9092", "-v", "orders:/var/lib/sordini")
    host(engine, "seq 1000 | kcat -P -b localhost:9092 -t orders")
    engine.docker("stop", "--time", "40", "broker")
    assert (engine.inspect("broker", "State.ExitCode"), engine.inspect("broker", "State.OOMKilled")) == ("0", "false")
    shown = ["--entrypoint", "ls", "-v", "orders:/var/lib/sordini", "sordini", "-A", "/var/lib/sordini"]
    assert ".kafka_cleanshutdown" in engine.docker("run", "--rm", *shown)
    engine.docker("start", "broker")
    engine.wait_for("broker", "State.Health.Status", "healthy")
    assert host(engine, "kcat -C -b localhost:9092 -t orders -e -q | wc -l").strip() == "1000"


@pytest.mark.parametrize(
    "options",
    [("json-file", "--log-opt", "max-size=1m"), ("local",)],
    ids=["json-file", "local"],
)
def test_its_lines_arrive_by_the_log_driver_whole_and_once(engine: Engine, options: Sequence[str]) -> None:
    start(engine, "--log-driver", *options)
    engine.docker("stop", "--time", "40", "broker")
    lines = engine.logs("broker").splitlines()
    assert sum("sordini is ready" in line for line in lines) == 1
    assert all(line.isprintable() for line in lines)


def test_it_serves_without_a_log_driver(engine: Engine) -> None:
    start(engine, "--log-driver", "none", "-p", "9092:9092")
    assert "advertises" not in engine.run("docker", "logs", "broker", check=False)
    host(engine, "sordini ping -b localhost:9092")


def test_the_image_holds_the_program_and_nothing_that_built_it(engine: Engine) -> None:
    configuration = json.loads(engine.docker("inspect", "sordini"))[0]["Config"]
    assert configuration["User"] == "10001"
    found = shell_in_image(
        engine,
        "ls -d /src /build-tools 2>/dev/null; ls /wheels; python -m pip --no-cache-dir list --format freeze 2>/dev/null | cut -d= -f1",
    ).split()
    assert "sordini" in found
    assert not [name for name in found if name.endswith(".whl")]
    assert not {"/src", "/build-tools", "hatchling", "pyspark", "pytest", "mypy"} & set(found)
    # For docs/containers.md: what takes the room.
    engine.docker("history", "--format", "{{.Size}}\t{{.CreatedBy}}", "sordini")
    packages = "python -c 'import sysconfig; print(sysconfig.get_paths()[\"purelib\"])'"
    shell_in_image(engine, f"cd $({packages}) && du -sk * | sort -rn | head -15")


def shell_in_image(engine: Engine, script: str) -> str:
    return engine.docker("run", "--rm", "--entrypoint", "sh", "sordini", "-c", script)
