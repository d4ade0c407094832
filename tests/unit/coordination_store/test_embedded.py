"""What the embedded store promises beyond the port's contract: its file, its lock, and a disk that fails."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.coordination_store.embedded import EmbeddedStore, open_embedded
from sordini.coordination_store.znode_tree import ZnodeTree
from sordini.replication.ports import (
    ANY_VERSION,
    ConnectionLoss,
    CoordinationError,
    Create,
    Delete,
    SessionState,
    Set,
    StoreUnusable,
    WatchEvent,
)
from sordini.storage.disk import publish_private_file
from sordini.system.clock import SystemClock

SOURCES = Path(__file__).resolve().parents[3] / ".import"


def run_python(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own."""
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, env={"PYTHONPATH": str(SOURCES)}, check=False, capture_output=True, text=True)


async def inline(call: Callable[[], Any]) -> Any:
    return call()


async def open_store(path: Path | str = ":memory:") -> EmbeddedStore:
    return await EmbeddedStore.open(str(path), inline, SystemClock())


async def test_persistent_nodes_survive_a_restart_and_ephemeral_ones_do_not(tmp_path: Path) -> None:
    store = await open_store(tmp_path / "store.db")
    session = await store.open_session()
    await session.create("/a/b", b"\x00bytes", make_parents=True)
    await session.set("/a/b", b"two")
    await session.create("/a/n_", sequential=True)
    before = await session.get("/a/b")
    await session.create("/a/e", ephemeral=True)
    await store.close()
    session = await (store := await open_store(tmp_path / "store.db")).open_session()
    assert await session.get("/a/b") == before
    assert await session.children("/a") == ["b", "n_0000000001"]
    assert await session.create("/a/n_", sequential=True) == "/a/n_0000000003"
    await store.close()


async def test_transactions_of_a_later_start_have_higher_numbers_even_after_ephemerals_alone(
    tmp_path: Path,
) -> None:
    numbers = []
    for _ in range(3):
        store = await open_store(tmp_path / "store.db")
        session = await store.open_session()
        await session.create("/e", ephemeral=True)
        stat = await session.exists("/e")
        assert stat is not None
        numbers.append(stat.czxid)
        await store.close()
    assert numbers == sorted(set(numbers))


