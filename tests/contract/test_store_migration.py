"""`sordini cluster move` between the two kinds of store, in every direction."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest
from click.testing import CliRunner, Result

from sordini.cli.__main__ import main
from sordini.coordination_store import store_migration
from sordini.coordination_store.store_location import StoreLocations, location_of, refuse_moved
from sordini.coordination_store.store_migration import MigrationRefused, StoreTree, read_tree
from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.cluster_model import PartitionState, TopicAssignment
from sordini.replication.metadata_store import paths, registration, znodes
from sordini.replication.metadata_store.store_format import ensure_format
from sordini.replication.metadata_store.znodes import ProducerIdBlock
from sordini.replication.ports import ConnectionLoss, Create, Operation, Session, StoreUnusable
from sordini.storage.disk import SystemDisk
from sordini.system.clock import SystemClock

T = TypeVar("T")
KINDS = ("embedded", "zookeeper")
DIRECTIONS = list(itertools.product(KINDS, KINDS))
_numbers = itertools.count()


class Ends(NamedTuple):
    """Two places by name, and how to look into one."""

    source: str
    target: str

    def move(self, *options: str) -> Result:
        return CliRunner().invoke(main, ["cluster", "move", "--from", self.source, "--to", self.target, *options])

    def back(self) -> Ends:
        return Ends(self.target, self.source)


def at(place: str, work: Callable[[StoreTree], Awaitable[T]]) -> T:
    """Do something at a place."""

    async def run() -> T:
        places = StoreLocations(SystemDisk(), SystemClock(), connection_timeout_ms=20_000)
        async with places.open(location_of(place)) as opened:
            return await work(opened)

    return asyncio.run(run())


def tree_at(place: str) -> dict[str, bytes]:
    return {path: entry.data for path, entry in at(place, read_tree).nodes.items()}


async def fill(place: StoreTree) -> None:
    """A cluster as brokers leave it, with something of every kind."""
    session = place.session
    await store_migration._make_root(place)
    here = Rooted(place)
    await ensure_format(here)
    await registration.ensure_base_paths(here)
    await registration.cluster_id(here)
    assignment = TopicAssignment("orders", {0: (BrokerId(7),), 1: (BrokerId(7),)}, b"\x01" * 16, {}, {}, 0)
    await here.create(paths.topic("orders"), znodes.encode_topic(assignment))
    for number in range(2):
        state = PartitionState(BrokerId(7), 3, (BrokerId(7),), 5, False)
        await here.create(paths.state(TopicPartition("orders", number)), znodes.encode_state(state), make_parents=True)
    for entity in ("topics/orders", "brokers/7", "brokers/<default>", "users/a%20b", "users/u/clients/<default>"):
        await here.create(paths.config(entity), znodes.encode_config({"k": "ä"}), make_parents=True)
        await here.create(paths.CONFIG_CHANGE_PREFIX, znodes.encode_config_change(entity), sequential=True)
    await here.create(paths.CONTROLLER_EPOCH, b"5")
    await here.create(paths.FEATURE, znodes.FEATURES)
    await here.set(paths.PRODUCER_ID_BLOCK, znodes.encode_producer_id_block(ProducerIdBlock(BrokerId(7), 0, 1000)))
    for _ in range(3):
        await here.set("/brokers/seqid", b"")
    await here.create("/kafka-acl/Topic/orders", b'{"version":1,"acls":[]}', make_parents=True)
    await here.create("/admin/delete_topics/gone", b"")
    await session.create(place.at("/unrelated"), b"theirs")


class Rooted:
    """A session whose paths hang from a place's root."""

    def __init__(self, place: StoreTree) -> None:
        self._place = place

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._place.session, name)
        return lambda path, *arguments, **options: method(self._place.at(path), *arguments, **options)


@pytest.fixture(params=DIRECTIONS, ids=["-to-".join(direction) for direction in DIRECTIONS])
def ends(request: pytest.FixtureRequest, tmp_path: Path) -> Ends:
    def place(kind: str, name: str) -> str:
        if kind == "embedded":
            (tmp_path / name).mkdir()
            return f"embedded:{tmp_path / name}"
        return f"zookeeper:{request.getfixturevalue('zookeeper')}/moving/{next(_numbers)}"

    ends = Ends(place(request.param[0], "source"), place(request.param[1], "target"))
    at(ends.source, fill)
    return ends


