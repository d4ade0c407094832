"""The images that tests use, built without a registry of images.

The stand-in for `python:3.11-slim` is a Debian that debootstrap makes from this machine's own package source, with the
certificates and the settings of pip and apt that this machine has. None of them is in the repository.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from scripts.venv import configured_index
from tests.docker.engine import FOLDER, PYTHON_IMAGE, ZOOKEEPER_IMAGE, Engine

STAND_IN = Path(__file__).with_name("stand_in")
SUITE = "bookworm"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
SECONDS_MAX = 900.0


def build(engine: Engine) -> None:
    """All images, from what is cached where nothing has changed. The engine is one for builds."""
    import_python(engine)
    engine.docker("build", "--build-arg", f"BASE={PYTHON_IMAGE}", "--tag", ZOOKEEPER_IMAGE, str(STAND_IN))
    engine.docker("build", "--tag", "sordini", ".")
    # Compose finds every layer of its own build here.
    engine.compose("build")


def build_pipeline(engine: Engine) -> None:
    engine.docker("build", "--target", "pipeline", "--tag", "sordini-pipeline", ".")


def import_python(engine: Engine) -> None:
    """The stand-in for Python's image, unless the engine has it."""
    if engine.docker("images", "--quiet", PYTHON_IMAGE):
        return
    with tempfile.TemporaryDirectory(dir=FOLDER) as name:
        root = Path(name, "root")
        include = "--include=python3,python3-pip,python3-venv,ca-certificates"
        mirror = [found] if (found := package_source()) else []
        # What debootstrap mounts is gone with it, even when it is killed.
        alone = ["unshare", "--mount", "--propagation", "private"]
        command = [*alone, "debootstrap", "--variant=minbase", include, SUITE, str(root), *mirror]
        made = subprocess.run(command, check=False, capture_output=True, text=True, timeout=SECONDS_MAX)
        assert made.returncode == 0, made.stdout[-3000:] + made.stderr
        adapt(root)
        pack = ["tar", "--directory", str(root), "--create", "--one-file-system", "."]
        with subprocess.Popen(pack, stdout=subprocess.PIPE) as packed:
            subprocess.run(
                ["docker", "import", "-", PYTHON_IMAGE],
                stdin=packed.stdout,
                env=engine.environment(),
                stdout=subprocess.DEVNULL,
                check=True,
                timeout=SECONDS_MAX,
            )
        assert packed.returncode == 0


def package_source() -> str:
    """Where this machine's packages of the suite come from; empty for debootstrap's own default."""
    listed = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", f"Codename: {SUITE}"]
    found = subprocess.run(listed, check=False, capture_output=True, text=True).stdout.split()
    return found[0] if found else ""


def adapt(root: Path) -> None:
    """What Python's image has and Debian has not, and what this machine needs to reach its package sources."""
    (root / "usr/bin/python").symlink_to("python3")
    for mark in root.glob("usr/lib/python3.*/EXTERNALLY-MANAGED"):
        mark.unlink()
    shutil.rmtree(root / "var/cache/apt/archives", ignore_errors=True)
    (root / "var/cache/apt/archives/partial").mkdir(parents=True)
    if CERTIFICATES.exists():
        shutil.copyfile(CERTIFICATES, root / CERTIFICATES.relative_to("/"))
    settings = ["[global]", f"cert = {CERTIFICATES}"]
    if index := configured_index():
        settings.append(f"index-url = {index}")
    (root / "etc/pip.conf").write_text("\n".join(settings) + "\n", encoding="utf-8")
    dumped = subprocess.run(["apt-config", "dump", "Acquire"], check=False, capture_output=True, text=True).stdout
    kept = [line for line in dumped.splitlines() if re.match(r"Acquire::(Check|http|https|Retries)", line)]
    (root / "etc/apt/apt.conf.d/90machine").write_text("\n".join(kept) + "\n", encoding="utf-8")


def copy_of_repository(target: Path, source: Path) -> None:
    """The files that Git knows, those with changes too, as a reader's clone has them."""
    listed = subprocess.run(
        ["git", "-C", str(source), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True,
        capture_output=True,
    ).stdout
    for name in os.fsdecode(listed).split("\0"):
        if name and (source / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, target / name, follow_symlinks=False)
