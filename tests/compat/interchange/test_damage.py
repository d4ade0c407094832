"""Apache Kafka's directories, damaged in every way of the table of what it does with damage, and opened by us.

Where its own behaviour loses or shows what it should not - beside a clean-stop marker it believes everything - ours is
held to be safer: the log then is what it was.
"""

from __future__ import annotations

import asyncio
import random
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sordini.protocol.records.batch import crc_is_right
from sordini.protocol.types import TopicPartition
from sordini.storage import batch_scan
from sordini.storage.disk import SystemDisk
from sordini.storage.errors import StorageError, WrongDirectory
from sordini.storage.log import Log
from sordini.storage.log_config import LogConfig
from sordini.storage.log_manager import Identity, LogManager
from tests.compat.interchange.cluster import settings_of
from tests.compat.interchange.journeys import CleanJourney
from tests.compat.interchange.test_clean import THEIRS_1

MANY, MONEY, OPEN = TopicPartition("codecs", 0), TopicPartition("money", 0), TopicPartition("money", 1)
TRIMMED = TopicPartition("trimmed", 0)
SMALL = LogConfig(segment_bytes=16_384, index_interval_bytes=512)
MARKER = ".kafka_cleanshutdown"
PADDED_INDEX_BYTES, PADDED_TIMES_BYTES = 10_485_760, 10_485_756
CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
)

Damage = Callable[[Path], None]


class View(NamedTuple):
    """What a log would serve."""

    start: int
    end: int
    stable: int
    batches: list[tuple[int, int, int]]
    """First and last offset and CRC."""
    aborted: list[Any]
    times: list[Any]
    """What some timestamps are looked up as."""
    producers: list[tuple[int, int, int, int, int]]
    """Id, epoch, last sequence, last offset, first offset of the open transaction."""


