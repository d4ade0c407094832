"""`--console` and `--registry`: commands that serve HTTP beside the brokers of this process, for as long as these run.

Each is a child process. It is started when the brokers are ready and their ports are known, and ends when its standard
input does: also when this process is killed. It prints its own line with its address.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from sordini.broker.configuration.listeners import ListenerEndpoint
from sordini.broker.configuration.settings import ConfigError
from sordini.broker.process.logging import ProcessLogger
from sordini.system.named_tuple import NamedTuple

STOP_S: Final = 5.0
PLAIN, SECURED = "PLAINTEXT", "SASL_SSL"


class Extra(NamedTuple):
    """Libraries that a command needs beyond those of the broker."""

    command: str
    """Which is also the name of the extra."""
    libraries: tuple[str, ...]
    port_option: str

    @property
    def install(self) -> str:
        return f"pip install '../sordini[{self.command}]' (docs/installation.md)"


CONSOLE_EXTRA: Final = Extra("console", ("starlette", "uvicorn", "jinja2", "markupsafe"), "--port")
REGISTRY_EXTRA: Final = Extra(
    "registry", ("starlette", "uvicorn", "fastavro", "jsonschema", "google.protobuf", "grpc_tools"), "--listen"
)


class ChildPlan(NamedTuple):
    """A command to start."""

    extra: Extra
    port: int
    """Where it listens on this machine; 0 lets the system choose."""
    command_config: str | None = None
    """The clients' file of a secured broker: visitors log in with its users."""
    sasl_mechanism: str | None = None

    def arguments(self, bootstrap: str) -> list[str]:
        """Behind `sordini`."""
        made = [self.extra.command, "--bootstrap", bootstrap, "--stop-with-input"]
        made += [self.extra.port_option, str(self.port)]
        if self.sasl_mechanism is not None and self.command_config is not None:
            made += ["--command-config", self.command_config, "--sasl-login", self.sasl_mechanism]
        return made


def check_extras(plans: Sequence[ChildPlan]) -> None:
    """Raises ConfigError where the libraries of a command are not installed."""
    from importlib.util import find_spec  # Late: only a start with such a command needs it.

    for plan in plans:
        missing = [name for name in plan.extra.libraries if find_spec(name.partition(".")[0]) is None]
        if missing:
            raise ConfigError(f"--{plan.extra.command} needs {missing[0]}: {plan.extra.install}")


def listener_for(endpoints: Sequence[ListenerEndpoint], plan: ChildPlan) -> str | None:
    """The address of the first listener that the command can use; None if there is none."""
    protocol = PLAIN if plan.sasl_mechanism is None else SECURED
    return next((endpoint.address for endpoint in endpoints if endpoint.protocol == protocol), None)


class ServingChildren:
    """The children, once they are started."""

    def __init__(self, plans: Sequence[ChildPlan], log: ProcessLogger) -> None:
        self._plans = plans
        self._log = log
        self._processes: list[subprocess.Popen[bytes]] = []

    def start_beside(self, endpoints: Sequence[ListenerEndpoint]) -> None:
        """Start each for the listener that it can use."""
        for plan in self._plans:
            self._start(plan, listener_for(endpoints, plan))

    def start(self, bootstrap: str) -> None:
        """Start each for an address, and return at once."""
        for plan in self._plans:
            self._start(plan, bootstrap)

    def close_input(self) -> None:
        """Let them end, and return at once: while brokers run, they can leave their groups."""
        for process in self._processes:
            assert process.stdin is not None
            with contextlib.suppress(OSError):
                process.stdin.close()

    def stop(self) -> None:
        """Wait for their ends; kill those that take long. May be called without a start."""
        self.close_input()
        for process in self._processes:
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()

    def _start(self, plan: ChildPlan, bootstrap: str | None) -> None:
        """The broker serves on without a child that cannot be started."""
        command = plan.extra.command
        if bootstrap is None:
            reason = f"there is no PLAINTEXT listener; run sordini {command} beside the broker"
            self._log.error(f"{command} not started", reason=reason)
            return
        try:
            self._processes.append(
                subprocess.Popen(  # noqa: S603 - this interpreter.
                    [sys.executable, "-m", "sordini", *plan.arguments(bootstrap)], stdin=subprocess.PIPE
                )
            )
        except OSError as error:
            self._log.error(f"{command} not started", reason=str(error))
