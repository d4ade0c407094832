"""`sordini stop`: end a broker of this machine, and wait until it is gone."""

from __future__ import annotations

import os
import select
import signal
import sys
from typing import TYPE_CHECKING, NoReturn

import click

from sordini.broker.clock import SystemClock
from sordini.broker.process import pid_file as pid_files
from sordini.cli.common.options import ClientCommand, Failure
from sordini.cli.common.terminal import echo
from sordini.storage.disk import SystemDisk

if TYPE_CHECKING:
    from sordini.broker.configuration.config import Config

EXIT_FAILED, EXIT_CONFIG, EXIT_NONE, EXIT_COSTS = 1, 2, 3, 4
KILL_WAIT_S = 10.0
"""How long the system may take to end a process that was killed."""


class Stop(ClientCommand):
    exit_codes = {  # noqa: RUF012 - as its base class has it.
        0: "it has stopped",
        EXIT_FAILED: "it has not stopped in time, or may not be signalled",
        EXIT_CONFIG: "the command or the configuration is wrong",
        EXIT_NONE: "no broker is running there",
        EXIT_COSTS: "with --if-safe: its stop would cost something, or what it would cost is not known; it still runs",
    }


@click.command(cls=Stop)
@click.argument("properties", required=False, type=click.Path(dir_okay=False), metavar="[server.properties]")
@click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="As for serve: which broker it is says log.dirs.",
)
@click.option(
    "--pid-file", type=click.Path(dir_okay=False), metavar="FILE", help="The file that serve --pid-file has written."
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    metavar="S",
    help="Wait so long.",
)
@click.option(
    "--if-safe",
    is_flag=True,
    help="Stop it only when every partition keeps a leader, and enough copies in sync for acks=all.",
)
@click.option("--force", is_flag=True, help="Kill the broker when it has not stopped by then; its next start recovers.")
def stop(
    properties: str | None,
    overrides: tuple[str, ...],
    pid_file: str | None,
    timeout_s: float,
    *,
    if_safe: bool,
    force: bool,
) -> None:
    """Stop a broker in order and wait until it is gone.

    A broker of a cluster that is found by its configuration is asked first what it holds, for 3 seconds at most. What
    it leads, and what its stop costs until it is back, is printed: partitions without a leader, and those that refuse
    acks=all. Then it is stopped all the same, unless --if-safe says otherwise.

    \b
    The broker is found by --pid-file, or by the configuration it was started with: serve keeps
    sordini.pid in the first log directory. Only a process that holds the lock on its file is signalled.

    \b
      sordini stop config/server.properties
      sordini stop config/server.properties --if-safe
      sordini stop --override log.dirs=/var/lib/sordini
      sordini stop --pid-file /run/sordini.pid --timeout 120 --force
    """
    if pid_file is not None and (properties is not None or overrides):
        raise click.UsageError("name the broker by --pid-file or by its configuration, not by both")
    if pid_file is not None and if_safe:
        raise click.UsageError("--if-safe needs the broker's configuration: a pid file does not say where it listens")
    config = None
    if pid_file is None:
        config = _configured(properties, overrides)
        pid_file = f"{config.log_directories[0]}/{pid_files.NAME}"
    process_id, descriptor = _find(pid_file)
    if config is not None and (config.zookeeper_connect or if_safe):
        _print_stop_impact(config, if_safe=if_safe)
    began_ms = SystemClock().monotonic_ms()
    _signal(descriptor, process_id, signal.SIGTERM)
    is_killed = False
    if not _is_gone(descriptor, timeout_s):
        if not force:
            _end(EXIT_FAILED, f"broker process {process_id} still runs after {timeout_s:g} s")
        is_killed = True
        _signal(descriptor, process_id, signal.SIGKILL)
        if not _is_gone(descriptor, KILL_WAIT_S):
            _end(EXIT_FAILED, f"broker process {process_id} does not end though it was killed: its disk may hang")
    seconds = (SystemClock().monotonic_ms() - began_ms) / 1000
    echo(f"sordini: broker process {process_id} {'was killed' if is_killed else 'has stopped'} ({seconds:.2f} s)")


def _configured(properties: str | None, overrides: tuple[str, ...]) -> Config:
    # Late: a pid file that is named needs no configuration.
    from sordini.broker.configuration.config import SETTINGS, build_config
    from sordini.broker.configuration.settings import ConfigError
    from sordini.broker.process.process import read_entries

    try:
        entries = read_entries(properties, overrides, os.environ)
        # A key that would refuse a start refuses no stop: it may have come since the broker started.
        config, _ = build_config({key: text for key, text in entries.items() if key in SETTINGS})
    except ConfigError as error:
        _end(EXIT_CONFIG, str(error))
    return config


def _print_stop_impact(config: Config, *, if_safe: bool) -> None:
    """Say what the broker holds and what its stop costs, or why that is not known; ends the command if it must."""
    from sordini.cli.commands.broker.stop_impact import stop_impact_lines
    from sordini.cli.commands.broker.stop_impact_request import fetch_stop_impact

    try:
        held = fetch_stop_impact(config, SystemDisk())
    except Failure as failure:
        if if_safe:
            _end(EXIT_COSTS, f"the broker is not stopped, what its stop would cost is not known: {failure}")
        echo(f"sordini: what the broker holds is not known, it is stopped all the same: {failure}", err=True)
        return
    for line in stop_impact_lines(held, hands_over=config.controlled_shutdown_enable):
        echo(f"sordini: {line}")
    if if_safe and held.costs:
        _end(EXIT_COSTS, f"broker {held.broker} is not stopped: --if-safe, and its stop has a cost")


def _find(path: str) -> tuple[int, int]:
    """The broker's process id, and a descriptor that stands for that very process and never for a later one."""
    disk = SystemDisk()
    try:
        process_id = pid_files.holder(disk, path)
        if process_id is None:
            _end(EXIT_NONE, f"no broker is running: {path} is left over from one that has ended")
        if process_id == 0:
            _end(EXIT_FAILED, f"the broker of {path} runs out of sight, in another container perhaps: stop it there")
        descriptor = os.pidfd_open(process_id)
        if pid_files.holder(disk, path) != process_id:
            raise ProcessLookupError  # It ended in between: the descriptor may be anybody's.
    except (FileNotFoundError, ProcessLookupError):
        _end(EXIT_NONE, f"no broker is running: there is none at {path}")
    except OSError as error:
        _end(EXIT_FAILED, f"{path}: {error.strerror}")
    return process_id, descriptor


def _signal(descriptor: int, process_id: int, number: signal.Signals) -> None:
    try:
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return  # It has ended meanwhile: that is what was wanted.
    except PermissionError:
        _end(EXIT_FAILED, f"broker process {process_id} belongs to somebody else: stop it as its user")


def _is_gone(descriptor: int, timeout_s: float) -> bool:
    """Wait for the process to end."""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(timeout_s * 1000))


def _end(code: int, text: str) -> NoReturn:
    echo(f"sordini: {text}", err=True)
    sys.exit(code)
