"""What stopped brokers have on disk is read as it is, and what is wrong with it is found."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.chaos.events import Dump, Files, Found
from tests.cluster.chaos.files import committed_heads, index_problems, later_epochs, left_by
from tests.support.builders import a_batch, some_records

TP = "t-0"


def test_a_stopped_brokers_files_are_read_as_they_are(tmp_path: Path) -> None:
    folder = tmp_path / TP
    folder.mkdir()
    first = a_batch([record._replace(value=b"a ....") for record in some_records(1)], leader_epoch=1)
    second = a_batch([record._replace(value=b"b") for record in some_records(1, base_offset=1)], base_offset=1)
    (folder / f"{0:020d}.log").write_bytes(first + second)
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n1 0\n")
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\nt 0 2\n")
    files, *dumps = left_by(1, tmp_path, TP)
    assert files == Files(1, TP, 2, [(1, 0)])
    assert [(one.base, one.end, one.vs) for one in dumps if isinstance(one, Dump)] == [(0, 1, ["a"]), (1, 2, ["b"])]
    assert [head[:2] for head in committed_heads(folder, 1)] == [(0, 1)]
    (folder / f"{0:020d}.log").write_bytes(first + second[:-1])
    assert [one.law for one in left_by(1, tmp_path, TP) if isinstance(one, Found)] == ["I13"]


def test_an_epoch_that_a_producer_without_transactions_took_is_found(tmp_path: Path) -> None:
    folder = tmp_path / TP
    folder.mkdir()
    fields = [(1, 0, False), (2, 3, False), (3, 4, True)]
    batches = [
        a_batch(1, base_offset=offset, producer_id=number, producer_epoch=epoch, base_sequence=0, transactional=is_one)
        for offset, (number, epoch, is_one) in enumerate(fields)
    ]
    (folder / f"{0:020d}.log").write_bytes(b"".join(batches))
    assert list(later_epochs(tmp_path, TP)) == [(2, 3)]


def test_a_wrong_index_entry_is_reported() -> None:
    log = a_batch(2) + a_batch(2, base_offset=2)
    second = len(a_batch(2))
    right = (3).to_bytes(4, "big") + second.to_bytes(4, "big")
    assert list(index_problems(0, log, right + bytes(8))) == []
    wrong = (3).to_bytes(4, "big") + (second + 1).to_bytes(4, "big")
    assert len(list(index_problems(0, log, wrong))) == 1
    assert len(list(index_problems(0, log, right + right))) == 1
