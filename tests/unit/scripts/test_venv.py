"""scripts/venv.py: what it does with an environment beside installing into it."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import cache_from_source
from pathlib import Path

from scripts.venv import compile_package

PROJECT = '[tool.hatch.build.targets.wheel]\nonly-include = ["broker", "py.typed"]\n'


def test_modules_are_compiled_so_that_the_first_start_does_not_do_it(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "py.typed").touch()
    (tmp_path / ".import").mkdir()
    (tmp_path / ".import" / "sordini").symlink_to("..")
    (tmp_path / "__init__.py").touch()
    module = tmp_path / "broker" / "network" / "channel.py"
    module.parent.mkdir(parents=True)
    module.write_text("print(__cached__)\n")
    outside = tmp_path / "tests" / "test_channel.py"
    outside.parent.mkdir()
    outside.write_text("this is compiled by nothing\n")
    compile_package(Path(sys.executable), tmp_path)
    compiled = Path(cache_from_source(str(module)))
    written = compiled.stat().st_mtime_ns
    importing = [sys.executable, "-c", "import sordini.broker.network.channel"]
    done = subprocess.run(
        importing, cwd=tmp_path / ".import", env={}, capture_output=True, text=True, check=True, timeout=60
    )
    assert Path(done.stdout.strip()).samefile(compiled), done.stderr
    assert compiled.stat().st_mtime_ns == written, "an import found it valid, and wrote no other"
    assert not Path(cache_from_source(str(outside))).exists()
