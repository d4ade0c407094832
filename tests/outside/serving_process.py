"""Our commands that serve HTTP beside a cluster, as processes on a port that the system chose."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tests.outside.processes import OutsideProcess


class ServingProcess(OutsideProcess):
    """`name` is the command; `ready_line` is what it prints when it serves, with its address."""

    port_option: str
    ready_line: re.Pattern[str]
    start_seconds_max = 30.0

    def __init__(self, directory: Path, bootstrap: str, *options: str) -> None:
        super().__init__(directory)
        self._bootstrap = bootstrap
        self._options = options

    def command(self) -> list[str]:
        program = Path(sys.prefix) / "bin" / "sordini"
        return [str(program), self.name, "--bootstrap", self._bootstrap, self.port_option, "0", *self._options]

    def is_ready(self) -> bool:
        return self.ready_line.search(self.output()) is not None

    @property
    def ready(self) -> re.Match[str]:
        """The line that it has printed."""
        found = self.ready_line.search(self.output())
        assert found is not None, self.tail()
        return found
