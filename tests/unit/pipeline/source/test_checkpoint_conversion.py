"""Checkpoints from one source to the other, file by file; Spark itself goes on with them in tests/pipeline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sordini.pipeline.source.checkpoint_conversion import BadCheckpoint, Converted, SourceKind, convert

HEAD = 'v1\n{"batchWatermarkMs":7,"conf":{}}'
AT = {"t": {"0": 4, "1": 5}}
START = {"t": {"0": 1, "1": 2}}
IDS = {"$topic_ids": {"t": "i5U90ILslhsOl9qdoOA25Q"}}


def checkpoint(folder: Path, *positions: Any, done: int, start: Any = None) -> Path:
    """A query's checkpoint with a batch for each position, `done` of them committed."""
    made = folder / "checkpoint"
    for below in ("offsets", "commits", "state/0/0"):
        (made / below).mkdir(parents=True)
    (made / "metadata").write_text('{"id":"x"}')
    (made / ".metadata.crc").write_bytes(b"1")
    (made / "state/0/0/1.delta").write_bytes(b"\1\2")
    for number, position in enumerate(positions):
        (made / f"offsets/{number}").write_text(f"{HEAD}\n{json.dumps(position)}")
        (made / f"offsets/.{number}.crc").write_bytes(b"2")
    for number in range(done):
        (made / f"commits/{number}").write_text('v1\n{"nextBatchWatermarkMs":7}')
    if start is not None:
        (made / "sources/0").mkdir(parents=True)
        (made / "sources/0/0").write_bytes(b"\0v1\n" + json.dumps(start).encode())
        (made / "sources/0/.0.crc").write_bytes(b"3")
    return made


def position(folder: Path, number: int) -> Any:
    head, line = (folder / f"offsets/{number}").read_text().rsplit("\n", 1)
    assert head == HEAD
    return json.loads(line)


def test_positions_and_only_they_change(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, {**AT, **IDS, "$started_at": START}, {**AT, **IDS}, done=2)
    done = convert(str(folder), str(tmp_path / "theirs"), SourceKind.KAFKA)
    assert done == Converted(1, is_done=True, offsets={"t": {0: 4, 1: 5}})
    assert [position(tmp_path / "theirs", number) for number in (0, 1)] == [AT, AT]
    for name in ("metadata", ".metadata.crc", "state/0/0/1.delta", "commits/1"):
        assert (tmp_path / "theirs" / name).read_bytes() == (folder / name).read_bytes()
    assert not list((tmp_path / "theirs").glob("offsets/.*.crc")), "Hadoop would refuse the changed files"
    assert position(folder, 1) == {**AT, **IDS}, "the other one stays"


def test_the_start_of_a_first_batch_that_is_not_done_goes_along(tmp_path: Path) -> None:
    (tmp_path / "ours").mkdir()
    ours = checkpoint(tmp_path / "ours", {**AT, **IDS, "$started_at": START}, done=0)
    done = convert(str(ours), str(tmp_path / "theirs"), SourceKind.KAFKA)
    assert done == Converted(0, is_done=False, offsets={"t": {0: 4, 1: 5}})
    assert (tmp_path / "theirs/sources/0/0").read_bytes() == b'\0v1\n{"t":{"0":1,"1":2}}'
    convert(str(tmp_path / "theirs"), str(tmp_path / "back"), SourceKind.SORDINI)
    assert position(tmp_path / "back", 0) == {**AT, "$started_at": START}


@pytest.mark.parametrize(
    ("made", "to", "complaint"),
    [
        ({"positions": [], "done": 0}, SourceKind.KAFKA, "whose query has not planned a batch yet"),
        ({"positions": [{"logOffset": 3}], "done": 1}, SourceKind.KAFKA, "is neither Kafka's nor sordini's"),
        ({"positions": [AT], "done": 0}, SourceKind.KAFKA, "does not say where the first batch begins"),
        ({"positions": [AT], "done": 0}, SourceKind.SORDINI, "sources/0/0 is missing"),
    ],
)
def test_what_cannot_be_converted_is_said_and_nothing_is_written(
    tmp_path: Path, made: dict[str, Any], to: SourceKind, complaint: str
) -> None:
    folder = checkpoint(tmp_path, *made["positions"], done=made["done"])
    with pytest.raises(BadCheckpoint, match=complaint):
        convert(str(folder), str(tmp_path / "into"), to)
    assert not (tmp_path / "into").exists()


def test_a_folder_that_exists_and_an_unknown_version_are_refused(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, AT, done=1)
    with pytest.raises(BadCheckpoint, match="exists already"):
        convert(str(folder), str(tmp_path), SourceKind.KAFKA)
    (folder / "offsets/0").write_text((folder / "offsets/0").read_text().replace("v1", "v9", 1))
    with pytest.raises(BadCheckpoint, match="offsets/0 is no offset log of version v1"):
        convert(str(folder), str(tmp_path / "into"), SourceKind.KAFKA)
    with pytest.raises(BadCheckpoint, match="is no checkpoint of a streaming query"):
        convert(str(tmp_path / "nowhere"), str(tmp_path / "into"), SourceKind.KAFKA)


def test_folders_may_be_relative_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint(tmp_path, AT, done=1)
    monkeypatch.chdir(tmp_path)
    assert convert("checkpoint", "ours", SourceKind.SORDINI).offsets == {"t": {0: 4, 1: 5}}
    assert position(tmp_path / "ours", 0) == AT
    with pytest.raises(BadCheckpoint, match=r"\./ours/ exists already"):
        convert("./checkpoint", "./ours/", SourceKind.SORDINI)
