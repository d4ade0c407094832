"""examples/listeners: one listener for this machine, for other containers and for a tunnel."""

from __future__ import annotations

import json

import pytest

from tests.docker.engine import Engine

FILE = ("docker", "compose", "--file", "examples/listeners/compose.yml")
PROJECT = "sordini-listeners"


@pytest.fixture
def started(engine: Engine) -> Engine:
    # Without the file of differences: it has other services. The image is built already.
    engine.run(*FILE, "up", "--detach", "--wait", variables={"COMPOSE_FILE": ""})
    return engine


def inside(engine: Engine, network: str, *words: str) -> str:
    """A command of the image in a container of one network."""
    return engine.docker("run", "--rm", "--network", f"{PROJECT}_{network}", "sordini", *words)


def test_each_network_receives_an_address_that_it_reaches_and_writes_and_reads(started: Engine) -> None:
    listed = json.loads(started.run("kcat", "-L", "-J", "-b", "localhost:9092"))
    assert [broker["name"] for broker in listed["brokers"]] == ["localhost:9092"]
    for network, address in (("shop", "broker:9092"), ("outside", "tunnel.example:19092")):
        status = json.loads(inside(started, network, "cluster", "status", "-b", address, "--json"))
        assert [f"{broker['host']}:{broker['port']}" for broker in status["brokers"]] == [address]
    started.run("bash", "-c", "echo 'from this machine' | kcat -P -b localhost:9092 -t orders")
    consume = ("consume", "orders", "--from", "beginning", "--max-messages", "1", "-b")
    assert "from this machine" in inside(started, "shop", *consume, "broker:9092")
    assert "from this machine" in inside(started, "outside", *consume, "tunnel.example:19092")


def test_the_network_behind_the_tunnel_reaches_the_broker_in_no_other_way(started: Engine) -> None:
    address = started.docker(
        "inspect", "--format", f'{{{{(index .NetworkSettings.Networks "{PROJECT}_shop").IPAddress}}}}', f"{PROJECT}-broker-1"
    )  # fmt: skip
    command = f"docker run --rm --network {PROJECT}_outside sordini ping --timeout 3 -b {address}:9092"
    assert started.run("bash", "-c", f"{command} && echo reached || echo not reached").strip().endswith("not reached")
