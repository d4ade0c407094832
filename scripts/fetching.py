"""How programs of others are fetched for tests: jars by Maven, packages by pip, commits by Git.

Each arrives beside its final place and is renamed, so that no partial download is used.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.outside.versions import GO, jar_name

ROOT = Path(__file__).resolve().parents[1]
PYTHON = str(ROOT / ".venv" / "bin" / "python")
PIP = [PYTHON, "-m", "pip", "--disable-pip-version-check", "--quiet"]
COPY_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"

# Prefixes of the jars that are moved last, and mark a folder as complete.
MARKS = ("kafka_2.1", "kafka-streams", "kafka-tools-4", "connect-mirror-3", "flink-connector-kafka")


def fetch_environment(folder: Path, *requirements: str) -> None:
    """Packages in an environment of their own, `venv` in the folder, made again when other ones are wanted."""
    mark, text = folder / "installed", " ".join(one for one in requirements if not one.startswith("--"))
    if mark.exists() and mark.read_text(encoding="utf-8") == text:
        return
    shutil.rmtree(folder, ignore_errors=True)
    install(folder / "venv", *requirements)
    mark.write_text(text, encoding="utf-8")


def install(environment: Path, *requirements: str) -> None:
    """Install packages into their own environment."""
    print(f"installing {' '.join(requirements)} into {environment.relative_to(ROOT)}", file=sys.stderr)
    run([sys.executable, "-m", "venv", "--without-pip", str(environment)], dict(os.environ))
    python = str(environment / "bin" / "python")
    run([*PIP, "--python", python, "install", "--no-compile", *requirements], dict(os.environ))


def fetch_package(name: str, folder: Path) -> None:
    """The files of a Debian package, unpacked in a folder of their own."""
    print(f"fetching Debian's {name} into {folder.relative_to(ROOT)}", file=sys.stderr)
    arriving = folder.with_name(f"{folder.name}.arriving-{os.getpid()}")
    arriving.mkdir(parents=True)
    try:
        run(["apt-get", "-qq", "download", name], dict(os.environ), arriving)
        (package,) = arriving.glob(f"{name}_*.deb")
        run(["dpkg-deb", "--extract", str(package), str(arriving)], dict(os.environ))
        package.unlink()
        arriving.replace(folder)
    finally:
        shutil.rmtree(arriving, ignore_errors=True)


def fetch_commit(source: Path, repository: str, *files: str) -> None:
    """Files of the commit that `source` is named after.

    The commit's id is a checksum of all that is in it: a repository that answers with anything else is of no use.
    """
    if source.exists():
        return
    commit = source.name
    arriving = source.with_name(f"{commit}.arriving-{os.getpid()}")
    print(f"fetching {source.relative_to(ROOT)} from {repository}", file=sys.stderr)
    arriving.mkdir(parents=True)
    try:
        for words in (["init"], ["fetch", "--depth=1", repository, commit], ["checkout", commit, "--", *files]):
            run(["git", "-C", str(arriving), words[0], "--quiet", *words[1:]], dict(os.environ))
        arriving.replace(source)
    finally:
        shutil.rmtree(arriving, ignore_errors=True)


def maven() -> list[str]:
    if shutil.which("mvn") is None:
        sys.exit("Maven is missing: `apt-get install maven` installs it")
    return ["mvn", "--batch-mode", "--no-transfer-progress", "--quiet", "-Dstyle.color=never"]


def fetch(folder: Path, command: list[str], sha256: str = "") -> None:
    """Let Maven fill a folder beside the final one, then rename, so that no partial download is used.

    With a SHA-256, which is of every jar that arrives, one with other bytes ends this script.
    """
    arriving = folder.with_name(f"{folder.name}.arriving-{os.getpid()}")
    print(f"fetching {os.path.relpath(folder, ROOT)}", file=sys.stderr)
    try:
        run([*command, f"-DoutputDirectory={arriving}"], dict(os.environ))
        folder.mkdir(parents=True, exist_ok=True)
        for jar in sorted(arriving.iterdir(), key=lambda jar: jar.name.startswith(MARKS)):
            if sha256 and hashlib.sha256(jar.read_bytes()).hexdigest() != sha256:
                sys.exit(f"{jar.name} is not the file in tests/outside/versions.py: its SHA-256 differs")
            jar.replace(folder / jar.name)  # The marking jars last.
    finally:
        shutil.rmtree(arriving, ignore_errors=True)


def fetch_jar(folder: Path, coordinate: str, sha256: str = "") -> None:
    """One artifact, `group:artifact:version`, without what it depends on, unless it is there."""
    if not (folder / jar_name(coordinate)).exists():
        fetch(folder, [*maven(), f"-Dartifact={coordinate}", f"{COPY_PLUGIN}:copy"], sha256)


def run(command: list[str], environment: dict[str, str], folder: Path | None = None) -> None:
    """Run a command, in a folder or in the present one; its failure ends this script."""
    done = subprocess.run(command, check=False, env=environment, stdin=subprocess.DEVNULL, cwd=folder)  # noqa: S603
    if done.returncode != 0:
        sys.exit(f"failed with status {done.returncode}: {' '.join(command)}")


def existing(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def fetch_dependencies(folder: Path, jar: str, pom: Path, *options: str) -> None:
    """What a POM names, unless `jar` is there: it is one of them."""
    if (folder / jar).exists():
        return
    goal = f"{COPY_PLUGIN}:copy-dependencies"
    fetch(folder, [*maven(), "-f", str(pom), "-DincludeScope=runtime", *options, goal])


def has_go(language: str = GO) -> bool:
    """Whether a Go is here that can build a module of this language. Nothing installs one: systems have older ones."""
    go = shutil.which("go")
    if go is None:
        return False
    found = subprocess.run([go, "env", "GOVERSION"], check=False, capture_output=True, text=True).stdout  # noqa: S603
    number = re.match(r"go(\d+)\.(\d+)", found)
    return number is not None and tuple(map(int, number.groups())) >= tuple(map(int, language.split(".")))
