"""`cluster status` names the cause where the controller cannot resolve the name that a broker advertises to brokers."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import uuid4

from click.testing import CliRunner

from sordini.cli.__main__ import main
from tests.outside.ports import free_port
from tests.outside.processes import SordiniProcess
from tests.support.wire_client import PATIENCE_S


class Member(SordiniProcess):
    """A broker with a listener for clients and one for brokers, whose advertised host the test chooses."""

    def __init__(self, directory: Path, zookeeper: str, number: int, host: str) -> None:
        super().__init__(directory)
        port = free_port()
        clients = f"CLIENTS://127.0.0.1:{self.port}"
        self.overrides |= {
            "broker.id": number,
            "zookeeper.connect": zookeeper,
            "zookeeper.session.timeout.ms": 2_000,
            "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
            "inter.broker.listener.name": "BROKERS",
            "listeners": f"{clients},BROKERS://127.0.0.1:{port}",
            "advertised.listeners": f"{clients},BROKERS://{host}:{port}",
            "controlled.shutdown.enable": "false",
        }


def problems(broker: SordiniProcess) -> list[str]:
    done = CliRunner().invoke(main, ["cluster", "status", "--json", "--bootstrap", broker.bootstrap])
    found: list[str] = json.loads(done.stdout)["problems"]
    return found


def test_a_broker_whose_name_the_controller_does_not_resolve_is_named_with_it(tmp_path: Path, zookeeper: str) -> None:
    where = f"{zookeeper}/{uuid4().hex}"
    with Member(tmp_path / "1", where, 1, "127.0.0.1") as controller:
        with Member(tmp_path / "2", where, 2, "broker-2.invalid"):
            said = "commands of broker 1, the controller, do not reach broker 2 at broker-2.invalid:"
            controller.wait_until(lambda: any(one.startswith(said) for one in problems(controller)), PATIENCE_S, "say")
        controller.wait_until(lambda: problems(controller) == [], PATIENCE_S, "forget the broker that is gone")
