"""Inputs that are kept: `corpus/<target>/`, small, each with a name that says what it found or reaches."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "corpus"
BYTES_MAX: Final = 4096
"""Of one input."""


def kept(target: str, folder: Path = FOLDER) -> dict[str, bytes]:
    """By file name."""
    return {path.name: path.read_bytes() for path in sorted((folder / target).glob("*")) if path.is_file()}


def keep(target: str, data: bytes, what: str, folder: Path = FOLDER) -> Path:
    """Write an input beside the others of its target."""
    (folder / target).mkdir(parents=True, exist_ok=True)
    path = folder / target / f"{what}-{hashlib.sha256(data).hexdigest()[:12]}"
    path.write_bytes(data)
    return path