async def test_an_acknowledged_write_survives_kill_nine(tmp_path: Path) -> None:
    script = """
import asyncio, os, signal, sys
from sordini.system.clock import SystemClock
from sordini.coordination_store.embedded import open_embedded
async def main():
    session = await (await open_embedded(sys.argv[1], SystemClock())).open_session()
    await session.create("/kept", b"1")
    await session.create("/gone", ephemeral=True)
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    path = str(tmp_path / "store.db")
    assert run_python(script, path).returncode == -9
    session = await (store := await open_store(path)).open_session()
    assert await session.children("/") == ["kept"]
    await store.close()


async def test_a_second_opener_is_refused_and_the_first_continues(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = await open_store(path)
    with pytest.raises(StoreUnusable, match=r"store\.db is in use by another broker"):
        await open_store(path)
    script = (
        "import sys\nfrom sordini.coordination_store.database import open_database\n"
        "try: open_database(sys.argv[1])\nexcept Exception as error: print(error)"
    )
    other = run_python(script, str(path))
    assert "in use by another broker" in other.stdout
    await (await store.open_session()).create("/a")
    await store.close()
    await (await open_store(path)).close()


async def test_a_file_that_was_there_before_is_locked_as_well(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    await (await open_store(path)).close()
    store = await open_store(path)
    with pytest.raises(StoreUnusable, match=r"store\.db is in use by another broker"):
        await open_store(path)
    await store.close()


def modes_in(directory: Path) -> dict[str, int]:
    """The permissions of each file by its name."""
    return {one.name: one.stat().st_mode & 0o777 for one in directory.iterdir()}


async def test_a_new_file_is_private_and_leaves_no_other_behind(tmp_path: Path) -> None:
    store = await open_store(tmp_path / "store.db")
    assert modes_in(tmp_path) == {"store.db": 0o600, "store.db-wal": 0o600}
    await store.close()
    assert modes_in(tmp_path) == {"store.db": 0o600}


@pytest.mark.parametrize("has_store", [False, True])
async def test_what_a_start_left_that_was_killed_while_it_made_the_file_is_removed(
    tmp_path: Path, has_store: bool
) -> None:
    path, left, other = tmp_path / "store.db", tmp_path / "store.db.77.new", tmp_path / "stores.db.77.new"
    other.write_bytes(b"not ours")
    if has_store:
        store = await open_store(path)
        await (await store.open_session()).create("/kept", b"1")
        await store.close()
        left.hardlink_to(path)
    else:
        left.write_bytes(b"half a fi")
    store = await open_store(path)
    assert await (await store.open_session()).children("/") == (["kept"] if has_store else [])
    await store.close()
    assert modes_in(tmp_path).keys() == {path.name, other.name}


def test_a_file_that_another_process_made_meanwhile_stays(tmp_path: Path) -> None:
    fresh, path = tmp_path / "store.db.77.new", tmp_path / "store.db"
    fresh.write_bytes(b"mine")
    path.write_bytes(b"theirs")
    with pytest.raises(FileExistsError):
        publish_private_file(str(fresh), str(path))
    assert path.read_bytes() == b"theirs"
    assert not fresh.exists()


async def test_a_file_that_an_older_version_left_empty_is_used(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.touch()
    store = await open_store(path)
    await (await store.open_session()).create("/a")
    await store.close()
    store = await open_store(path)
    assert await (await store.open_session()).children("/") == ["a"]
    await store.close()


async def test_a_file_that_is_something_else_is_refused_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(b"these are my notes\n" * 500)
    with pytest.raises(StoreUnusable, match=r"notes\.txt is not a coordination store"):
        await open_store(path)
    assert path.read_bytes().startswith(b"these are my notes")
    with pytest.raises(StoreUnusable, match="cannot open"):
        await open_store(tmp_path / "no" / "such" / "directory")


async def test_a_later_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    await (await open_store(path)).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 2")
    connection.close()
    with pytest.raises(StoreUnusable, match="format 2; this broker knows 1"):
        await open_store(path)


async def test_a_commit_is_forced_to_the_disk_before_it_is_answered(tmp_path: Path) -> None:
    store = await open_store(tmp_path / "store.db")
    connection = store._database._connection
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    await store.close()


async def test_calls_that_wait_together_are_saved_together() -> None:
    saves: list[int] = []

    async def counted(call: Callable[[], Any]) -> Any:
        saves.append(1)
        return call()

    store = await EmbeddedStore.open(":memory:", counted, SystemClock())
    session = await store.open_session()
    saves.clear()
    await asyncio.gather(*(session.create(f"/{n}") for n in range(50)))
    assert len(saves) == 1
    await asyncio.gather(*(session.get(f"/{n}") for n in range(50)))
    assert len(saves) == 1, "reads do not use the disk"
    await store.close()


async def test_nothing_is_answered_or_seen_before_it_is_saved() -> None:
    gate, free = asyncio.Event(), asyncio.Event()
    free.set()

    async def gated(call: Callable[[], Any]) -> Any:
        await free.wait()
        gate.set()
        return call()

    store = await EmbeddedStore.open(":memory:", gated, SystemClock())
    session, other = await store.open_session(), await store.open_session()
    seen: list[WatchEvent] = []
    await other.exists("/a", watch=seen.append)
    free.clear()
    write = asyncio.ensure_future(session.create("/a"))
    await asyncio.sleep(0)
    read = asyncio.ensure_future(other.exists("/a"))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not write.done()
    assert not read.done()
    assert not seen
    free.set()
    await write
    assert await read is not None
    assert len(seen) == 1
    await store.close()


async def test_a_batch_that_cannot_be_saved_is_undone() -> None:
    store = await open_store()
    session, other = await store.open_session(), await store.open_session()
    states: list[SessionState] = []
    other.on_state(states.append)
    await session.create("/a", b"old")
    seen: list[WatchEvent] = []
    await other.get("/a", watch=seen.append)
    await other.exists("/untouched", watch=seen.append)
    await other.children("/a", watch=seen.append)
    save = store._database.save

    def full(*_: Any) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    store._database.save = full  # type: ignore[method-assign]
    calls = session.set("/a", b"new"), session.create("/b"), session.create("/e", ephemeral=True), session.get("/a")
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ConnectionLoss] * 4
    assert "disk is full" in str(outcomes[0])
    store._database.save = save  # type: ignore[method-assign]
    assert (await session.get("/a"))[0] == b"old"
    assert await session.children("/") == ["a"]
    assert not seen
    assert states == [SessionState.SUSPENDED, SessionState.CONNECTED]
    await session.create("/b")
    await session.create("/untouched")
    await session.create("/a/child")
    await asyncio.sleep(0)
    assert not seen, "watches end with the batch that was undone, also those on other paths"
    await store.close()


async def test_an_invalid_path_raises_at_the_caller_and_leaves_the_session_usable() -> None:
    session = await (store := await open_store()).open_session()
    for path in ("a", "", "/a/", "//", "/a//b", "/a\0"):
        with pytest.raises(ValueError, match="not the path of a znode"):
            await session.create(path)
        with pytest.raises(ValueError, match="not the path of a znode"):
            await session.get(path)
    await session.create("/fine")
    await store.close()


async def test_closing_the_store_ends_its_thread_and_answers_no_more(tmp_path: Path) -> None:
    store = await open_embedded(str(tmp_path / "store.db"), SystemClock())
    session = await store.open_session()
    await session.create("/a")
    await store.close()
    assert session.state is SessionState.CLOSED
    with pytest.raises(ConnectionLoss):
        await store.open_session()


NAMES = st.sampled_from(["/a", "/b", "/a/x", "/a/y", "/b/x", "/a/x/deep"])
OPERATIONS = st.one_of(
    st.builds(Create, NAMES, st.binary(max_size=3), st.booleans(), st.booleans()),
    st.builds(Set, NAMES, st.binary(max_size=3), st.sampled_from([ANY_VERSION, 0, 1])),
    st.builds(Delete, NAMES, st.sampled_from([ANY_VERSION, 0])),
)
TRANSACTIONS = st.lists(st.lists(OPERATIONS, min_size=1, max_size=4), max_size=8)


def apply_all(tree: ZnodeTree, transactions: list[list[Any]]) -> None:
    for operations in transactions:
        before = dict(tree._nodes)
        try:
            tree.apply(operations, 1, 0)
        except CoordinationError:
            assert tree._nodes == before, "a refused transaction changes nothing"


@given(TRANSACTIONS, TRANSACTIONS)
def test_undoing_a_batch_restores_exactly_the_former_tree(first: list[Any], second: list[Any]) -> None:
    tree = ZnodeTree()
    tree.begin_batch()
    apply_all(tree, first)
    nodes, children = dict(tree._nodes), {path: set(names) for path, names in tree._children.items()}
    tree.begin_batch()
    apply_all(tree, second)
    tree.undo_batch()
    assert tree._nodes == nodes
    assert tree._children == children


@given(TRANSACTIONS)
def test_a_tree_read_back_from_its_nodes_is_the_same_tree(transactions: list[Any]) -> None:
    tree = ZnodeTree()
    stored = dict(tree._nodes)
    for operations in transactions:
        tree.begin_batch()
        apply_all(tree, [operations])
        for path, node in tree.dirty():
            if node is None:
                stored.pop(path, None)
            else:
                stored[path] = node
    again = ZnodeTree(dict(stored), tree.zxid)
    assert (again._nodes, again._children) == (tree._nodes, tree._children)
