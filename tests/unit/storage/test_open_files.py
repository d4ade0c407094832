"""The bound on open files, and what happens when the system has none left."""

import errno

import pytest

from sordini.storage.open_files import Handle, OpenFiles, pinned_beyond
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk

LIMIT = 8


def handles(files: OpenFiles, count: int) -> list[Handle]:
    files.disk.make_directory("/data")
    made = [Handle(files, f"/data/{number}") for number in range(count)]
    for handle in made:
        handle.reopen(create=True)
    return made


def test_past_the_limit_readers_keep_some_files_open_and_then_they_are_refused_others() -> None:
    files = OpenFiles(ForgetfulDisk(), LIMIT)
    total = LIMIT + pinned_beyond(LIMIT)
    pinned = []
    for handle in handles(files, total):
        handle.pin_to_send()
        pinned.append(handle)
    assert files.open_count == total
    another = Handle(files, "/data/another")
    with pytest.raises(OSError, match="too many log files") as failure:
        another.pin_to_send()
    assert failure.value.errno == errno.EMFILE
    another.reopen(create=True)  # A writer is not refused.
    another.close()
    pinned[0].unpin()
    another.pin_to_send()
    assert files.open_count <= total


def test_where_the_system_has_no_descriptor_another_file_gives_its_own_up() -> None:
    disk = ForgetfulDisk()
    files = OpenFiles(disk, LIMIT)
    opened = handles(files, 3)
    refused = []
    disk.refuse_while(lambda kind, path: kind == "open" and not refused and not refused.append(path), errno.EMFILE)
    Handle(files, "/data/new").reopen(create=True)
    assert refused == ["/data/new"]
    assert [handle.file is None for handle in opened].count(True) == 1


@pytest.mark.parametrize("closed", [0, 3])
def test_where_no_file_is_open_that_could_give_its_descriptor_up_the_refusal_is_the_systems(closed: int) -> None:
    disk = ForgetfulDisk()
    files = OpenFiles(disk, LIMIT)
    for handle in handles(files, closed):
        handle.close()
    disk.refuse_while(lambda kind, _path: kind == "open", errno.EMFILE)
    with pytest.raises(OSError, match=r"EMFILE|Too many open files") as failure:
        Handle(files, "/data/new").reopen(create=True)
    assert failure.value.errno == errno.EMFILE
    assert files.open_count == 0
