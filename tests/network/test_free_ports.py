from __future__ import annotations

import subprocess
import sys
from random import Random

from tests.outside import ports

COUNT = 50
OTHER_PROCESS = f"""
from random import Random
from tests.outside import ports
ports._choose = Random(5)
print(*(ports.free_port() for _ in range({COUNT})))
"""


def test_two_test_processes_that_choose_alike_never_get_the_same_port(monkeypatch) -> None:
    monkeypatch.setattr(ports, "_choose", Random(5))
    ours = {ports.free_port() for _ in range(COUNT)}
    printed = subprocess.run([sys.executable, "-c", OTHER_PROCESS], capture_output=True, text=True, check=True).stdout
    theirs = {int(port) for port in printed.split()}
    assert len(ours) == len(theirs) == COUNT
    assert not ours & theirs
