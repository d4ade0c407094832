"""`sordini cluster`: what concerns a cluster as a whole. (`cluster.py` is how commands reach one.)"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from sordini.cli.common.options import (
    DONE,
    FAILED,
    Client,
    ClientCommand,
    ClientGroup,
    Failure,
    client_options,
    json_option,
)
from sordini.cli.common.output import print_json, table
from sordini.cli.common.polling import after_wait_text, poll_until, wait_option
from sordini.cli.common.terminal import echo, echo_lines
from sordini.protocol.printable import counted

if TYPE_CHECKING:
    from sordini.broker.coordination.moving import Outcome, Place
    from sordini.broker.coordination.places import Location, Places


class MoveCommand(ClientCommand):
    """A command that works on stores and asks no broker."""

    exit_codes = ClientCommand.exit_codes | {
        DONE: "the tree is there, and was read back; with --dry-run: it can be moved",
        FAILED: "refused, or a store failed; nothing was overwritten, and the command can be repeated",
    }


class LocationType(click.ParamType["Location"]):
    """`embedded:DIR` or `zookeeper:HOST:PORT/CHROOT`."""

    name = "place"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Location:
        from sordini.broker.coordination.places import location_of

        try:
            return location_of(value)
        except ValueError as error:
            self.fail(f"{value!r}: {error}", param, ctx)


@click.group(cls=ClientGroup)
def cluster() -> None:
    """See how a cluster is, and move it between coordination stores.

    \b
      sordini cluster status
      sordini cluster move --from embedded:data --to zookeeper:zk-1:2181/kafka
    """


@cluster.command()
@click.option("--check", is_flag=True, help="Fail unless all is well: no problem is found, and nothing is unknown.")
@wait_option
@client_options
def status(client: Client, *, check: bool, wait_s: float) -> None:
    """Show the brokers, what each leads and holds, and which partitions lack something.

    STORE is each broker's contact with ZooKeeper, or with its own file: connected, silent, lost (the store is not this
    cluster's) or unregistered. An Apache Kafka, or a Sordini that is older than this column, is registered, not
    registered, or not known, as other brokers find it in ZooKeeper. Below the table stands what is not well: brokers
    that do not answer or have no contact, those that disagree on the controller or on leaders, leaders that refuse what
    they should lead, and partitions that lack a leader or a replica in sync.

    LAG is how many committed records the broker is behind a leader, in the partition where it is most. One that keeps
    up hears of new records being committed with its next fetch, half a second later at most
    (replica.fetch.wait.max.ms). A broker is silent when it did not answer within a sixth of --timeout, and 3 s at
    least, and gone when it is not registered and still has replicas. --json has every partition.

    With --check the command is a test: before the next broker of a rolling restart is stopped, for example. Every
    broker, every leader and the controller are asked, and what is not known is not well. With --wait it looks again
    until all is well, and then shows what it saw last.

    \b
      sordini cluster status
      sordini cluster status --check --wait 120
    """
    from sordini.cli.commands.cluster.cluster_status import cluster_status

    if wait_s and not check:
        raise click.UsageError("--wait goes with --check: it waits until the check succeeds")
    told = poll_until(
        client,
        wait_s,
        lambda cluster: cluster.persist(lambda: cluster_status(cluster, client.timeout_s)),
        lambda told: not told["problems"],
    )
    if client.as_json:
        print_json(told)
    else:
        _print_status(told)
    if check and told["problems"]:
        raise Failure(f"the cluster is not well: {counted(len(told['problems']), 'problem')}{after_wait_text(wait_s)}")


def _print_status(told: Mapping[str, Any]) -> None:
    from sordini.cli.commands.cluster.cluster_problems import is_under_replicated

    controller = "no controller" if told["controller"] is None else f"controller {told['controller']}"
    echo(f"cluster {told['cluster_id']}, {controller}")
    keys = ("broker", "address", "rack", "state", "store", "leads", "replicas", "in_sync", "lag")
    rows = [
        {
            **row,
            "address": None if row["host"] is None else f"{row['host']}:{row['port']}",
            "store": None if row["store"] is None else row["store"].partition(":")[0],
        }
        for row in told["brokers"]
    ]
    echo_lines(table([key.replace("_", " ").upper() for key in keys], [[row[key] for key in keys] for row in rows]))
    echo(
        f"{counted(told['topics'], 'topic')} with {counted(len(told['partitions']), 'partition')}: "
        f"{told['offline_partitions']} without a leader, {told['under_replicated_partitions']} under-replicated"
    )
    lacking = [row for row in told["partitions"] if row["leader"] is None or is_under_replicated(row)]
    if lacking:
        head = ["PARTITION", "LEADER", "REPLICAS", "IN SYNC", "LAGS"]
        echo_lines(table(head, map(_lacking, lacking)))
    for problem in told["problems"]:
        echo(f"not well: {problem}")


def _lacking(row: Mapping[str, Any]) -> list[object]:
    """The cells for a partition that lacks something; a lag that nobody can tell is a question mark."""
    lags = [f"{broker}:{'?' if lag is None else lag}" for broker, lag in row["lags"].items()]
    held, in_sync = (",".join(map(str, row[key])) for key in ("replicas", "in_sync_replicas"))
    return [f"{row['topic']}-{row['partition']}", row["leader"], held, in_sync or None, " ".join(lags)]


@cluster.command(cls=MoveCommand)
@click.option(
    "--from",
    "source",
    metavar="PLACE",
    type=LocationType(),
    required=True,
    help="Where the cluster is: embedded:DIR or zookeeper:HOST:PORT/CHROOT.",
)
@click.option(
    "--to", "target", metavar="PLACE", type=LocationType(), required=True, help="Where it shall be: written alike."
)
@click.option("--dry-run", is_flag=True, help="Only look whether it can be done; change nothing.")
@click.option("--keep-source", is_flag=True, help="Let brokers go on using an embedded source: make a copy, no move.")
@click.option(
    "--timeout",
    "timeout_s",
    metavar="SECONDS",
    type=click.FloatRange(min=1),
    default=30.0,
    show_default=True,
    help="Wait so long for a ZooKeeper to answer.",
)
@json_option
def move(
    *, source: Location, target: Location, dry_run: bool, keep_source: bool, timeout_s: float, as_json: bool
) -> None:
    """Take what a cluster knows of itself from one coordination store to another.

    Topics with their ids and partitions' states, all settings, users, quotas, access lists, the cluster's id and the
    next producer and broker ids are copied as they are; records, groups and transactions are in the log directories and
    stay there. Brokers must be stopped. What was copied is read back and compared. Nothing is ever overwritten: the
    target has to be empty, or hold a part of the same tree, so that a move that was interrupted can be repeated.

    An embedded store (coordination.sqlite in the first log directory) stays where it is with a note beside it, and
    brokers refuse it from then on. A ZooKeeper's tree stays, too, and no note keeps Apache Kafka from it: start
    no broker there any more.

    \b
      sordini cluster move --from embedded:data --to zookeeper:zk-1:2181,zk-2:2181/kafka --dry-run
      sordini cluster move --from embedded:data --to zookeeper:zk-1:2181,zk-2:2181/kafka
      sordini cluster move --from zookeeper:zk-1:2181/kafka --to embedded:data
    """
    import asyncio

    from sordini.broker.clock import SystemClock
    from sordini.broker.coordination.moving import MoveRefused
    from sordini.broker.coordination.places import Places
    from sordini.replication.ports import CoordinationError, StoreUnusable
    from sordini.storage.disk import SystemDisk

    places = Places(SystemDisk(), SystemClock(), connection_timeout_ms=round(timeout_s * 1000))
    try:
        told = asyncio.run(_moved(places, source, target, dry_run=dry_run, keep_source=keep_source))
    except (MoveRefused, StoreUnusable) as error:
        raise Failure(str(error)) from None
    except CoordinationError as error:
        raise Failure(f"a store did not answer ({error}); nothing is lost: repeat the command") from None
    except OSError as error:
        raise Failure(str(error)) from None
    if as_json:
        print_json(told)
    else:
        _print_move(told, source, target)


async def _moved(
    places: Places, source: Location, target: Location, *, dry_run: bool, keep_source: bool
) -> dict[str, Any]:
    """Do it; what there is to tell. Raises MoveRefused, CoordinationError and OSError."""
    places.refuse(source, target)
    note = former = None
    async with places.open(source) as origin:
        returns_home = await _returns_home(places, origin, target)
        if dry_run:
            outcome = await _checked(places, origin, target, returns_home=returns_home)
        else:
            outcome, former = await _copied(places, origin, target, returns_home=returns_home)
            note = None if keep_source else places.mark(source, target)
    ends = {"from": str(source), "to": str(target), "dry_run": dry_run}
    return {**ends, **outcome._asdict(), "note": note, "former": former}


async def _returns_home(places: Places, origin: Place, target: Location) -> bool:
    """Whether the target is a file from which this cluster was moved. Raises MoveRefused when it was another one."""
    from sordini.broker.coordination.moving import MoveRefused, cluster_id_at

    if places.moved_to(target) is None:
        return False
    if places.is_there(target):
        async with places.open(target) as former:
            theirs = await cluster_id_at(former)
        if theirs != await cluster_id_at(origin):
            raise MoveRefused(f"{target} is what is left of cluster {theirs}, which was moved away: clear it yourself")
    return True


async def _checked(places: Places, origin: Place, target: Location, *, returns_home: bool) -> Outcome:
    from sordini.broker.coordination.moving import check

    if returns_home or not places.is_there(target):
        return await check(origin, None)
    async with places.open(target) as destination:
        return await check(origin, destination)


async def _copied(places: Places, origin: Place, target: Location, *, returns_home: bool) -> tuple[Outcome, str | None]:
    from sordini.broker.coordination.moving import check, copy

    former = None
    if returns_home:
        await check(origin, None)
        former = places.set_aside(target)
    async with places.open(target) as destination:
        outcome = await copy(origin, destination)
        places.unmark(target)
    return outcome, former


def _print_move(told: Mapping[str, Any], source: Location, target: Location) -> None:
    """Say what was done, and on standard error what is to be done and minded now."""
    shape = f"{counted(told['topics'], 'topic')} with {counted(told['partitions'], 'partition')}"
    there = f", {told['nodes'] - told['copied']} of them there already" if told["copied"] < told["nodes"] else ""
    does = "can be moved" if told["dry_run"] else "moved"
    echo(f"cluster {told['cluster_id']} {does} from {told['from']} to {told['to']}")
    echo(f"{shape}; {told['nodes']} nodes{there}{'' if told['dry_run'] else ', read back and equal'}")
    for line in _advice(told, source, target):
        echo(line, err=True)


def _advice(told: Mapping[str, Any], source: Location, target: Location) -> Iterator[str]:
    ids = told["brokers"]
    if told["left_out"]:
        yield f"left out, as no part of a cluster: {', '.join(told['left_out'])}"
    if target.kind == "embedded" and len(ids) > 1:
        yield f"partitions are on brokers {', '.join(map(str, ids))}: an embedded store serves one process"
    if told["dry_run"]:
        return
    if told["former"]:
        yield f"the store from before is now {told['former']}"
    if told["note"]:
        yield f"the old store stays, and brokers refuse it because of {told['note']}"
    elif source.kind == "zookeeper":
        yield f"the tree at {source} stays, and nothing keeps a broker from it: start none there any more"
    elif source.kind == "embedded":
        yield f"the store at {source} may still be used: never by a broker of the same log directories"
    where = f"with zookeeper.connect={target.where}{target.root}"
    if target.kind == "embedded":
        where = f"without zookeeper.connect, and with the first of log.dirs where {target} is"
    yield f"now start {'brokers' if len(ids) > 1 else 'the broker'} {where}"
