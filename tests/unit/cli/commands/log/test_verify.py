"""`log verify`: a sound directory is said to be sound; every damage is found where it is, and mended in a copy."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.admin.failure import Failure
from sordini.cli.commands.log.verify.findings import KINDS, Finding
from sordini.cli.commands.log.verify.repair import copy_tree
from sordini.cli.commands.log.verify.verification import RepairOfCopy, Verification
from sordini.protocol.records.batch import Record, read_header
from sordini.protocol.records.compression import GZIP
from sordini.protocol.records.legacy_writing import write_messages
from sordini.protocol.types import TopicPartition
from sordini.storage import names
from sordini.storage.checkpoints import write_epochs, write_offsets
from sordini.storage.disk import SystemDisk
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.support.builders import a_batch, some_records
from tests.support.damaged_logs import (
    BASES,
    DAMAGES,
    DATA,
    DIRECTORY,
    END,
    LAST,
    Damage,
    a_store,
    keeps,
    path,
    positions,
)
from tests.support.log_model import PARTITION, SMALL, a_manager, contents
from tests.support.rich_log import at_offset

NOW_MS = 10_000_000


def verified(disk: ForgetfulDisk, *paths: str) -> Verification:
    run = Verification(disk, lambda text: None)
    for one in paths or (DATA,):
        run.check_path(one)
    run.finish()
    run.as_json()
    return run


def findings(run: Verification) -> list[Finding]:
    loose = [finding for partition in run.loose for finding in partition.findings]
    return [*run.other, *loose, *(finding for report in run.directories for finding in report.all_findings())]


def names_found(run: Verification) -> list[tuple[str, str]]:
    return [(finding.kind, finding.path.rpartition("/")[2]) for finding in findings(run)]


def records(disk: ForgetfulDisk, data: str = DATA) -> list[tuple[int, bytes]]:
    """What our broker's storage reads from a directory."""
    survivor = disk.killed()
    if data != DATA:
        for name in survivor.list_directory(DATA):
            if survivor.is_directory(f"{DATA}/{name}"):
                for file in survivor.list_directory(f"{DATA}/{name}"):
                    survivor.remove(f"{DATA}/{name}/{file}")
                survivor.remove_directory(f"{DATA}/{name}")
            else:
                survivor.remove(f"{DATA}/{name}")
        survivor.remove_directory(DATA)
        survivor.rename(data, DATA)
    manager = a_manager(survivor, SMALL)
    manager.open(NOW_MS)
    assert manager.offline_directories == []
    log = manager.get(PARTITION)
    assert log is not None
    return contents(log)


@pytest.mark.parametrize("clean", [True, False])
def test_a_sound_directory_is_said_to_be_sound(clean: bool) -> None:
    disk = a_store(clean=clean)
    run = verified(disk)
    assert findings(run) == []
    assert not run.is_damaged
    (partition,) = run.directories[0].partitions
    assert (partition.end_offset, partition.total("records"), len(partition.segments)) == (END, END, 5)
    assert findings(verified(disk, DIRECTORY)) == []


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damage_is_found_in_its_file_and_a_mended_copy_holds_all_that_came_before_it(damage: Damage) -> None:
    disk = a_store(clean=damage.clean)
    whole = records(disk)
    damage.do(disk)
    before = disk.tree(DATA)
    run = verified(disk)
    assert run.is_damaged
    assert (damage.kind, damage.file) in names_found(run)
    mending = RepairOfCopy(disk, run, lambda text: None)
    after = mending.run(DATA, "/copy", NOW_MS)
    assert {finding.kind for finding in findings(after) if finding.is_damage} == set(damage.stays)
    assert disk.tree(DATA) == before
    kept = records(disk, "/copy")
    gone = range(22, 32) if damage.kind == "gap" else range(0)
    expected = [record for record in whole if record[0] not in gone]
    assert kept == [record for record in expected if record[0] < (kept[-1][0] + 1 if kept else 0)]
    assert len(kept) >= len([record for record in expected if record[0] < keeps(damage)])


def test_there_is_a_damage_of_every_kind_that_can_be_found_in_one_directory() -> None:
    """All but the large index that is short, the duplicate and the start below the first segment."""
    elsewhere = {"index-short", "duplicate-partition", "log-start-below"}
    assert len(DAMAGES) >= 25
    tried = {damage.kind for damage in DAMAGES.values()}
    assert {kind for kind, reported in KINDS.items() if not reported.is_note} - tried == elsewhere


