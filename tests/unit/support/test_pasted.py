"""Blocks of a page in one shell: what a block leaves is there in the next one, and a failure names its block."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.support.pasted import paste, reader_environment, shell_session

S_MAX = 20


def printed(directory: Path, *blocks: str) -> list[str]:
    return paste(blocks, directory, reader_environment(), S_MAX)


def test_folder_variables_functions_and_background_jobs_of_a_block_are_there_in_the_next_one(tmp_path: Path) -> None:
    first = 'mkdir tls\ncd tls\nNAME=alice\nexport ADDRESS=here\nissue() { echo "issued to $1"; }\nsleep 60 & JOB=$!\n'
    second = 'pwd\nissue "$NAME"\nbash -c \'echo "$ADDRESS"\'\nkill -0 $JOB && echo running\nkill $JOB\nwait $JOB || echo stopped\n'
    assert printed(tmp_path, first, second) == ["", f"{tmp_path}/tls\nissued to alice\nhere\nrunning\nstopped\n"]


def test_each_block_has_its_own_output_of_both_kinds(tmp_path: Path) -> None:
    assert printed(tmp_path, "echo one; echo two >&2\n", "cat\n", "cat <<END\nthree\nEND\n") == [
        "one\ntwo\n",
        "",
        "three\n",
    ]


@pytest.mark.parametrize("failing", ["false | cat", "exit 0", "exit 3", "if true; then", "cd nowhere"])
def test_a_block_that_does_not_come_to_its_end_fails_and_is_named_with_what_it_printed(
    failing: str, tmp_path: Path
) -> None:
    with shell_session(tmp_path, reader_environment(), lambda: "the logs") as session:
        session.paste("echo fine\n", S_MAX)
        with pytest.raises(AssertionError, match=r"block 2 ended the shell with status \d(?s:.*)begun(?s:.*)the logs"):
            session.paste(f"echo begun\n{failing}\necho beyond > beyond\n", S_MAX)
    assert not (tmp_path / "beyond").exists()


def test_a_block_after_one_that_ended_the_shell_fails(tmp_path: Path) -> None:
    with shell_session(tmp_path, reader_environment()) as session:
        for count in (1, 2):
            with pytest.raises(AssertionError, match=f"block {count} ended the shell with status 5"):
                session.paste("exit 5\n", S_MAX)


def test_a_block_that_takes_too_long_fails_and_is_ended_with_all_that_it_left(tmp_path: Path) -> None:
    with shell_session(tmp_path, reader_environment()) as session:
        pids = session.paste("sleep 60 & echo $!\necho $$\n", S_MAX).split()
        with pytest.raises(AssertionError, match=r"block 2 did not end in 0\.5 s(?s:.*)\nwaiting\n"):
            session.paste("echo waiting\nwait\n", 0.5)
    assert [pid for pid in pids if not ends(int(pid))] == []


def ends(pid: int) -> bool:
    """Whether a killed process is gone soon, or waits for nothing but its parent."""
    deadline = time.monotonic() + S_MAX
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        os.sched_yield()
    return False


def test_the_notice_of_a_job_that_was_killed_disturbs_no_mark(tmp_path: Path) -> None:
    blocks = [
        "sleep 60 & JOB=$!\n",
        "kill -9 $JOB\nwhile kill -0 $JOB 2> /dev/null; do sleep 0.01; done\n",
        "echo on\n",
    ]
    assert printed(tmp_path, *blocks)[2] == "on\n"
