"""Object stores that tests run: a server of S3's protocol, and emulators of Azure's and Google's."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from scripts.debian_packages import install_programs
from scripts.fetching import ROOT, existing, fetch_environment, has_go, run
from tests.outside import versions

S3_SERVER = ROOT / ".cache" / "s3" / "bin"
AZURITE = ROOT / ".cache" / "azurite"
GOOGLE = ROOT / ".cache" / "google"


def fetch_s3_server() -> None:
    """Versity's gateway: S3's protocol over a folder."""
    if (S3_SERVER / "versitygw").exists():
        return
    if not has_go():
        sys.exit(f"there is no Go {versions.GO} or newer on the path")
    module = f"github.com/versity/versitygw/cmd/versitygw@{versions.VERSITY_GATEWAY}"
    run(["go", "install", module], {**os.environ, "GOBIN": str(S3_SERVER)})


def fetch_azurite() -> None:
    """Microsoft's emulator of Azure's stores. No script of a package is run."""
    folder = AZURITE / versions.AZURITE
    if (folder / "node_modules").exists():
        return
    install_programs(("npm",), {"npm": "npm"})
    if shutil.which("npm") is None:
        sys.exit("there is no npm")
    print(f"installing azurite {versions.AZURITE} into {folder.relative_to(ROOT)}", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=existing(AZURITE)) as arriving:
        quiet = ["--silent", "--no-audit", "--no-fund", "--omit=dev", "--ignore-scripts"]
        run(["npm", "install", *quiet, "--prefix", arriving, f"azurite@{versions.AZURITE}"], dict(os.environ))
        Path(arriving, "node_modules").replace(existing(folder) / "node_modules")


def fetch_google() -> None:
    fetch_environment(GOOGLE, versions.GOOGLE_EMULATOR)
