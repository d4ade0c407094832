"""What is published: the source distribution and the wheel of the committed files, and what a wheel brings."""

from __future__ import annotations

import email
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "admin",
    "console",
    "broker",
    "cli",
    "client",
    "coordination_store",
    "doctor",
    "mirror",
    "packs",
    "pipeline",
    "protocol",
    "registry",
    "replication",
    "schemas",
    "storage",
    "system",
    "testing",
)
DATA = ("__init__.py", "__main__.py", "py.typed", "config/server.properties", "config/sordini.service")
MORE_DATA = "pipeline/jobs/log4j2.properties"
REPOSITORY = "https://forge.example/owner/sordini"


def committed() -> list[str]:
    command = ["git", "ls-tree", "-r", "--name-only", "HEAD"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def built(folder: Path, *, umask: int, **variables: str) -> Path:
    """The folder with what `make dist` builds; `twine check --strict` has passed."""
    command = [sys.executable, str(ROOT / "scripts" / "dist.py"), str(folder)]
    environment = {**os.environ, "SORDINI_REPOSITORY": REPOSITORY, **variables}
    done = subprocess.run(
        command, cwd=folder.parent, env=environment, umask=umask, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert done.stdout.count("PASSED") == 2
    return folder


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("package") / "dist", umask=0o022, TZ="UTC")


def test_the_wheel_holds_every_module_and_no_test(dist: Path) -> None:
    (wheel,) = dist.glob("sordini-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if name.startswith("sordini/")}
        others = {name.partition(".dist-info/")[2] for name in archive.namelist()} - {""}
    files = [name for name in committed() if name.partition("/")[0] in PACKAGES and name.endswith(".py")]
    files += [name for name in committed() if name.startswith("config/cluster/")]
    files += [name for name in committed() if name.startswith(("console/static/", "console/templates/"))]
    assert names == {f"sordini/{name}" for name in [*files, *DATA, MORE_DATA]}
    assert others == {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}


def test_the_metadata_is_fit_for_an_index(dist: Path) -> None:
    (wheel,) = dist.glob("sordini-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        wheels = email.message_from_bytes(archive.read(name))
    (source,) = dist.glob("sordini-*.tar.gz")
    with tarfile.open(source) as archive:
        (name,) = [name for name in archive.getnames() if name.count("/") == 1 and name.endswith("/PKG-INFO")]
        member = archive.extractfile(name)
        assert member is not None
        sources = email.message_from_bytes(member.read())
    assert wheels.as_string() == sources.as_string(), "the wheel is made of the source distribution"
    urls = dict(value.split(", ", 1) for value in wheels.get_all("Project-URL", []))
    assert urls.keys() == {"Repository", "Documentation", "Changelog", "Issues"}
    assert all(url.startswith(REPOSITORY) for url in urls.values())
    assert wheels["Author"]
    assert "testing" in wheels["Keywords"]
    assert wheels["License-Expression"] == "Apache-2.0"
    pythons = {value.rpartition(" ")[2] for value in wheels.get_all("Classifier", []) if ":: Python :: 3." in value}
    assert pythons == {"3.11", "3.12", "3.13"}
    assert f"]({REPOSITORY}/blob/v{wheels['Version']}/docs/installation.md)" in wheels.get_payload()


@pytest.mark.slow
def test_two_builds_of_a_commit_are_equal_byte_for_byte(dist: Path, tmp_path: Path) -> None:
    """The second one with other permissions, another time zone, and another order of sets."""
    again = built(tmp_path / "again", umask=0o077, TZ="Asia/Tokyo", PYTHONHASHSEED="7")
    assert sorted(path.name for path in again.iterdir()) == sorted(path.name for path in dist.iterdir())
    assert [path.name for path in dist.iterdir() if path.read_bytes() != (again / path.name).read_bytes()] == []


def test_the_wheel_runs_without_the_checkout(dist: Path, tmp_path: Path) -> None:
    (wheel,) = dist.glob("sordini-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    program = "import sordini, sordini.cli.__main__ as command; print(sordini.__file__); command.main(['--version'])"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
    )
    assert str(tmp_path / "site") in done.stdout
    assert "sordini, version" in done.stdout
