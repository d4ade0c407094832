"""config/sordini.service names what there is: commands, options, keys and times."""

from __future__ import annotations

import configparser
import shlex
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest

from sordini.broker.configuration.config import SETTINGS, build_config
from sordini.broker.network.descriptors import CONNECTIONS_EXPECTED, OTHER_FILES
from sordini.broker.process.broker_process import EXIT_CONFIG
from sordini.cli.__main__ import COMMANDS, module_of

UNIT = Path(__file__).resolve().parents[2] / "config" / "sordini.service"


class Unit(configparser.RawConfigParser):
    """The file as systemd reads it, as far as no key stands twice in one section."""

    def optionxform(self, optionstr: str) -> str:
        return optionstr


@pytest.fixture
def service() -> configparser.SectionProxy:
    unit = Unit(interpolation=None)
    unit.read(UNIT, encoding="utf-8")
    return unit["Service"]


def test_the_command_exists_with_its_options_and_keys(service: configparser.SectionProxy) -> None:
    program, command, *arguments = shlex.split(service["ExecStart"])
    assert Path(program).name == "sordini"
    assert command in COMMANDS
    serve: click.Command = getattr(import_module(f"sordini.{module_of(command)}"), command)
    given = serve.make_context(command, arguments).params
    assert given["properties"] == "/etc/sordini/server.properties"
    assert not given["daemon"], "systemd waits for the process that it has started"
    entries = dict(override.split("=", 1) for override in given["overrides"])
    assert set(entries) <= set(SETTINGS)
    (directory,) = build_config(entries)[0].log_directories
    assert directory == f"/var/lib/{service['StateDirectory']}" == service["WorkingDirectory"]
    assert given["properties"].startswith(f"/etc/{service['ConfigurationDirectory']}/")


def test_the_service_manager_is_notified_of_readiness_and_the_broker_does_not_run_as_root(
    service: configparser.SectionProxy,
) -> None:
    assert (service["Type"], service["NotifyAccess"]) == ("notify", "main")
    assert service["User"] == service["Group"] == "sordini"
    assert service["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert "AF_UNIX" in service["RestrictAddressFamilies"].split(), "or it could not notify"
    assert service["NoNewPrivileges"] == "true"
    assert service["ProtectSystem"] == "strict"


def test_its_times_and_limits_are_in_line_with_the_brokers(service: configparser.SectionProxy) -> None:
    config, _ = build_config({})
    assert int(service["TimeoutStopSec"]) * 1000 > config.shutdown_deadline_ms
    assert int(service["WatchdogSec"]) * 1000 > 10 * config.stall_threshold_ms
    assert int(service["LimitNOFILE"]) >= config.open_segments_max + CONNECTIONS_EXPECTED + OTHER_FILES
    assert service["Restart"] == "on-failure"
    assert int(service["RestartPreventExitStatus"]) == EXIT_CONFIG
    assert service["TimeoutStartSec"] == "infinity"


def test_systemd_itself_finds_nothing_wrong(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    # Where the program lies is the administrator's business; that one must be there is systemd's.
    here = str(Path(sys.prefix) / "bin" / "sordini")
    text = UNIT.read_text(encoding="utf-8")
    assert text.count("ExecStart=/opt/sordini/bin/sordini ") == 1
    copy = tmp_path / UNIT.name
    copy.write_text(text.replace("ExecStart=/opt/sordini/bin/sordini ", f"ExecStart={here} "), encoding="utf-8")
    verified = subprocess.run(["systemd-analyze", "verify", str(copy)], check=False, capture_output=True, text=True)
    complaints = [line for line in verified.stderr.splitlines() if UNIT.name in line]
    assert (verified.returncode, complaints) == (0, [])