@given(st.data())
def test_any_changed_byte_that_matters_is_found_and_costs_nothing_before_its_batch(data: st.DataObject) -> None:
    disk = a_store()
    whole = records(disk)
    base = data.draw(st.sampled_from(BASES))
    file = path(base)
    before = disk.contents(file)
    at = data.draw(st.integers(0, len(before) - 1))
    disk.replace(file, before[:at] + bytes([before[at] ^ data.draw(st.integers(1, 255))]) + before[at + 1 :])
    start = max(position for position in positions(before) if position <= at)
    if at - start < 17 and not verified(disk).is_damaged:
        # Neither the leader's epoch nor a base offset that gets no higher than the next one's is under the CRC.
        assert at - start in {*range(8), *range(12, 16)}
        return
    run = verified(disk)
    assert any(finding.path == file for finding in findings(run)) or 12 <= at - start < 16
    after = RepairOfCopy(disk, run, lambda text: None).run(DATA, "/copy", NOW_MS)
    # A leader's epoch that is wrong in the batch itself contradicts whatever the checkpoint says.
    assert {finding.kind for finding in findings(after) if finding.is_damage} <= {"gap", "epochs-wrong"}
    kept = records(disk, "/copy")
    intact = [record for record in whole if record[0] < read_header(before, start).base_offset]
    assert kept[: len(intact)] == intact


@given(st.binary(max_size=300), st.sampled_from([".log", ".index", ".timeindex", ".txnindex", ".snapshot"]))
def test_files_of_any_bytes_are_verified_to_an_end_and_mended(junk: bytes, suffix: str) -> None:
    disk = a_store()
    disk.replace(path(LAST, suffix), junk)
    run = verified(disk)
    after = RepairOfCopy(disk, run, lambda text: None).run(DATA, "/copy", NOW_MS)
    assert not after.is_damaged
    kept = records(disk, "/copy")
    assert kept[-1][0] >= (LAST if suffix != ".log" else LAST - 1) - 1


def test_one_partition_s_directory_is_mended_by_itself() -> None:
    disk = a_store(clean=False)
    disk.replace(path(LAST), disk.contents(path(LAST))[:-3])
    disk.remove(path(11, names.OFFSET_INDEX))
    reported: list[str] = []
    run = Verification(disk, reported.append)
    run.check_path(DIRECTORY + "/")
    run.finish()
    assert run.is_damaged
    assert reported[0].startswith(f"DAMAGED  {DIRECTORY}  5 segments  ")
    assert "Meaning: the newest batch is incomplete" in reported[0]
    mending = RepairOfCopy(disk, run, reported.append)
    after = mending.run(DIRECTORY, "/other/orders-3", NOW_MS)
    assert not after.is_damaged
    (repaired,) = mending.repaired
    assert (repaired.end_offset, repaired.lost) == (52, ((52, 53),))
    assert "lost: 52-53" in reported[-2]
    assert reported[-1] == "the copy in /other/orders-3 is intact"
    assert mending.as_json(after)["repaired"][0]["lost"] == [{"first": 52, "last": 53}]


@pytest.mark.parametrize("number", [2, 7], ids=["data", "a transaction's end before a snapshot"])
@pytest.mark.parametrize("at", [23, 40, 65], ids=["last offset", "times", "records"])
def test_what_comes_after_a_damaged_batch_is_not_called_damaged_for_it(at: int, number: int) -> None:
    disk = a_store()
    data = disk.contents(path(22))
    at += positions(data)[number]
    disk.replace(path(22), data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :])
    assert names_found(verified(disk)) == [("wrong-crc", names.file_name(22, ".log"))]


def test_a_copy_has_the_files_own_times_for_retention_goes_by_them() -> None:
    disk = a_store()
    disk.set_modified_ms(path(0), 1_234_000)
    disk.replace(f"{DATA}/{names.LOCK}", b"")
    copy_tree(disk, DATA, "/copy")
    assert disk.modified_ms(f"/copy/{PARTITION}/{names.file_name(0, '.log')}") == 1_234_000
    copied = {file.removeprefix("/copy"): data for file, data in disk.tree("/copy").items()}
    originals = {file.removeprefix(DATA): data for file, data in disk.tree(DATA).items()}
    assert copied == {file: data for file, data in originals.items() if not file.endswith(names.LOCK)}


def test_nothing_is_repaired_in_place_beside_other_files_or_under_a_running_broker() -> None:
    disk = a_store()
    run = verified(disk)
    mending = RepairOfCopy(disk, run, lambda text: None)
    for target in (DATA, f"{DATA}/inner", "/"):
        with pytest.raises(Failure, match="must be outside of the directory"):
            mending.run(DATA, target, NOW_MS)
    disk.replace("/full/file", b"")
    with pytest.raises(Failure, match="exists already"):
        mending.run(DATA, "/full", NOW_MS)
    lock = disk.lock(f"{DATA}/{names.LOCK}")
    live = verified(disk)
    assert [finding.kind for finding in findings(live)] == ["live"]
    assert not live.is_damaged
    with pytest.raises(Failure, match="a broker is running"):
        RepairOfCopy(disk, live, lambda text: None).run(DATA, "/copy", NOW_MS)
    lock.close()


