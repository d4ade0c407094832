"""Files in a local folder, or in a shared file system that all machines of the job mount at the same path."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from sordini.pipeline.errors import BadSetting


def local_path(location: str) -> Path | None:
    """The absolute folder of a location; None for a URI of another scheme than file."""
    if "://" not in location and not location.startswith("file:"):
        return Path(location).absolute()
    parts = urlsplit(location)
    if parts.scheme != "file":
        return None
    if parts.netloc not in {"", "localhost"}:
        raise BadSetting(f"'{location}' names the machine {parts.netloc}: a folder is file:///path")
    return Path(unquote(parts.path))


@dataclass(frozen=True)
class LocalOutputs:
    """Creates files below `root`."""

    root: str

    def create(self, path: str) -> BinaryIO:
        target = Path(self.root, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        return target.open("xb")


def sync_folder(path: Path) -> None:
    """Fsync a folder, so that its names are durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