@pytest.fixture
def embedded(tmp_path: Path) -> Ends:
    for name in ("source", "target"):
        (tmp_path / name).mkdir()
    ends = Ends(f"embedded:{tmp_path / 'source'}", f"embedded:{tmp_path / 'target'}")
    at(ends.source, fill)
    return ends


def test_everything_that_stays_is_there_afterwards_and_notes_are_not(ends: Ends) -> None:
    before = tree_at(ends.source)
    assert sum(path.startswith("/config/") and b"\xc3" in data for path, data in before.items()) == 5
    done = ends.move()
    assert done.exit_code == 0, done.output
    assert "1 topic with 2 partitions" in done.output
    assert "/unrelated" in done.output
    assert tree_at(ends.target) == before == tree_at(ends.source)
    children = at(ends.target, lambda place: place.session.children(place.at(paths.CONFIG_CHANGES)))
    assert children == []
    assert at(ends.target, lambda place: place.session.exists(place.at("/unrelated"))) is None


def test_the_stores_format_goes_along_and_one_that_is_not_known_stays_where_it_is(ends: Ends) -> None:
    assert ends.move("--keep-source").exit_code == 0
    assert tree_at(ends.target)["/sordini"] == b'{"version":1,"format":1}'
    at(ends.target, lambda place: place.session.set(place.at("/sordini"), b'{"version":1,"format":2}'))
    refused = Ends(ends.target, f"{ends.source}-elsewhere").move("--dry-run")
    assert refused.exit_code == 1
    assert "format 2" in refused.output


def test_no_broker_id_is_drawn_a_second_time(ends: Ends) -> None:
    assert ends.move().exit_code == 0
    stat = at(ends.target, lambda place: place.session.set(place.at("/brokers/seqid"), b""))
    assert stat.version == 4


def test_a_dry_run_says_what_would_be_and_changes_nothing(ends: Ends, tmp_path: Path) -> None:
    done = ends.move("--dry-run", "--json")
    assert done.exit_code == 0, done.output
    reported = json.loads(done.stdout)
    assert (reported["topics"], reported["partitions"], reported["brokers"], reported["note"]) == (1, 2, [7], None)
    assert reported["copied"] == reported["nodes"] > 20
    assert not list((tmp_path / "target").iterdir()) if "embedded" in ends.target else True
    if "zookeeper" in ends.target:
        assert at(ends.target, lambda place: place.session.exists(place.root)) is None
    assert ends.move().exit_code == 0


def test_a_move_repeated_finds_all_there(ends: Ends) -> None:
    assert ends.move().exit_code == 0
    reported = json.loads(ends.move("--json").stdout)
    assert (reported["copied"], reported["dry_run"]) == (0, False)


def test_another_tree_is_never_overwritten(ends: Ends) -> None:
    at(ends.target, fill)
    before = tree_at(ends.target)
    for options in ([], ["--dry-run"]):
        done = ends.move(*options)
        assert done.exit_code == 1
        assert "is not empty" in done.output
        assert "/cluster/id" in done.output
    assert tree_at(ends.target) == before


def test_a_node_that_the_source_lacks_is_another_tree(ends: Ends) -> None:
    assert ends.move("--keep-source").exit_code == 0
    at(ends.target, lambda place: place.session.create(place.at("/config/topics/new"), b"{}"))
    done = ends.move("--keep-source")
    assert (done.exit_code, "/config/topics/new" in done.output) == (1, True)


def test_an_interrupted_move_is_finished_by_the_next(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_migration, "OPERATIONS_MAX", 4)
    for transactions_left in (0, 3, 5, 2):
        at(
            ends.source,
            lambda origin, transactions_left=transactions_left: cut_short(origin, ends.target, transactions_left),
        )
        assert "/cluster/id" not in tree_at(ends.target)
    assert ends.move().exit_code == 0
    assert tree_at(ends.target) == tree_at(ends.source)


