"""Files in a local folder, or in a shared file system that all machines of the job mount at the same path."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast
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
    """Creates files below `root`; with `synced` they are fsynced before they are closed."""

    root: str
    suffix: str = ""
    synced: bool = False

    def create(self, path: str) -> BinaryIO:
        target = Path(self.root, path + self.suffix)
        target.parent.mkdir(parents=True, exist_ok=True)
        return cast("BinaryIO", _SyncedFile(target, "xb")) if self.synced else target.open("xb")


class _SyncedFile(io.FileIO):
    """Is fsynced when it is closed; unbuffered, as writes are large."""

    def close(self) -> None:
        if not self.closed:
            os.fsync(self.fileno())
        super().close()


def write_atomically(path: Path, text: str) -> None:
    """Replace the file by `text` atomically, also across a power failure."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with beside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Fsync a folder, so that its names are durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
