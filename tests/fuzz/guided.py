"""One target under atheris (libFuzzer): inputs that reach new branches are kept and changed further.

`python -m tests.fuzz.guided requests FOLDER -max_total_time=60`; the rest are libFuzzer's own arguments. FOLDER gets the
inputs that reach new branches. A failure ends the process with its input in FOLDER. Run by `__main__.py`.
"""

from __future__ import annotations

import importlib
import pkgutil
import random
import sys
from pathlib import Path
from typing import Any

from tests.fuzz.corpus import kept

SEEDS = 300


def main() -> None:
    # Imported here: only this process may be instrumented.
    import atheris  # type: ignore[import-not-found, unused-ignore]

    name, folder, *arguments = sys.argv[1:]
    with atheris.instrument_imports(include=["sordini"], enable_loader_override=False):
        from tests.fuzz.targets.all import TARGETS

        for package in TARGETS[name].instrumented:
            _import_all(package)
    target = TARGETS[name]()
    chance = random.Random(f"{name} seeds")
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate([*kept(name).values(), *(target.draw(chance) for _ in range(SEEDS))]):
        (path / f"seed-{number}").write_bytes(data)

    def one_input(data: bytes) -> None:
        target.run(data)

    atheris.Setup([sys.argv[0], *arguments, f"-artifact_prefix={folder}/", "-timeout=60", folder], one_input)
    atheris.Fuzz()


def _import_all(package: str) -> None:
    """A module with those below it."""
    module: Any = importlib.import_module(package)
    for found in pkgutil.walk_packages(getattr(module, "__path__", ()), f"{package}."):
        if not found.name.endswith(("__main__", ".child")):
            importlib.import_module(found.name)


if __name__ == "__main__":
    main()