async def cut_short(origin: StoreTree, target: str, transactions_left: int) -> None:
    """Copy until the store is lost."""
    places = StoreLocations(SystemDisk(), SystemClock(), connection_timeout_ms=20_000)
    async with places.open(location_of(target)) as opened:
        mortal = opened._replace(session=Mortal(opened.session, transactions_left))
        with pytest.raises(ConnectionLoss):
            await store_migration.copy(origin, mortal)


class Mortal:
    """A session whose store is lost after some transactions."""

    def __init__(self, session: Session, transactions_left: int) -> None:
        self._session = session
        self._transactions_left = transactions_left

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def multi(self, operations: list[Operation]) -> Any:
        self._transactions_left -= 1
        if self._transactions_left < 0 or any(operation.path.endswith("/cluster/id") for operation in operations):
            raise ConnectionLoss
        return await self._session.multi(operations)


def test_a_registered_broker_at_either_end_refuses_the_move(ends: Ends) -> None:
    """In an embedded store the lock comes first; there a broker of the same process stands in."""

    async def run() -> list[str]:
        places, said = StoreLocations(SystemDisk(), SystemClock(), connection_timeout_ms=20_000), []
        async with places.open(location_of(ends.source)) as source, places.open(location_of(ends.target)) as target:
            await store_migration._make_root(target)
            for place in (source, target):
                await place.session.create(place.at("/brokers/ids/7"), b"{}", ephemeral=True, make_parents=True)
                with pytest.raises(MigrationRefused) as refused:
                    await store_migration.copy(source, target)
                said.append(str(refused.value))
                await place.session.delete(place.at("/brokers/ids/7"))
            assert await target.session.exists(target.at("/config")) is None, "nothing was written"
            await store_migration.copy(source, target)
        return said

    said = asyncio.run(run())
    assert all("registered in " in text and ": broker 7;" in text for text in said)
    assert [ends.source in said[0], ends.target in said[1]] == [True, True]


def test_a_source_that_changes_meanwhile_fails_the_move(embedded: Ends) -> None:
    async def run() -> None:
        places = StoreLocations(SystemDisk(), SystemClock(), connection_timeout_ms=20_000)
        ends = places.open(location_of(embedded.source)), places.open(location_of(embedded.target))
        async with ends[0] as source, ends[1] as target:
            await store_migration.copy(source, target._replace(session=Meddler(target.session, source)))

    with pytest.raises(MigrationRefused, match="changed while it was copied"):
        asyncio.run(run())


class Meddler(Mortal):
    """Changes the source while the target is written."""

    def __init__(self, session: Session, source: StoreTree) -> None:
        super().__init__(session, 0)
        self._source = source

    async def multi(self, operations: list[Operation]) -> Any:
        await self._source.session.set("/config/topics/orders", b"{}")
        return await self._session.multi(operations)


def test_what_a_store_lost_on_the_way_is_found_by_reading_back(embedded: Ends) -> None:
    class Forgetful(Mortal):
        async def multi(self, operations: list[Operation]) -> Any:
            kept = [op for op in operations if not (isinstance(op, Create) and op.path.endswith("/1/state"))]
            return await self._session.multi(kept)

    async def run() -> None:
        places = StoreLocations(SystemDisk(), SystemClock(), connection_timeout_ms=20_000)
        ends = places.open(location_of(embedded.source)), places.open(location_of(embedded.target))
        async with ends[0] as source, ends[1] as target:
            await store_migration.copy(source, target._replace(session=Forgetful(target.session, 0)))

    with pytest.raises(MigrationRefused, match="partitions/1/state differs"):
        asyncio.run(run())


def test_a_store_in_use_is_not_moved(embedded: Ends) -> None:
    async def run(place: StoreTree) -> Result:
        return await asyncio.to_thread(embedded.move)

    done = at(embedded.source, run)
    assert (done.exit_code, "is in use by another broker" in done.output) == (1, True)


