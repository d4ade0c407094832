"""Brings the locked jars from a Maven repository, with the standard library alone: no Maven, no Spark.

    sordini pipeline jars FOLDER

The repository is, in this order: the option --repository, the environment's MAVEN_REPO_URL, the mirror that Maven's
own settings put in the place of its central repository (the user's, then those of the Maven on the PATH), and else
that central repository. A file counts only when its SHA-256 is the locked one, and appears under its name whole or
not at all.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import urllib.request
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping
from pathlib import Path

from sordini.pipeline.errors import PipelineError
from sordini.pipeline.jars.lock import Jar

TIMEOUT_SECONDS = 60.0
CENTRAL = "https://repo.maven.apache.org/maven2"
"""Maven's central repository, where Apache publishes what it releases."""
_MIRRORS_OF_ALL = frozenset({"*", "central", "external:*"})


class JarError(PipelineError):
    """A jar cannot be had, or is not the one that was locked."""


def fetch(folder: Path, repository: str, jars: Iterable[Jar]) -> list[Path]:
    """The paths of the jars in `folder`, downloaded where they are not there yet.

    `repository` is an address such as "https://host/path". Raises JarError.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as wrong:
        raise JarError(f"{folder} cannot be made: {wrong.strerror}") from wrong
    paths = []
    for jar in jars:
        path = folder / jar.file_name
        if not path.exists() or _sha256(path) != jar.sha256:
            _download(f"{repository.rstrip('/')}/{jar.path}", path, jar.sha256)
        paths.append(path)
    return paths


def repository(environment: Mapping[str, str] = os.environ, home: Path | None = None) -> str:
    """The address of the Maven repository to use; see above. Raises JarError for settings that are not XML."""
    if address := environment.get("MAVEN_REPO_URL"):
        return address
    places = [(home or Path.home()) / ".m2" / "settings.xml"]
    if program := shutil.which("mvn", path=environment.get("PATH")):
        places.append(Path(program).resolve().parents[1] / "conf" / "settings.xml")
    return next((address for address in map(mirror, places) if address), CENTRAL)


def mirror(settings: Path) -> str | None:
    """The address that Maven's settings put in the place of its central repository."""
    try:
        tree = ET.parse(settings)  # noqa: S314  The user's own file, which Maven trusts as well.
    except FileNotFoundError:
        return None
    except ET.ParseError as wrong:
        raise JarError(f"{settings} is not XML: {wrong}") from wrong
    for one in tree.iterfind(".//{*}mirror"):
        names = (one.findtext("{*}mirrorOf") or "").split(",")
        if _MIRRORS_OF_ALL & {name.strip() for name in names} and one.findtext("{*}blocked") != "true":
            return (one.findtext("{*}url") or "").strip() or None
    return None


def _download(address: str, path: Path, sha256: str) -> None:
    """Put a file under its name once its bytes are the expected ones; `path` stays as it was otherwise."""
    if not address.startswith(("https://", "http://", "file://")):
        raise JarError(f"{address} is no address of a Maven repository")
    arriving = path.with_name(f"{path.name}.arriving-{os.getpid()}")
    try:
        request = urllib.request.urlopen(address, timeout=TIMEOUT_SECONDS)  # noqa: S310  As checked above.
        with request as answer, arriving.open("wb") as file:
            shutil.copyfileobj(answer, file)
        found = _sha256(arriving)
        if found != sha256:
            raise JarError(f"{address} is not the locked file: its SHA-256 is {found}, not {sha256}")
        arriving.replace(path)
    except OSError as wrong:  # URLError is one.
        raise JarError(f"{address} cannot be had: {wrong}") from wrong
    finally:
        arriving.unlink(missing_ok=True)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
