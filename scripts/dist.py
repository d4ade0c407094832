"""Build what is published, dist/sordini-VERSION.tar.gz and the wheel, and check it: `python scripts/dist.py [FOLDER]`.

Both are made of what is committed (HEAD), and the wheel of the source distribution, as an index's users would build it.
Two builds of a commit are equal, byte for byte: times are the commit's (SOURCE_DATE_EPOCH), and hatchling sorts files
and sets their modes. `SORDINI_REPOSITORY` is the address of the repository, for the links on an index's page; without
it the remote `origin` is taken, if that is an address. `twine check --strict` has the last word.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REPOSITORY = "SORDINI_REPOSITORY"
_REMOTE = re.compile(r"(?:https://(?:[^@/]*@)?|ssh://git@|git@)([\w.-]+\.[a-z]+)(?::\d+)?[:/](.+?)(?:\.git)?/?")


def main(arguments: list[str]) -> int:
    folder = Path(arguments[0] if arguments else ROOT / "dist").resolve()
    repository = os.environ.get(REPOSITORY) or address_of(git("config", "--default", "", "--get", "remote.origin.url"))
    if repository is None:
        print(f"no address of the repository: README's links are left out. Set {REPOSITORY}.", file=sys.stderr)
    if changed := git("status", "--porcelain", "--untracked-files=no"):
        print(f"what is not committed is not built:\n{changed}", file=sys.stderr)
    built = build(folder, repository or "", git("log", "-1", "--format=%ct"))
    print(*built, sep="\n")
    check = [sys.executable, "-m", "twine", "check", "--strict", *map(str, built)]
    return subprocess.run(check, check=False).returncode  # noqa: S603


def git(*words: str) -> str:
    """What git prints of this repository."""
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()  # noqa: S603


def address_of(remote: str) -> str | None:
    """The page of a repository, from the address that git fetches from; None for one that no reader can open."""
    found = _REMOTE.fullmatch(remote)
    return None if found is None else f"https://{found[1]}/{found[2]}"


def build(folder: Path, repository: str, commit_time: str) -> list[Path]:
    """The source distribution of HEAD and the wheel that is made of it."""
    environment = {**os.environ, REPOSITORY: repository, "SOURCE_DATE_EPOCH": commit_time}
    with tempfile.TemporaryDirectory() as name:
        committed, unpacked = Path(name, "committed"), Path(name, "unpacked")
        archive = Path(name, "head.tar")
        git("archive", f"--output={archive}", "HEAD")
        unpack(archive, committed)
        source = hatchling(committed, "sdist", folder, environment)
        unpack(source, unpacked)
        (project,) = unpacked.iterdir()
        return [source, hatchling(project, "wheel", folder, environment)]


def unpack(archive: Path, folder: Path) -> None:
    folder.mkdir()
    subprocess.run(["tar", "-xf", str(archive), "-C", str(folder)], check=True)  # noqa: S603, S607


def hatchling(project: Path, target: str, folder: Path, environment: Mapping[str, str]) -> Path:
    """The file that was built."""
    with tempfile.TemporaryDirectory() as made:
        command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", made]
        subprocess.run(command, cwd=project, env=environment, check=True, capture_output=True)  # noqa: S603
        (file,) = Path(made).iterdir()
        folder.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(file, folder))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
