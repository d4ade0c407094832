"""Programs that Debian packages, installed where root runs this and they are missing."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Mapping

from scripts.fetching import run

PACKAGES = {"kcat": "kcat", "java": "default-jre-headless", "mvn": "maven", "strace": "strace", "ip": "iproute2"}


def install_programs(wanted: Iterable[str] = PACKAGES, packages: Mapping[str, str] = PACKAGES) -> None:
    missing = [packages[program] for program in wanted if shutil.which(program) is None]
    if not missing:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        advice = f"missing: {', '.join(missing)}; tests that need them are skipped (apt-get install them as root)"
        sys.exit(advice) if os.environ.get("CI") else print(advice, file=sys.stderr)
        return
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    apt = ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=120"]
    run([*apt, "update"], environment)
    run([*apt, "install", "-y", "--no-install-recommends", *missing], environment)


def install_debian(package: str) -> None:
    run(["apt-get", "install", "--yes", "-qq", "--no-install-recommends", package], dict(os.environ))
