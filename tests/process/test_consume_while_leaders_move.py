"""`sordini consume` begins to read while leaders move: its client must learn of the new ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from sordini.testing import make_kafka

PROGRAM = str(Path(sys.prefix) / "bin" / "sordini")


def test_a_reader_whose_leaders_moved_before_its_first_offset_reads_on() -> None:
    """aiokafka 0.14 asks the former leader until its metadata is old: five minutes by default."""
    with make_kafka(3) as kafka:
        orders = kafka.topic()
        kafka.produce(orders, "figs")
        words = ["consume", orders, "--group", "readers", "--from", "beginning", "--max-messages", "1"]
        with kafka.on("OffsetFetch", group="readers", times=1).hold(before=True) as held:
            command = [PROGRAM, *words, "--bootstrap", kafka.bootstrap_servers]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reader:
                try:
                    kafka.wait_for(lambda: held.used == 1, 30)
                    kafka.move_leader(orders)
                    held.release()
                    output, _ = reader.communicate(timeout=60)
                finally:
                    reader.kill()
    assert reader.returncode == 0
    assert "figs" in output
