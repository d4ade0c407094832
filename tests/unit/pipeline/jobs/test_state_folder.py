from __future__ import annotations

import json
from pathlib import Path

import pytest

from sordini.pipeline.jobs.state_folder import StateError, StateFolder


def test_what_was_written_is_read(tmp_path: Path) -> None:
    state = StateFolder(str(tmp_path / "state"))
    assert state.read("load/done.json") is None
    state.write("load/done.json", {"batch_id": 3})
    assert state.read("load/done.json") == {"batch_id": 3}
    assert state.below("load").read("done.json") == {"batch_id": 3}
    assert state.names("load") == ["done.json"]
    assert state.names("nothing") == []


@pytest.mark.parametrize("damaged", [b"{", b"[1]", b"\xff"])
def test_a_damaged_file_is_an_error_that_names_it(tmp_path: Path, damaged: bytes) -> None:
    (tmp_path / "done.json").write_bytes(damaged)
    with pytest.raises(StateError, match=r"done\.json"):
        StateFolder(str(tmp_path)).read("done.json")


def test_a_write_that_was_cut_short_leaves_what_was_there(tmp_path: Path) -> None:
    state = StateFolder(str(tmp_path))
    state.write("done.json", {"batch_id": 1})
    (tmp_path / ".done.json.new").write_text(json.dumps({"batch_id": 2})[:5])
    assert state.read("done.json") == {"batch_id": 1}
    state.write("done.json", {"batch_id": 2})
    assert state.read("done.json") == {"batch_id": 2}


def test_a_second_run_of_a_job_is_kept_away(tmp_path: Path) -> None:
    first, second = StateFolder(str(tmp_path)), StateFolder(str(tmp_path))
    with first.locked(), pytest.raises(StateError, match="another run"), second.locked():
        pass
    with StateFolder(str(tmp_path)).locked():
        pass


def test_a_folder_that_cannot_be_locked_is_not_taken_for_another_run(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    state = StateFolder(str(tmp_path / "file"))
    with (
        pytest.raises(StateError, match=r"file/lock cannot be locked: .*exists \(`state` says where it is\)"),
        state.locked(),
    ):
        pass
