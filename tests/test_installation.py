"""How Sordini is installed is said in one way, by docs/installation.md: from a clone, as long as no index has it.

When it is published, `SOURCE` becomes `sordini`, and these tests name every page that says otherwise.
"""

from __future__ import annotations

import re
import subprocess
import tomllib
from functools import cache
from pathlib import Path

import pytest

import sordini
from sordini.pipeline.errors import INSTALL

ROOT = Path(__file__).resolve().parents[1]
PAGE = "docs/installation.md"
SOURCE = "../sordini"
IN_A_CLONE = "."
EXEMPT = ("CHANGELOG.md", "tests/", "requirements/")
_COMMAND = re.compile(r"\bpip3?(?:\"|')? install (?P<words>[^\n`|]*)")
_OURS = re.compile(r"(?:[\w./-]*/)?sordini(?:\[[\w,]+\])?(?:[=<>~!].*)?")


@cache
def texts() -> dict[str, str]:
    """The repository's files that a user reads or that print something, by their paths."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    paths = [ROOT / name for name in names if not name.startswith(EXEMPT)]
    found = {}
    for path in paths:
        if path.is_file() and not path.is_symlink():
            found[str(path.relative_to(ROOT))] = path.read_bytes().decode("utf-8", errors="replace")
    return found


def sources(text: str) -> list[str]:
    """What pip is given for Sordini, in each command of a text that may use an index."""
    found = []
    for command in _COMMAND.finditer(text):
        if "--no-index" not in command["words"]:  # From wheels that were built before.
            words = re.sub(r"\(.*|#.*|\s&&.*", "", command["words"]).replace("'", " ").replace('"', " ").split()
            found += [word for word in words if _OURS.fullmatch(word.rstrip(".,;:"))]
    return found


def without_extra(source: str) -> str:
    return source.rstrip(".,;:").partition("[")[0]


def test_every_page_installs_from_where_it_can_be_had() -> None:
    wrong = [
        f"{name}: pip install {source}"
        for name, text in texts().items()
        for source in sources(text)
        if without_extra(source) != SOURCE
    ]
    assert wrong == [], f"say pip install {SOURCE}, or pip install {IN_A_CLONE} in a clone"


def test_every_page_that_names_the_source_says_where_it_is_explained() -> None:
    naming = [name for name, text in texts().items() if SOURCE in map(without_extra, sources(text))]
    assert len(naming) > 8
    assert [name for name in naming if name != PAGE and "installation.md" not in texts()[name]] == []
    assert f"pip install {SOURCE}\n" in texts()[PAGE]


def test_the_command_that_errors_name_is_the_one_of_the_page() -> None:
    command = INSTALL.partition(" (")[0]
    assert f"`{command}`" in texts()[PAGE]
    assert PAGE in INSTALL


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("pip install sordini pytest", ["sordini"]),
        ("`pip install --upgrade 'sordini[spark]==1.0'`", ["sordini[spark]==1.0"]),
        ("/opt/bin/pip install sordini.", ["sordini."]),
        ("pip install ../sordini pytest-sordini", ["../sordini"]),
        ('run: pip install "../sordini[spark]" pytest', ["../sordini[spark]"]),
        ("python -m pip install .  # sordini", []),
        ("pip install --no-index --find-links /wheels sordini", []),
    ],
)
def test_what_pip_is_given_is_found_in_every_spelling(text: str, found: list[str]) -> None:
    assert sources(text) == found


def test_package_command_and_changelog_have_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    releases = re.findall(r"^## (\d+\.\d+\.\d+) \(", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert project["version"] == sordini.__version__ == releases[0]
