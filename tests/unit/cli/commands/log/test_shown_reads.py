from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sordini.cli.commands.log.files.shown_reads import ShownReads
from sordini.cli.commands.log.verify.repair import copy_tree, repair_partition
from sordini.cli.commands.log.verify.verification import Verification
from sordini.cli.common.output import PROGRESS_MS, ProgressLine
from tests.support.builders import a_batch
from tests.unit.cli.common.test_output import StoppedClock, Terminal


class QuickClock(StoppedClock):
    """Whenever it is read, a line is due."""

    def monotonic_ms(self) -> int:
        self.time_ms += PROGRESS_MS
        return self.time_ms


def test_on_a_terminal_a_line_says_which_file_is_read_and_how_far_until_a_result_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(b"x" * 4000)
    terminal, clock = Terminal(), StoppedClock()
    monkeypatch.setattr(sys, "stderr", terminal)
    with ShownReads(ProgressLine(clock)) as disk:
        file = disk.open(str(path), writable=False)
        assert file.read_at(0, 3) == b"xxx"
        assert terminal.getvalue() == "", "a command that ends at once shows none"
        clock.time_ms = PROGRESS_MS
        assert file.read_at(2000, 5000) == b"x" * 2000
        shown = f"{path}: 2 kB of 4 kB"
        assert terminal.getvalue() == f"\r{shown}"
        disk.echo_lines("a result")
        assert terminal.getvalue() == f"\r{shown}\r{' ' * len(shown)}\r"
        clock.time_ms *= 2
        file.read_at(0, 1)
        file.close()
    assert terminal.getvalue().endswith(f"\r{' ' * len(f'{path}: 0 B of 4 kB')}\r"), "nothing of it stays"
    assert capsys.readouterr().out == "a result\n"


def test_a_file_that_is_written_is_the_disk_s_own(tmp_path: Path) -> None:
    file = ShownReads().open(str(tmp_path / "copy"), create=True)
    file.append([b"abc"])
    assert file.size() == 3
    file.close()


def test_a_repair_shows_what_is_copied_and_then_what_is_recovered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, copy = tmp_path / "orders-0", tmp_path / "copy"
    source.mkdir()
    (source / "00000000000000000000.log").write_bytes(a_batch())
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with ShownReads(ProgressLine(QuickClock())) as disk:
        run = Verification(disk, disk.echo_lines)
        run.check_path(str(source))
        run.finish()
        name = "00000000000000000000.log: 0 B of"
        terminal.truncate(0)
        copy_tree(disk, str(source), str(copy))
        assert f"{source}/{name}" in terminal.getvalue()
        terminal.truncate(0)
        repair_partition(disk, str(copy), run.loose[0], 0)
        assert f"{copy}/{name}" in terminal.getvalue()
