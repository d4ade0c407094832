"""What `pip install .` brings: the whole package, importable without the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "broker",
    "cli",
    "client",
    "heritage",
    "mirror",
    "pipeline",
    "protocol",
    "replication",
    "storage",
    "system",
    "testing",
)


def test_the_wheel_holds_every_module_and_runs_without_the_checkout(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True, text=True)
    (wheel,) = tmp_path.glob("sordini-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if name.startswith("sordini/")}
        archive.extractall(tmp_path / "site")
    modules = {f"sordini/{path.relative_to(ROOT)}" for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    clusters = {f"sordini/{path.relative_to(ROOT)}" for path in (ROOT / "config" / "cluster").iterdir()}
    data = {"sordini/__init__.py", "sordini/__main__.py", "sordini/py.typed", "sordini/config/server.properties"}
    assert names == modules | data | clusters | {
        "sordini/config/sordini.service",
        "sordini/pipeline/jobs/log4j2.properties",
    }
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    program = "import sordini, sordini.cli.__main__ as command; print(sordini.__file__); command.main(['--version'])"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
    )
    assert str(tmp_path / "site") in done.stdout
    assert "sordini, version" in done.stdout