def view(log: Log) -> View:
    end = log.log_end_offset
    batches = [
        (header.base_offset, header.last_offset, header.crc)
        for segment in log.segments.all()
        for _, header, data in batch_scan.batches(segment.handle, 0, segment.size)
        if crc_is_right(data, 0, header)
    ]
    first = log.find_timestamp(0, end)
    assert first is not None or end == log.log_start_offset
    largest = log.max_timestamp()
    since = 0 if first is None else first.timestamp
    step_ms = 1 if largest is None else max(1, (largest.timestamp - since) // 60)
    return View(
        log.log_start_offset,
        end,
        log.last_stable_offset(end),
        batches,
        log.aborted_transactions(log.log_start_offset, end),
        [log.find_timestamp(since + step_ms * step, end) for step in range(63)],
        sorted((entry[0], entry[1], entry[2], entry[3], entry[7]) for entry in log.producers.entries()),
    )


class Opened(NamedTuple):
    logs: LogManager
    findings: list[str]

    def view(self, partition: TopicPartition) -> View:
        log = self.logs.get(partition)
        assert log is not None
        return view(log)


class Directory:
    """A copy of a directory that Apache Kafka stopped in order, to be damaged and opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.now_ms = int((path / MARKER).stat().st_mtime * 1000)
        """When it was stopped: retention and the producers' age count from there."""
        self._managers: list[LogManager] = []

    def open(self, *, retention: bool = True) -> Opened:
        cluster_id = settings_of(self.path / "meta.properties").get("cluster.id", "c" * 22)
        logs = LogManager(SystemDisk(), [str(self.path)], Identity(3, cluster_id), lambda _: SMALL, random.Random(1))
        self._managers.append(logs)
        now_ms = self.now_ms
        findings = logs.open(now_ms)
        for log in logs.logs() if retention else ():
            # As the broker's pass does, and as both of Apache Kafka's destroy some of these logs.
            log.high_watermark = log.log_end_offset
            log.apply_retention(now_ms, log.high_watermark)
        return Opened(logs, findings)

    def stop(self) -> None:
        asyncio.run(self._managers.pop().close())

    def end(self) -> None:
        for manager in self._managers:
            asyncio.run(manager.close(clean=False))

    def files(self, partition: TopicPartition, suffix: str) -> list[Path]:
        found = sorted((self.path / str(partition)).glob(f"*{suffix}"))
        assert found
        return found


@pytest.fixture(scope="session")
def whole(clean: CleanJourney, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[TopicPartition, View]]:
    """What Apache Kafka left, and what it holds; the logs of a few topics only."""
    source, kept = clean.stages[THEIRS_1].files, tmp_path_factory.mktemp("whole") / "data"
    wanted = {str(partition) for partition in (MANY, MONEY, OPEN, TRIMMED)}

    def passed_over(folder: str, names: list[str]) -> set[str]:
        return (
            {name for name in names if (source / name).is_dir() and name not in wanted}
            if folder == str(source)
            else set()
        )

    shutil.copytree(source, kept, ignore=passed_over)
    sample = Directory(Path(shutil.copytree(kept, kept.with_name("sample"))))
    opened = sample.open()
    assert opened.findings == []
    views = {log.topic_partition: opened.view(log.topic_partition) for log in opened.logs.logs()}
    sample.end()
    return kept, views


@pytest.fixture
def directory(whole: tuple[Path, Any], tmp_path: Path) -> Iterator[Directory]:
    shutil.copytree(whole[0], tmp_path / "data")
    copy = Directory(tmp_path / "data")
    yield copy
    copy.end()


@pytest.fixture
def views(whole: tuple[Path, dict[TopicPartition, View]]) -> dict[TopicPartition, View]:
    return whole[1]


def test_the_directory_holds_what_the_damages_are_about(
    directory: Directory, views: dict[TopicPartition, View]
) -> None:
    assert len(directory.files(MANY, ".log")) >= 4
    assert len(views[MONEY].aborted) == 4, "two of each broker's"
    assert views[OPEN].stable < views[OPEN].end
    assert views[TRIMMED].start > 0
    assert views[OPEN].producers
    assert views[OPEN].producers[-1][4] == views[OPEN].stable
    assert len({found for found in views[MANY].times if found is not None}) > 10


# Damage of one partition's files. Each is done with and without the marker.


def without(suffix: str, *, last_only: bool = False) -> Callable[[list[Path]], None]:
    def damage(files: list[Path]) -> None:
        found = [path for path in files if path.name.endswith(suffix)]
        for path in found[-1:] if last_only else found:
            path.unlink()

    return damage


def rewritten(suffix: str, change: Callable[[bytes], bytes]) -> Callable[[list[Path]], None]:
    def damage(files: list[Path]) -> None:
        for path in files:
            if path.name.endswith(suffix):
                path.write_bytes(change(path.read_bytes()))

    return damage


def resized(fill: Callable[[bytes, int], bytes]) -> Callable[[list[Path]], None]:
    def damage(files: list[Path]) -> None:
        for path in files:
            for suffix, size in ((".index", PADDED_INDEX_BYTES), (".timeindex", PADDED_TIMES_BYTES)):
                if path.name.endswith(suffix):
                    data = fill(path.read_bytes(), size)
                    with path.open("wb") as file:
                        file.write(data)
                        file.truncate(size)

    return damage


def active_only(damage: Callable[[list[Path]], None]) -> Callable[[list[Path]], None]:
    def of_the_last(files: list[Path]) -> None:
        stem = max(path.stem for path in files if path.suffix == ".log")
        damage([path for path in files if path.stem == stem])

    return of_the_last


HARMLESS = {
    "none": lambda files: None,
    "index missing": without(".index"),
    "index of the last segment missing": without(".index", last_only=True),
    "timeindex missing": without(".timeindex"),
    "txnindex missing": without(".txnindex"),
    "all snapshots missing": without(".snapshot"),
    "last snapshot missing": without(".snapshot", last_only=True),
    "snapshots with a wrong CRC": rewritten(".snapshot", lambda data: data[:-1] + bytes([data[-1] ^ 1])),
    "snapshots of another version": rewritten(".snapshot", lambda data: b"\0\x09" + data[2:]),
    "snapshots cut short": rewritten(".snapshot", lambda data: data[: len(data) // 2]),
    "snapshots empty": rewritten(".snapshot", lambda data: b""),
    "index of an odd length": rewritten(".index", lambda data: data + b"\0\1\2"),
    "timeindex of an odd length": rewritten(".timeindex", lambda data: data[:-5]),
    "txnindex cut short": rewritten(".txnindex", lambda data: data[:-10]),
    "bad last entry of indexes": rewritten("index", lambda data: data[:-8] + b"\x7f" * 8),
    "indexes padded with zeros": resized(lambda data, size: data),
    "indexes all zero": resized(lambda data, size: b""),
    "indexes of the active segment padded": active_only(resized(lambda data, size: data)),
    "leader epochs missing": without("leader-epoch-checkpoint"),
    "partition.metadata missing": without("partition.metadata"),
    "orphan index": lambda files: (files[0].parent / f"{999_999:020d}.index").write_bytes(bytes(80)),
    "strange files": lambda files: (files[0].parent / "notes.txt").write_bytes(b"mine"),
}


@pytest.mark.parametrize("clean_stop", [True, False], ids=["with-marker", "without-marker"])
@pytest.mark.parametrize("damage", HARMLESS.values(), ids=HARMLESS.keys())
def test_a_log_that_lost_nothing_of_its_records_serves_them_as_before(
    directory: Directory, views: dict[TopicPartition, View], damage: Any, *, clean_stop: bool
) -> None:
    for partition in views:
        damage(sorted(path for path in (directory.path / str(partition)).iterdir() if path.is_file()))
    if not clean_stop:
        (directory.path / MARKER).unlink()
    opened = directory.open()
    assert {partition: opened.view(partition) for partition in views} == views
    directory.stop()
    assert_trimmed(directory)
    # What was rebuilt is valid for the next start of either broker.
    again = directory.open()
    assert again.findings == []
    assert {partition: again.view(partition) for partition in views} == views


def assert_trimmed(directory: Directory) -> None:
    """The marker is there, so no index may be padded."""
    assert (directory.path / MARKER).exists()
    assert all(path.stat().st_size < 4_096 for path in directory.path.glob("*/*index"))


@pytest.mark.parametrize("damage", [resized(lambda data, size: data), resized(lambda data, size: b"")])
def test_a_clean_shutdown_marker_of_ours_is_never_beside_a_padded_index(
    directory: Directory, views: dict[TopicPartition, View], damage: Any
) -> None:
    """As a start of 2.7.2 leaves them that failed: it enlarges all indexes before it removes the marker."""
    for partition in views:
        damage([path for path in (directory.path / str(partition)).iterdir() if path.is_file()])
    opened = directory.open(retention=False)
    assert opened.findings == []
    directory.stop()
    assert_trimmed(directory)


@pytest.mark.parametrize("clean_stop", [True, False], ids=["with-marker", "without-marker"])
@pytest.mark.parametrize("cut", [1, 30, 60])
def test_of_a_torn_tail_only_the_torn_batch_is_lost(
    directory: Directory, views: dict[TopicPartition, View], cut: int, *, clean_stop: bool
) -> None:
    last = directory.files(MANY, ".log")[-1]
    last.write_bytes(last.read_bytes()[:-cut])
    if not clean_stop:
        (directory.path / MARKER).unlink()
    opened = directory.open()
    before, after = views[MANY], opened.view(MANY)
    assert after.batches == before.batches[:-1]
    assert (after.start, after.end) == (before.start, before.batches[-1][0])
    assert opened.view(MONEY) == views[MONEY]
    assert any("codecs-0" in finding for finding in opened.findings)


def test_a_flipped_byte_in_the_last_segment_cuts_the_log_before_it_when_there_is_no_marker(
    directory: Directory, views: dict[TopicPartition, View]
) -> None:
    last = directory.files(MANY, ".log")[-1]
    flip(last, end_of_batch_at(last, last.stat().st_size // 2) - 1)  # Not its leader epoch, which no checksum covers.
    (directory.path / MARKER).unlink()
    before, after = views[MANY], directory.open().view(MANY)
    assert after.batches == before.batches[: len(after.batches)]
    assert int(last.stem) < after.end < before.end


def test_a_flipped_byte_below_the_recovery_point_is_not_looked_for_at_the_start(
    directory: Directory, views: dict[TopicPartition, View]
) -> None:
    """Nor does Apache Kafka: the reader's own check of the CRC finds it, and so does `sordini log verify`."""
    first = directory.files(MANY, ".log")[0]
    flip(first, first.stat().st_size // 2)
    (directory.path / MARKER).unlink()
    before, after = views[MANY], directory.open().view(MANY)
    assert (after.start, after.end) == (before.start, before.end)
    assert len(after.batches) == len(before.batches) - 1


def end_of_batch_at(path: Path, position: int) -> int:
    """Where the batch ends that contains a position."""
    data, end = path.read_bytes(), 0
    while end <= position:
        end += 12 + int.from_bytes(data[end + 8 : end + 12], "big")
    return end


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x20
    path.write_bytes(data)


def test_a_missing_segment_in_the_middle_is_a_hole(directory: Directory, views: dict[TopicPartition, View]) -> None:
    gone, after_it = directory.files(MANY, ".log")[1:3]
    gone.unlink()
    before, after = views[MANY], directory.open().view(MANY)
    hole = range(int(gone.stem), int(after_it.stem))
    assert after.batches == [batch for batch in before.batches if batch[0] not in hole]
    assert (after.start, after.end) == (before.start, before.end)


def test_a_partition_that_lost_all_its_files_starts_empty(
    directory: Directory, views: dict[TopicPartition, View]
) -> None:
    for path in (directory.path / str(MANY)).iterdir():
        path.unlink()
    assert directory.open().view(MANY)[:4] == (0, 0, 0, [])


# Damage of what all partitions share.


@pytest.mark.parametrize("clean_stop", [True, False], ids=["with-marker", "without-marker"])
@pytest.mark.parametrize("name", CHECKPOINTS[:2])
def test_a_missing_checkpoint_changes_nothing_of_the_records(
    directory: Directory, views: dict[TopicPartition, View], name: str, *, clean_stop: bool
) -> None:
    (directory.path / name).unlink()
    if not clean_stop:
        (directory.path / MARKER).unlink()
    opened = directory.open()
    assert {partition: opened.view(partition) for partition in views} == views


def test_without_its_checkpoint_a_log_starts_at_its_first_segment(
    directory: Directory, views: dict[TopicPartition, View]
) -> None:
    (directory.path / CHECKPOINTS[2]).unlink()
    first = int(directory.files(TRIMMED, ".log")[0].stem)
    opened = directory.open()
    assert opened.view(TRIMMED).start == first < views[TRIMMED].start
    assert opened.view(TRIMMED).end == views[TRIMMED].end


@pytest.mark.parametrize("text", [b"junk", b"0\n2\ncodecs 0 1\n", b"1\n0\n", b"0\nmany\n", b"0\n1\ncodecs 0 x\n"])
@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_checkpoint_that_cannot_be_read_takes_the_directory_away_and_nothing_is_changed(
    directory: Directory, name: str, text: bytes
) -> None:
    (directory.path / name).write_bytes(text)
    before = {path: path.read_bytes() for path in directory.path.rglob("*.log")}
    with pytest.raises(StorageError, match=re.escape(name)):
        directory.open()
    assert {path: path.read_bytes() for path in directory.path.rglob("*.log")} == before


@pytest.mark.parametrize("text", [b"junk", b"0\n2\n0 0\n", b"0\n1\n0 x\n"])
def test_leader_epochs_that_cannot_be_read_take_the_directory_away(directory: Directory, text: bytes) -> None:
    (directory.path / str(MANY) / "leader-epoch-checkpoint").write_bytes(text)
    with pytest.raises(StorageError, match="leader-epoch-checkpoint"):
        directory.open()


def test_a_leader_epoch_past_the_end_is_cut_off(directory: Directory, views: dict[TopicPartition, View]) -> None:
    path = directory.path / str(MANY) / "leader-epoch-checkpoint"
    version, count, *entries = path.read_text().splitlines()
    beyond = views[MANY].end + 10
    path.write_text("\n".join([version, str(int(count) + 1), *entries, f"99 {beyond}", ""]))
    opened = directory.open()
    assert opened.view(MANY) == views[MANY]
    directory.stop()
    assert "99" not in path.read_text().split()


def test_a_high_watermark_past_the_log_end_is_lowered_to_it(
    directory: Directory, views: dict[TopicPartition, View]
) -> None:
    (directory.path / CHECKPOINTS[1]).write_text("0\n1\ncodecs 0 999999\n")
    logs = directory.open().logs
    log = logs.get(MANY)
    assert log is not None
    assert log.high_watermark == views[MANY].end


@pytest.mark.parametrize("clean_stop", [True, False], ids=["with-marker", "without-marker"])
def test_a_log_start_past_the_end_empties_the_log_there(directory: Directory, *, clean_stop: bool) -> None:
    (directory.path / CHECKPOINTS[2]).write_text("0\n1\ncodecs 0 5000\n")
    if not clean_stop:
        (directory.path / MARKER).unlink()
    assert directory.open().view(MANY)[:4] == (5000, 5000, 5000, [])


@pytest.mark.parametrize("content", [b"", b"junk", b'{"version":0,"brokerEpoch":-1}'])
def test_whatever_is_in_the_marker_it_counts_as_one_and_is_gone_at_once(
    directory: Directory, views: dict[TopicPartition, View], content: bytes
) -> None:
    (directory.path / MARKER).write_bytes(content)
    opened = directory.open()
    assert not (directory.path / MARKER).exists()
    assert opened.view(OPEN) == views[OPEN]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("version=0\nbroker.id=9\n", "holds the logs of broker 9"),
        ("version=0\nbroker.id=3\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\n", "belongs to cluster AAAAAAAAAAAAAAAAAAAAAA"),
        ("version=1\nnode.id=3\n", "Apache Kafka in KRaft mode"),
        ("version=2\nbroker.id=3\n", "version"),
    ],
)
def test_another_clusters_directory_is_refused_and_not_changed(directory: Directory, text: str, said: str) -> None:
    (directory.path / "meta.properties").write_text(text)
    logs = LogManager(SystemDisk(), [str(directory.path)], Identity(3, "c" * 22), lambda _: SMALL, random.Random(1))
    with pytest.raises(WrongDirectory, match=said):
        logs.open(directory.now_ms)
    assert (directory.path / "meta.properties").read_text() == text
    assert (directory.path / MARKER).exists()


@pytest.mark.parametrize("text", [None, "version=0\nbroker.id=3\n"])
def test_a_directory_that_does_not_say_whose_it_is_is_taken(
    directory: Directory, views: dict[TopicPartition, View], text: str | None
) -> None:
    path = directory.path / "meta.properties"
    path.unlink()
    if text is None:
        manager = LogManager(
            SystemDisk(), [str(directory.path)], Identity(3, "c" * 22), lambda _: SMALL, random.Random(1)
        )
        manager.open(directory.now_ms)
        asyncio.run(manager.close())
    else:
        path.write_text(text)
    assert directory.open().view(MANY) == views[MANY]
    assert settings_of(path) | {"directory.id": ""} == {
        "version": "0",
        "broker.id": "3",
        "cluster.id": "c" * 22,
        "directory.id": "",
    }


@pytest.mark.parametrize(
    ("text", "is_fatal"),
    [
        ("version: 1\ntopic_id: {}", False),
        ("version: 0\ntopic_id: {}\n", False),
        ("version: 2\ntopic_id: {}", True),
        ("junk", True),
    ],
)
def test_a_topic_id_is_read_in_both_versions_and_one_that_cannot_be_read_takes_the_directory_away(
    directory: Directory, views: dict[TopicPartition, View], text: str, *, is_fatal: bool
) -> None:
    path = directory.path / str(MANY) / "partition.metadata"
    path.write_text(text.format(path.read_text().partition("topic_id: ")[2].strip()))
    if is_fatal:
        with pytest.raises(StorageError, match=r"partition\.metadata"):
            directory.open()
    else:
        assert directory.open().view(MANY) == views[MANY]
