"""The one file of others that the console serves is the one that npm has."""

from __future__ import annotations

import hashlib
from pathlib import Path

import sordini.console

STATIC = Path(sordini.console.__file__).parent / "static"
HTMX_SHA256 = "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130"
"""Of `dist/htmx.min.js` in htmx.org@4.0.1."""


def test_htmx_is_the_file_of_its_release_with_its_licence() -> None:
    assert hashlib.sha256((STATIC / "htmx.min.js").read_bytes()).hexdigest() == HTMX_SHA256
    assert "Zero-Clause BSD" in (STATIC / "htmx.LICENSE").read_text()


def test_no_other_file_is_of_others() -> None:
    own = {"console.css", "console.js", "theme.js", "icon.svg"}
    assert {file.name for file in STATIC.iterdir()} == {*own, "htmx.min.js", "htmx.LICENSE"}
