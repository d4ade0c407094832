"""README.md as its first reader follows it: a fresh clone, and a wheel in an environment with nothing else.

These fetch libraries from the package index that pip is set up for: with SORDINI_FIRST_HOUR=all.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from scripts import tour
from scripts.venv import bootstrap_pip
from tests.outside.needs import need_program
from tests.outside.ports import free_port
from tests.support.pasted import reader_environment, shell_session

ROOT = Path(__file__).resolve().parents[2]
BLOCK_S_MAX = 240
INSTALL_S_MAX = 900
READY = re.compile(r"sordini is ready: broker \d+ of cluster [\w-]{22} listens on (\S+) \(\d+\.\d\d s\)\n")

pytestmark = pytest.mark.skipif(
    os.environ.get("SORDINI_FIRST_HOUR") != "all", reason="installs everything: with SORDINI_FIRST_HOUR=all"
)


def environment_without_ours() -> dict[str, str]:
    """A reader's environment: neither our programs nor settings of Python, make and pytest."""
    here = str(Path(sys.executable).parent)
    path = os.pathsep.join(part for part in os.environ["PATH"].split(os.pathsep) if part != here)
    unset = ("PYTHON", "MAKE", "MFLAGS", "PYTEST", "SORDINI", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if not name.startswith(unset)} | {"PATH": path}


def test_the_tour_goes_through_in_a_fresh_clone_as_it_is_pasted(tmp_path: Path) -> None:
    need_program("kcat", "kcat")
    clone, address = tmp_path / "sordini", f"127.0.0.1:{free_port()}"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True, timeout=BLOCK_S_MAX)
    blocks = tour.blocks((clone / "README.md").read_text(encoding="utf-8"))
    made = f"make run ARGS='--daemon --override listeners=PLAINTEXT://{address}'"
    blocks = [block.replace("make run ARGS=--daemon", made).replace(tour.ADDRESS, address) for block in blocks]
    environment = environment_without_ours() | {"SORDINI_BOOTSTRAP": address}
    with shell_session(clone, environment) as session:
        session.paste("make .venv/.installed-serve\n", INSTALL_S_MAX)
        try:
            started, *outputs = [session.paste(block, BLOCK_S_MAX) for block in blocks]
        finally:
            stop(clone)
    found = READY.fullmatch(started)
    assert found is not None, started
    assert found[1] == address
    assert "100 more lines read" in "".join(outputs)
    assert "read_committed [b'5', b'7']" in "".join(outputs)
    assert modules_without_bytecode(clone) == []


def modules_without_bytecode(clone: Path) -> list[str]:
    """Modules of the broker that its first start would have had to compile."""
    modules = [path for name in ("broker", "storage", "cli") for path in (clone / name).rglob("*.py")]
    return [str(path) for path in modules if not Path(cache_from_source(str(path))).exists()]


def test_the_tour_goes_through_with_a_wheel_in_a_bare_environment(tmp_path: Path) -> None:
    need_program("kcat", "kcat")
    folder, address = tmp_path / "bare", f"127.0.0.1:{free_port()}"
    dist = [sys.executable, str(ROOT / "scripts" / "dist.py"), str(tmp_path / "dist")]
    subprocess.run(dist, check=True, capture_output=True, timeout=BLOCK_S_MAX)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    venv.create(folder, symlinks=True)
    bootstrap_pip(folder / "bin" / "python")
    environment = environment_without_ours()
    environment |= {"PATH": os.pathsep.join([str(folder / "bin"), environment["PATH"]]), "SORDINI_BOOTSTRAP": address}
    for name in ("README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    start = f"sordini serve --daemon --override listeners=PLAINTEXT://{address} --override log.dirs=data"
    script = tour.tour("sordini stop --pid-file data/sordini.pid", start, address)
    with shell_session(tmp_path, environment) as session:
        session.paste(f"python -m pip install --quiet {wheel}\n", INSTALL_S_MAX)
        origin = session.paste('python -c "import sordini; print(sordini.__file__)"\n', BLOCK_S_MAX)
        assert Path(origin.strip()).is_relative_to(folder)
        session.paste(f"{start}\n", BLOCK_S_MAX)
        try:
            assert "100 more lines read" in session.paste(script, BLOCK_S_MAX)
        finally:
            stop(tmp_path)


def stop(folder: Path) -> None:
    """Where a tour has failed, its broker runs."""
    command = ["sordini", "stop", "--override", "log.dirs=data", "--force", "--timeout", "10"]
    subprocess.run(command, cwd=folder, env=reader_environment(), capture_output=True, check=False, timeout=BLOCK_S_MAX)
