"""Jars are fetched from the repository that is named, and count only with the bytes that were locked."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from click.testing import CliRunner

from sordini.cli.__main__ import main
from sordini.pipeline.jars.fetching import CENTRAL, JarError, fetch, mirror, repository
from sordini.pipeline.jars.lock import Jar

BYTES = b"the bytes of a jar"
JAR = Jar("org.example", "thing", "1.0", hashlib.sha256(BYTES).hexdigest())
SETTINGS = """<settings xmlns="http://maven.apache.org/SETTINGS/1.2.0"><mirrors>
<mirror><id>blocker</id><mirrorOf>external:*</mirrorOf><url>http://0.0.0.0/</url><blocked>true</blocked></mirror>
<mirror><id>ours</id><mirrorOf>other, central</mirrorOf><url> https://maven.example/all </url></mirror>
</mirrors></settings>"""


@pytest.fixture
def served(tmp_path: Path) -> str:
    """The address of a repository with that one jar."""
    path = tmp_path / "repository" / JAR.path
    path.parent.mkdir(parents=True)
    path.write_bytes(BYTES)
    return (tmp_path / "repository").as_uri()


def test_a_jar_is_fetched_once_and_kept(served: str, tmp_path: Path) -> None:
    folder = tmp_path / "jars"
    (path,) = fetch(folder, served, [JAR])
    assert path.read_bytes() == BYTES
    assert fetch(folder, "file:///nowhere", [JAR]) == [path], "nothing is asked for again"
    assert list(folder.iterdir()) == [path]


def test_other_bytes_than_the_locked_ones_are_refused_and_leave_nothing(served: str, tmp_path: Path) -> None:
    folder = tmp_path / "jars"
    with pytest.raises(JarError, match=r"thing-1\.0\.jar is not the locked file"):
        fetch(folder, served, [JAR._replace(sha256="0" * 64)])
    assert list(folder.iterdir()) == []


def test_a_file_of_that_name_with_other_bytes_is_fetched_again(served: str, tmp_path: Path) -> None:
    (tmp_path / JAR.file_name).write_bytes(b"half a j")
    (path,) = fetch(tmp_path, f"{served}/", [JAR])
    assert path.read_bytes() == BYTES


@pytest.mark.parametrize("address", ["file:///nowhere", "ftp://maven.example/all", "maven.example"])
def test_a_repository_that_cannot_be_had_is_named(tmp_path: Path, address: str) -> None:
    with pytest.raises(JarError, match=address):
        fetch(tmp_path, address, [JAR])
    assert list(tmp_path.iterdir()) == []


def test_the_repository_is_the_environments_before_mavens_mirror(tmp_path: Path) -> None:
    settings = tmp_path / ".m2" / "settings.xml"
    settings.parent.mkdir()
    settings.write_text(SETTINGS)
    assert repository({"MAVEN_REPO_URL": "https://maven.example/mine"}, tmp_path) == "https://maven.example/mine"
    assert repository({}, tmp_path) == "https://maven.example/all", "neither blocked nor of another repository"


def test_without_either_it_is_mavens_own_or_its_central_repository(tmp_path: Path) -> None:
    assert repository({}, tmp_path) == CENTRAL
    maven = tmp_path / "maven"
    for folder in ("bin", "conf"):
        (maven / folder).mkdir(parents=True)
    (maven / "bin" / "mvn").touch(0o755)
    (maven / "conf" / "settings.xml").write_text(SETTINGS)
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "mvn").symlink_to(maven / "bin" / "mvn")
    assert repository({"PATH": str(tmp_path / "path")}, tmp_path) == "https://maven.example/all"
    (maven / "conf" / "settings.xml").unlink()
    assert repository({"PATH": str(tmp_path / "path")}, tmp_path) == CENTRAL
    assert CENTRAL.startswith("https://")


def test_a_folder_that_cannot_be_made_is_reported(served: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(JarError, match=r"file/jars cannot be made: Not a directory"):
        fetch(tmp_path / "file" / "jars", served, [JAR])


def test_the_command_takes_its_repository_from_the_option_before_the_environment(served: str, tmp_path: Path) -> None:
    arguments = ["pipeline", "jars", str(tmp_path / "jars"), "--repository", f"{served}/none"]
    result = CliRunner().invoke(main, arguments, env={"MAVEN_REPO_URL": "https://maven.example/mine"})
    assert result.exit_code == 1
    assert f"4 jars from {served}/none\nsordini: {served}/none/org/apache/spark/" in result.output
    assert "cannot be had" in result.output


def test_the_command_says_for_which_pyspark_there_are_jars(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["pipeline", "jars", str(tmp_path / "jars"), "--pyspark", "9.9.9"])
    assert result.exit_code == 1
    assert "was not tested with PySpark 9.9.9" in result.output


def test_settings_that_are_not_xml_are_named(tmp_path: Path) -> None:
    settings = tmp_path / "settings.xml"
    settings.write_text("<settings>")
    with pytest.raises(JarError, match=r"settings\.xml is not XML"):
        mirror(settings)
