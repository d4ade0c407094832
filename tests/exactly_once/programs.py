"""Programs that consume, transform and produce, each a process that is killed and started again."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.exactly_once.checker import Ending
from tests.exactly_once.copiers.orders import Orders
from tests.outside.needs import ROOT
from tests.outside.processes import OutsideProcess, ProcessError

ENDINGS_MAX: Final = 20
"""How often one program may end by itself: a client that cannot go on ends and begins anew, but not again and again."""


class Program(OutsideProcess):
    """One client. It is ready when it runs: what it has to wait for is part of its work."""

    is_endless: bool = True
    """Whether it works until it is stopped; if not, it ends with 0 when it has done what there was at its start."""

    def is_ready(self) -> bool:
        return self.is_running

    def endings(self) -> Mapping[str, Ending]:
        """How its transactions ended, if it writes that down."""
        return {}

    def how_it_ended(self) -> str:
        """Its status and what it said last, in one line."""
        lines = self.output().splitlines()
        is_hung = any(line.startswith("Timeout (") for line in lines)
        said = "a request of its client did not return" if is_hung else "".join(lines[-1:])
        return f"{self.name} ended with {self.wait_for_exit(0)}: {said}"

    def has_ended_badly(self) -> bool:
        """Whether it has ended with an error; a program that kills itself (-9) means to."""
        if self._process is None or self.is_running:
            return False
        status = self.wait_for_exit(0)
        return status != -signal.SIGKILL and (self.is_endless or status != 0)


class Copier(Program):
    """One of tests/exactly_once/copiers."""

    def __init__(self, directory: Path, module: str, orders: Orders) -> None:
        self.name = orders.name
        super().__init__(directory)
        self._module = module
        self._orders = orders

    def command(self) -> list[str]:
        module = f"tests.exactly_once.copiers.{self._module}"
        return [sys.executable, "-m", module, json.dumps(self._orders._asdict())]

    def environment(self) -> Mapping[str, str]:
        return {**super().environment(), "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / ".import")])}

    def endings(self) -> Mapping[str, Ending]:
        """The last line may be one that a kill cut off."""
        path = Path(self._orders.journal)
        lines = path.read_text().rpartition("\n")[0].splitlines() if path.exists() else []
        return {name: Ending(ending) for name, ending in map(json.loads, lines)}


class Supervisor:
    """Keeps programs running: what was killed or has ended by itself is started again."""

    def __init__(self, programs: Sequence[Program]) -> None:
        self.programs = programs
        self.ended_by_themselves: list[str] = []
        """How those ended that ended with an error, in order."""

    def revive(self) -> None:
        """Start again what does not run. Raises ProcessError for a program that ends again and again."""
        for program in self.programs:
            if program.is_running:
                continue
            if program.has_ended_badly():
                self.ended_by_themselves.append(program.how_it_ended())
            if len(self.ended_by_themselves) > ENDINGS_MAX:
                raise ProcessError("programs end by themselves\n" + "\n".join(self.ended_by_themselves[-3:]))
            program.launch()

    def kill(self, number: int) -> None:
        """kill -9; it is started again at once, with its transactional id, as its operator's supervisor would."""
        self.programs[number].kill()
        self.programs[number].launch()

    def stop(self) -> None:
        """An orderly end of all: no transaction is left open."""
        for program in self.programs:
            program.terminate()
        for program in self.programs:
            status = program.stop()
            if status and program.is_endless:
                self.ended_by_themselves.append(program.how_it_ended())

    def kill_all(self) -> None:
        for program in self.programs:
            program.kill()
