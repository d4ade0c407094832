"""`--console`: started and stopped with the brokers."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from tests.console.console_process import Visitor
from tests.console.scene import until
from tests.outside.ports import is_listening
from tests.outside.processes import DevProcess, OutsideProcess, SecureProcess, SordiniProcess

ADDRESS = re.compile(
    r"sordini console of (\S+) is ready \(changes are allowed\): http://127\.0\.0\.1:(\d+)/(?:login\?token=(\w+))?"
)


def console_of(process: OutsideProcess) -> re.Match[str]:
    until(lambda: ADDRESS.search(process.output()))
    found = ADDRESS.search(process.output())
    assert found is not None
    return found


class WithConsole(SordiniProcess):
    def command(self) -> list[str]:
        return [*super().command(), "--console", "--console-port", "0"]


def test_a_broker_has_its_console_until_it_stops(tmp_path: Path) -> None:
    with WithConsole(tmp_path) as broker:
        found = console_of(broker)
        port = int(found[2])
        assert found[1] == broker.bootstrap
        visitor = Visitor(port, None)
        visitor.log_in(token=found[3])
        assert "Sordini" in visitor.get("/").text
        assert broker.stop() == 0
        assert not is_listening(port)


def test_a_console_ends_when_its_broker_is_killed(tmp_path: Path) -> None:
    with WithConsole(tmp_path) as broker:
        port = int(console_of(broker)[2])
        broker.kill()
        until(lambda: not is_listening(port), 10)


def test_a_dev_cluster_has_a_console_until_ctrl_c(tmp_path: Path) -> None:
    with DevProcess(tmp_path / "dev", "--brokers", "1", "--console", "--console-port", "0") as dev:
        port = int(console_of(dev)[2])
        os.kill(dev.pid, signal.SIGINT)
        assert dev.wait_for_exit(20) == 0
        assert not is_listening(port)


@pytest.mark.slow
def test_visitors_of_a_secured_broker_are_its_users(tmp_path: Path) -> None:
    broker = SecureProcess(tmp_path)
    broker.options = ["--console", "--console-port", "0"]
    with broker:
        found = console_of(broker)
        visitor = Visitor(int(found[2]), None)
        assert found[3] is None
        assert visitor.log_in(username="admin", password="wrong").status == 403
        assert visitor.log_in(username="admin", password=broker.password).status == 303
        assert visitor.get("/topics").status == 200