def test_a_directory_that_cannot_be_walked_is_not_copied(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "t-0").mkdir(parents=True)
    (data / "loop").symlink_to(data)
    disk = SystemDisk()
    run = Verification(disk, lambda _: None)
    run.check_path(str(data))
    run.finish()
    with pytest.raises(Failure, match="cannot be copied"):
        RepairOfCopy(disk, run, lambda _: None).run(str(data), str(tmp_path / "copy"), NOW_MS)


def test_a_partition_in_two_directories_of_one_broker_is_found_and_replicas_of_others_are_not() -> None:
    disk = a_store()
    copy_tree(disk, DATA, "/second")
    assert ("duplicate-partition", str(PARTITION)) in names_found(verified(disk, DATA, "/second"))
    meta = disk.contents(f"/second/{names.META_PROPERTIES}").replace(b"broker.id=1", b"broker.id=2")
    disk.replace(f"/second/{names.META_PROPERTIES}", meta)
    assert not verified(disk, DATA, "/second").is_damaged


def test_an_index_that_ends_long_before_its_log_is_found() -> None:
    disk = a_store(clean=False)
    large = b"".join(a_batch([Record(number, 5, None, bytes(1_000_000))], base_offset=number) for number in range(10))
    disk.replace(path(LAST), at_offset(large, LAST))
    disk.replace(path(LAST, ".index"), b"")
    disk.replace(path(LAST, ".txnindex"), b"")
    assert ("index-short", names.file_name(LAST, ".index")) in names_found(verified(disk))


def test_a_log_start_before_the_first_segment_is_found() -> None:
    disk = a_store()
    for suffix in names.SEGMENT_SUFFIXES:
        disk.remove(path(0, suffix))
    write_offsets(disk, DATA, names.LOG_STARTS, {PARTITION: 4})
    run = verified(disk)
    assert [kind for kind, _ in names_found(run)] == ["log-start-below"]


def test_leftovers_strangers_and_entries_of_nothing_are_reported_and_are_no_damage() -> None:
    disk = a_store()
    disk.replace(path(0, ".log.deleted"), b"")
    disk.replace(path(90, ".log.swap"), b"")
    disk.replace(f"{DIRECTORY}/notes.txt", b"")
    disk.make_directory(f"{DATA}/orders-7.0123-delete")
    disk.remove(f"{DATA}/{names.META_PROPERTIES}")
    write_offsets(disk, DATA, names.HIGH_WATERMARKS, {TopicPartition("gone", 0): 1})
    run = verified(disk)
    kinds = {kind for kind, _ in names_found(run)}
    assert kinds == {
        "leftover",
        "unfinished-swap",
        "other-file",
        "other-directory",
        "meta-missing",
        "entry-without-partition",
    }
    assert not run.is_damaged


def test_what_compaction_takes_is_no_damage_where_the_log_directory_knows_of_it() -> None:
    disk = a_store()
    for suffix in names.SEGMENT_SUFFIXES:
        disk.remove(path(22, suffix))
    data = disk.contents(path(11))
    starts = positions(data)
    disk.replace(path(11), data[: starts[4]] + data[starts[5] :])
    assert ("gap", names.file_name(11, ".log")) in names_found(verified(disk))
    for suffix in (".index", ".timeindex"):
        disk.remove(path(11, suffix))
    write_offsets(disk, DATA, names.CLEANER_OFFSETS, {PARTITION: 30})
    assert {kind for kind, _ in names_found(verified(disk))} == {"index-missing", "time-index-missing"}


def test_of_thousands_of_one_kind_the_first_few_are_reported_and_the_others_counted() -> None:
    disk = a_store()
    index = disk.contents(path(11, ".index"))
    disk.replace(path(11, ".index"), index + index[-8:] * 2_000)
    reported = [finding for finding in findings(verified(disk)) if finding.kind == "index-disorder"]
    assert len(reported) == 6
    assert reported[-1].what == "1995 more of these in the file"


def test_a_record_of_an_old_format_that_is_damaged_is_found() -> None:
    disk = a_store(clean=False)
    for suffix in names.SEGMENT_SUFFIXES:
        for base in BASES:
            disk.remove(path(base, suffix))
    for suffix in (names.OFFSET_INDEX, names.TIME_INDEX):
        disk.replace(path(0, suffix), b"")
    sound = write_messages(some_records(4), 1, codec=GZIP) + write_messages(some_records(2, base_offset=4), 0)
    for base in BASES[1:]:
        disk.remove(path(base, names.SNAPSHOT))
    write_epochs(disk, DIRECTORY, [])
    disk.replace(path(0), sound)
    assert findings(verified(disk)) == []
    damaged = bytearray(sound)
    damaged[-1] ^= 1
    disk.replace(path(0), bytes(damaged))
    assert [kind for kind, _ in names_found(verified(disk))] == ["wrong-crc"]


def test_a_path_that_is_no_directory_is_refused() -> None:
    disk = a_store()
    for wrong in ("/nowhere", path(0)):
        with pytest.raises(Failure):
            verified(disk, wrong)
