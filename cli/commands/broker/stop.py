"""`sordini stop`: stop a broker on this machine and wait until its process has ended."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
from typing import TYPE_CHECKING, NoReturn

import click

from sordini.broker.process import pid_file as pid_files
from sordini.cli.common.options import ClientCommand
from sordini.cli.common.terminal import echo
from sordini.client.errors import ClientError
from sordini.storage.disk import SystemDisk
from sordini.system.clock import SystemClock
from sordini.system.processes import ProcessHandle

if TYPE_CHECKING:
    from sordini.broker.configuration.config import Config

EXIT_FAILED, EXIT_CONFIG, EXIT_NONE, EXIT_COSTS = 1, 2, 3, 4
KILL_WAIT_S = 10.0
"""How long the system may take to end a killed process."""


class Stop(ClientCommand):
    exit_codes = {  # noqa: RUF012 - as its base class has it.
        0: "the broker has stopped",
        EXIT_FAILED: "it did not stop in time, or may not be signalled",
        EXIT_CONFIG: "the command or the configuration is wrong",
        EXIT_NONE: "no broker is running there",
        EXIT_COSTS: "with --if-safe: the stop would affect partitions, or its effect is unknown; the broker still runs",
    }


@click.command(cls=Stop)
@click.argument("properties", required=False, type=click.Path(dir_okay=False), metavar="[server.properties]")
@click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="As for serve; log.dirs identifies the broker.",
)
@click.option(
    "--pid-file", type=click.Path(dir_okay=False), metavar="FILE", help="The file written by serve --pid-file."
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    metavar="S",
    help="Wait for at most this long.",
)
@click.option(
    "--if-safe",
    is_flag=True,
    help="Stop only if every partition keeps a leader and enough in-sync replicas for acks=all.",
)
@click.option(
    "--force", is_flag=True, help="Kill the broker if it has not stopped by then; its next start recovers the logs."
)
def stop(
    properties: str | None,
    overrides: tuple[str, ...],
    pid_file: str | None,
    timeout_s: float,
    *,
    if_safe: bool,
    force: bool,
) -> None:
    """Shut a broker down cleanly and wait until its process has ended.

    If the broker belongs to a cluster and is found by its configuration, its partitions are read first (for 3 seconds
    at most). The command prints how many it leads, and what its absence causes: partitions without a leader, and
    partitions that refuse acks=all. It stops the broker all the same, unless --if-safe is given.

    \b
    The broker is found by --pid-file, or by the configuration it was started with: serve keeps
    sordini.pid in the first log directory. Only a process that holds the lock on its pid file is signalled.

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
    process_id, process = _find(pid_file)
    if config is not None and (config.zookeeper_connect or if_safe):
        _print_stop_impact(config, if_safe=if_safe)
    began_ms = SystemClock().monotonic_ms()
    _signal(process, process_id, signal.SIGTERM)
    is_killed = False
    if not process.has_ended(timeout_s):
        if not force:
            _end(EXIT_FAILED, f"broker process {process_id} is still running after {timeout_s:g} s")
        is_killed = True
        _signal(process, process_id, signal.SIGKILL)
        if not process.has_ended(KILL_WAIT_S):
            _end(EXIT_FAILED, f"broker process {process_id} was killed and has not ended: its disk may hang")
    seconds = (SystemClock().monotonic_ms() - began_ms) / 1000
    echo(f"sordini: broker process {process_id} {'was killed' if is_killed else 'has stopped'} ({seconds:.2f} s)")


def _configured(properties: str | None, overrides: tuple[str, ...]) -> Config:
    # Imported here: with --pid-file no configuration is read.
    from sordini.broker.configuration.config import build_config, find_setting
    from sordini.broker.configuration.keys.kraft_keys import taken_over
    from sordini.broker.configuration.protection.protection import FAMILY
    from sordini.broker.configuration.settings import ConfigError
    from sordini.broker.process.config_loading import read_entries, resolved

    try:
        given = read_entries(properties, overrides, os.environ)
        with contextlib.suppress(ConfigError):  # As below: what a provider cannot read now refuses no stop.
            given = taken_over(resolved(given, os.environ)).entries
        # A key that would refuse a start must not refuse a stop: it may have been added since the broker started.
        entries = {key: text for key, text in given.items() if find_setting(key) is not None}
        try:
            config, _ = build_config(entries)
        except ConfigError:
            config, _ = build_config(
                {key: text for key, text in entries.items() if not re.fullmatch(FAMILY, key.lower())}
            )
    except ConfigError as error:
        _end(EXIT_CONFIG, str(error))
    return config


def _print_stop_impact(config: Config, *, if_safe: bool) -> None:
    """Print the effect of the stop, or why it is unknown. With `if_safe` it may end the command."""
    from sordini.cli.commands.broker.stop_impact import stop_impact_lines
    from sordini.cli.commands.broker.stop_impact_request import fetch_stop_impact

    try:
        held = fetch_stop_impact(config, SystemDisk())
    except ClientError as failure:
        if if_safe:
            _end(EXIT_COSTS, f"the broker is not stopped: the effect of a stop is unknown: {failure}")
        echo(f"sordini: the broker's partitions are unknown; it is stopped all the same: {failure}", err=True)
        return
    for line in stop_impact_lines(held, hands_over=config.controlled_shutdown_enable):
        echo(f"sordini: {line}")
    if if_safe and held.affects_partitions:
        _end(EXIT_COSTS, f"broker {held.broker} is not stopped: --if-safe was given and partitions would be affected")


def _find(path: str) -> tuple[int, ProcessHandle]:
    """The broker's process id, and a handle of that process."""
    disk = SystemDisk()
    try:
        process_id = pid_files.holder(disk, path)
        if process_id is None:
            _end(EXIT_NONE, f"no broker is running: {path} was left by one that has ended")
        if process_id == 0:
            _end(EXIT_FAILED, f"the broker of {path} is not visible here, perhaps in another container: stop it there")
        process = ProcessHandle(process_id)
        if pid_files.holder(disk, path) != process_id:
            raise ProcessLookupError  # It ended in between: the handle may be another process's.
    except (FileNotFoundError, ProcessLookupError):
        _end(EXIT_NONE, f"no broker is running: there is no pid file {path}")
    except OSError as error:
        _end(EXIT_FAILED, f"{path}: {error.strerror}")
    return process_id, process


def _signal(process: ProcessHandle, process_id: int, number: signal.Signals) -> None:
    try:
        process.send_signal(number)
    except ProcessLookupError:
        return  # It has ended meanwhile.
    except PermissionError:
        _end(EXIT_FAILED, f"broker process {process_id} belongs to another user: stop it as that user")


def _end(code: int, text: str) -> NoReturn:
    echo(f"sordini: {text}", err=True)
    sys.exit(code)
