"""scripts/fetching.py: a jar is there with the bytes that are expected, or not at all."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest

from scripts.fetching import fetch, fetch_jar

BYTES = b"the bytes of a jar"
SHA256 = hashlib.sha256(BYTES).hexdigest()
MAVEN = (
    "import pathlib, sys\n"
    "folder = pathlib.Path(sys.argv[1].removeprefix('-DoutputDirectory='))\n"
    "folder.mkdir(parents=True)\n"
    f"(folder / 'thing-1.0.jar').write_bytes({BYTES!r})\n"
)
COMMAND = [sys.executable, "-c", MAVEN]
"""Writes a jar where Maven is told to."""


@pytest.mark.parametrize("sha256", ["", SHA256])
def test_a_jar_with_the_expected_bytes_is_put_under_its_name(sha256: str, tmp_path: Path) -> None:
    fetch(tmp_path / "lib", COMMAND, sha256)
    assert {path.name: path.read_bytes() for path in (tmp_path / "lib").iterdir()} == {"thing-1.0.jar": BYTES}
    assert [path.name for path in tmp_path.iterdir()] == ["lib"]


def test_a_jar_with_other_bytes_ends_the_script_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"thing-1\.0\.jar is not the file in tests/outside/versions\.py"):
        fetch(tmp_path / "lib", COMMAND, "0" * 64)
    assert [path.name for path in tmp_path.rglob("*")] == ["lib"]


def test_a_jar_that_is_there_is_not_fetched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SystemExit, match="Maven is missing"):
        fetch_jar(tmp_path, "org.example:thing:1.0")
    (tmp_path / "thing-1.0.jar").write_bytes(BYTES)
    fetch_jar(tmp_path, "org.example:thing:1.0")
    assert [path.name for path in tmp_path.iterdir()] == ["thing-1.0.jar"]