def test_an_embedded_source_stays_and_is_refused_by_brokers_until_its_note_is_removed(
    embedded: Ends, tmp_path: Path
) -> None:
    file = tmp_path / "source" / "coordination.sqlite"
    refuse_moved(SystemDisk(), str(file))
    done = embedded.move()
    assert "coordination.sqlite.moved" in done.output
    with pytest.raises(StoreUnusable, match=f"was moved to {embedded.target}: "):
        refuse_moved(SystemDisk(), str(file))
    (tmp_path / "source" / "coordination.sqlite.moved").unlink()
    refuse_moved(SystemDisk(), str(file))


def test_a_restored_tree_replaces_the_other_which_is_kept(embedded: Ends, tmp_path: Path) -> None:
    assert embedded.move().exit_code == 0
    went = tree_at(embedded.source)
    at(embedded.target, lambda place: place.session.create("/config/topics/later", b"{}"))
    at(embedded.target, lambda place: place.session.set("/controller_epoch", b"6"))
    assert embedded.back().move("--dry-run").exit_code == 0
    for round_number in (1, 2):
        done = embedded.back().move()
        assert done.exit_code == 0, done.output
        assert tree_at(f"{embedded.source}/coordination.sqlite.former-{round_number}") == went
        refuse_moved(SystemDisk(), str(tmp_path / "source" / "coordination.sqlite"))
        went = tree_at(embedded.source)
        assert went == tree_at(embedded.target)
        assert "/config/topics/later" in went
        assert embedded.move().exit_code == 0


def test_a_moved_store_is_not_moved_to_a_second_place(embedded: Ends, tmp_path: Path) -> None:
    assert embedded.move().exit_code == 0
    done = Ends(embedded.source, f"embedded:{tmp_path / 'third.sqlite'}").move()
    assert (done.exit_code, "later changes are there" in done.output) == (1, True)
    assert not (tmp_path / "third.sqlite").exists()


def test_what_is_left_of_another_cluster_is_not_replaced(embedded: Ends, tmp_path: Path) -> None:
    other = Ends(f"embedded:{tmp_path / 'other.sqlite'}", embedded.source)
    at(other.source, fill)
    assert embedded.move().exit_code == 0
    for options in (["--dry-run"], []):
        done = other.move(*options)
        assert (done.exit_code, "was left by cluster" in done.output) == (1, True)


@pytest.mark.parametrize(
    ("source", "target", "said"),
    [
        ("embedded:nothing", "embedded:here", "there is no file nothing"),
        ("embedded:empty", "embedded:here", "holds no cluster: /cluster/id is missing"),
        ("embedded:source", "embedded:source/coordination.sqlite", "are the same store"),
        ("embedded:source", "embedded:no/such/directory", "cannot open"),
        ("embedded:source", "embedded:source/text", "is not a coordination store"),
        ("embedded:source", "zookeeper:127.0.0.1:1/x", "no ZooKeeper at 127.0.0.1:1 answered"),
    ],
)
def test_a_move_that_cannot_be_says_why_with_status_1(
    embedded: Ends, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, target: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "source" / "text").write_text("text\n" * 1000)
    at("embedded:empty", lambda place: place.session.create("/brokers"))
    done = Ends(source, target).move("--timeout", "1")
    assert (done.exit_code, said in done.output) == (1, True), done.output
    assert refuse_moved(SystemDisk(), "source/coordination.sqlite") is None


@pytest.mark.parametrize(
    "place",
    ["data", "embedded:", "kafka:h:1", "zookeeper:h:port/x", "zookeeper:h:1//x", "zookeeper:/x", "zookeeper:h:0"],
)
def test_a_place_that_is_none_ends_with_status_2(place: str) -> None:
    done = Ends(place, "embedded:x").move()
    assert (done.exit_code, place in done.output) == (2, True), done.output


def test_places_are_read_as_zookeeper_connect_is() -> None:
    assert str(location_of("zookeeper:a,b:2182,[::1]:2183/k/c/")) == "zookeeper:a:2181,b:2182,[::1]:2183/k/c"
    assert location_of("zookeeper:a/").root == ""
