"""`sordini mirror run` in a process of its own."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.outside.processes import OutsideProcess

HURRIED: dict[str, Any] = {
    "commit_interval": "100 milliseconds",
    "topics": {"refresh_interval": "500 milliseconds"},
    "groups": {"interval": "200 milliseconds", "sync_offsets": True},
    "heartbeats": {"interval": "200 milliseconds"},
}


class MirrorProcess(OutsideProcess):
    """The command with a file that is made of `settings` (JSON is YAML)."""

    name = "mirror"
    start_seconds_max = 30.0

    def __init__(self, directory: Path, settings: Mapping[str, Any], *options: str) -> None:
        super().__init__(directory)
        self.file = directory / "mirror.yaml"
        self.file.write_text(json.dumps({**HURRIED, **settings}, indent=2))
        self._sources = list(settings["sources"])
        self._options = options

    def command(self) -> list[str]:
        return [str(Path(sys.prefix) / "bin" / "sordini"), "mirror", "run", str(self.file), *self._options]

    def is_ready(self) -> bool:
        output = self.output()
        return all(f"{source}: " in output and "partitions, copied" in output for source in self._sources)


def settings(target: str, sources: Mapping[str, str], **others: Any) -> dict[str, Any]:
    """A file with bootstrap addresses."""
    return {
        "name": "test",
        "target": {"alias": "central", "bootstrap": target},
        "sources": {alias: {"bootstrap": bootstrap} for alias, bootstrap in sources.items()},
        **others,
    }
