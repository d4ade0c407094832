"""`sordini cluster`: the state of a whole cluster, and moving it between coordination stores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from sordini.admin.failure import Failure
from sordini.cli.common.options import DONE, FAILED, Client, ClientCommand, ClientGroup, client_options, json_option
from sordini.cli.common.output import print_json, table
from sordini.cli.common.polling import after_wait_text, poll_until, wait_option
from sordini.cli.common.terminal import echo, echo_lines
from sordini.protocol.printable import counted

if TYPE_CHECKING:
    from sordini.coordination_store.store_location import StoreLocation, StoreLocations
    from sordini.coordination_store.store_migration import MigrationSummary, StoreTree
    from sordini.coordination_store.zookeeper_access import ZooKeeperAccess
    from sordini.storage.disk import SystemDisk


class MoveCommand(ClientCommand):
    """A command that works on coordination stores, without brokers."""

    exit_codes = ClientCommand.exit_codes | {
        DONE: "the tree was copied and verified; with --dry-run: it can be moved",
        FAILED: "refused, or a store failed; nothing was overwritten, and the command can be repeated",
    }


class LocationType(click.ParamType["StoreLocation"]):
    """`embedded:DIR` or `zookeeper:HOST:PORT/CHROOT`."""

    name = "place"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> StoreLocation:
        from sordini.coordination_store.store_location import location_of

        try:
            return location_of(value)
        except ValueError as error:
            self.fail(f"{value!r}: {error}", param, ctx)


@click.group(cls=ClientGroup)
def cluster() -> None:
    """Show the state of a cluster, and move it between coordination stores.

    \b
      sordini cluster status
      sordini cluster move --from embedded:data --to zookeeper:zk-1:2181/kafka
    """


@cluster.command()
@click.option("--check", is_flag=True, help="Fail unless there is no problem and nothing is unknown.")
@wait_option
@client_options
def status(client: Client, *, check: bool, wait_s: float) -> None:
    """Show the brokers with their leaders and replicas, and all problems of the cluster.

    STORE is each broker's contact with ZooKeeper, or with its own file: connected, silent, lost (the store belongs to
    another cluster) or unregistered. Brokers that do not report it (Apache Kafka, older Sordini) are registered, not
    registered or not known, as other brokers see them in ZooKeeper. Problems are listed below the table: brokers that
    do not answer or have no contact, brokers that disagree on the controller or on leaders, leaders that refuse
    requests, and partitions without a leader or with replicas out of sync.

    UPTIME, CPU and CONNECTIONS are what Sordini brokers report of themselves: the time since the broker was ready, the
    CPU time of its event loop over the last minute (100 % is one core; the brokers of `sordini dev` share one loop),
    and the connections that are open now.

    LAG is how many committed records the broker is behind the leader, in the partition where it lags most. A follower
    learns of newly committed records with its next fetch, at most half a second later (replica.fetch.wait.max.ms). A
    broker is silent if it did not answer within a sixth of --timeout (at least 3 s), and gone if it is not registered
    and still has replicas. --json has every partition.

    --check makes the command a test, for example before the next broker of a rolling restart is stopped. It queries
    every broker, every leader and the controller, and anything unknown is a problem. With --wait it checks again until
    there is no problem, and shows the last result.

    \b
      sordini cluster status
      sordini cluster status --check --wait 120
    """
    from sordini.cli.commands.cluster.cluster_status import cluster_status

    if wait_s and not check:
        raise click.UsageError("--wait needs --check: it waits until the check succeeds")
    report = poll_until(
        client,
        wait_s,
        lambda cluster: cluster.retry(lambda: cluster_status(cluster, client.timeout_s)),
        lambda report: not report["problems"],
    )
    if client.as_json:
        print_json(report)
    else:
        _print_status(report)
    if check and report["problems"]:
        raise Failure(f"the cluster has {counted(len(report['problems']), 'problem')}{after_wait_text(wait_s)}")


def _print_status(report: Mapping[str, Any]) -> None:
    from sordini.cli.commands.cluster.cluster_problems import is_under_replicated
    from sordini.cli.commands.groups.lag_texts import duration_text

    controller = "no controller" if report["controller"] is None else f"controller {report['controller']}"
    echo(f"cluster {report['cluster_id']}, {controller}")
    own = ("uptime", "cpu", "connections")
    keys = ("broker", "address", "rack", "state", "store", *own, "leads", "replicas", "in_sync", "lag")
    rows = [
        {
            **row,
            "address": None if row["host"] is None else f"{row['host']}:{row['port']}",
            "store": None if row["store"] is None else row["store"].partition(":")[0],
            "uptime": None if row["uptime_ms"] is None else duration_text(row["uptime_ms"] / 1000),
            "cpu": None if row["cpu_share"] is None else f"{100 * row['cpu_share']:.1f} %",
        }
        for row in report["brokers"]
    ]
    echo_lines(table([key.replace("_", " ").upper() for key in keys], [[row[key] for key in keys] for row in rows]))
    echo(
        f"{counted(report['topics'], 'topic')} with {counted(len(report['partitions']), 'partition')}: "
        f"{report['offline_partitions']} without a leader, {report['under_replicated_partitions']} under-replicated"
    )
    lacking = [row for row in report["partitions"] if row["leader"] is None or is_under_replicated(row)]
    if lacking:
        head = ["PARTITION", "LEADER", "REPLICAS", "IN SYNC", "LAGS"]
        echo_lines(table(head, map(_lacking, lacking)))
    for problem in report["problems"]:
        echo(f"problem: {problem}")


def _lacking(row: Mapping[str, Any]) -> list[object]:
    """The cells of a partition with a problem; an unknown lag is a question mark."""
    lags = [f"{broker}:{'?' if lag is None else lag}" for broker, lag in row["lags"].items()]
    held, in_sync = (",".join(map(str, row[key])) for key in ("replicas", "in_sync_replicas"))
    return [f"{row['topic']}-{row['partition']}", row["leader"], held, in_sync or None, " ".join(lags)]


@cluster.command(cls=MoveCommand)
@click.option(
    "--from",
    "source",
    metavar="STORE",
    type=LocationType(),
    required=True,
    help="The current coordination store: embedded:DIR or zookeeper:HOST:PORT/CHROOT.",
)
@click.option(
    "--to", "target", metavar="STORE", type=LocationType(), required=True, help="The new store, in the same form."
)
@click.option("--dry-run", is_flag=True, help="Check whether it can be moved; change nothing.")
@click.option("--keep-source", is_flag=True, help="Copy instead of move: brokers can still use an embedded source.")
@click.option(
    "--zookeeper-config",
    "zookeeper_config",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="Properties with TLS, login and access control lists of ZooKeeper, for example a broker's file.",
)
@click.option(
    "--timeout",
    "timeout_s",
    metavar="SECONDS",
    type=click.FloatRange(min=1),
    default=30.0,
    show_default=True,
    help="Wait this long for ZooKeeper to answer.",
)
@json_option
def move(
    *,
    source: StoreLocation,
    target: StoreLocation,
    dry_run: bool,
    keep_source: bool,
    zookeeper_config: str | None,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Move a cluster's metadata from one coordination store to another.

    Topics with their ids and partition states, all settings, users, quotas, ACLs, the cluster id and the next producer
    and broker ids are copied unchanged; records, groups and transactions are in the log directories and stay there.
    All brokers must be stopped. The copy is read back and compared. Nothing is overwritten: the target must be empty,
    or hold a part of the same tree, so that an interrupted move can be repeated.

    An embedded store (coordination.sqlite in the first log directory) stays in place with a note beside it, and brokers
    refuse it from then on. A ZooKeeper tree stays, too, and nothing keeps Apache Kafka from using it: do not start a
    broker on it again.

    \b
      sordini cluster move --from embedded:data --to zookeeper:zk-1:2181,zk-2:2181/kafka --dry-run
      sordini cluster move --from embedded:data --to zookeeper:zk-1:2181,zk-2:2181/kafka
      sordini cluster move --from zookeeper:zk-1:2181/kafka --to embedded:data
      sordini cluster move --from embedded:data --to zookeeper:zk-1:2182/kafka --zookeeper-config tls.properties
    """
    import asyncio

    from sordini.coordination_store.store_location import StoreLocations
    from sordini.coordination_store.store_migration import MigrationRefused
    from sordini.replication.ports import CoordinationError, NotAuthorized, StoreUnusable
    from sordini.storage.disk import SystemDisk
    from sordini.system.clock import SystemClock

    disk = SystemDisk()
    locations = StoreLocations(
        disk,
        SystemClock(),
        connection_timeout_ms=round(timeout_s * 1000),
        zookeeper=None if zookeeper_config is None else _access_by(zookeeper_config, disk),
    )
    try:
        report = asyncio.run(_moved(locations, source, target, dry_run=dry_run, keep_source=keep_source))
    except (MigrationRefused, StoreUnusable) as error:
        raise Failure(str(error)) from None
    except NotAuthorized as error:
        raise Failure(f"ZooKeeper refused it ({error}); --zookeeper-config names a file with a login") from None
    except CoordinationError as error:
        raise Failure(f"a store did not answer ({error}); nothing was lost: repeat the command") from None
    except OSError as error:
        raise Failure(str(error)) from None
    if as_json:
        print_json(report)
    else:
        _print_move(report, source, target)


def _access_by(path: str, disk: SystemDisk) -> Callable[[str], ZooKeeperAccess]:
    """How ZooKeeper is reached with the keys of a properties file. Raises Failure."""
    from sordini.broker.configuration.keys.zookeeper_keys import read_zookeeper_settings
    from sordini.broker.configuration.settings import ConfigError
    from sordini.broker.process.config_loading import read_entries, resolved
    from sordini.broker.security.tls.zookeeper_material import access_of

    try:
        settings = read_zookeeper_settings(resolved(read_entries(path, (), {}), os.environ))
        access = access_of(settings, disk)
    except ConfigError as error:
        raise Failure(str(error)) from None
    return lambda root: access._replace(root=root)


async def _moved(
    locations: StoreLocations, source: StoreLocation, target: StoreLocation, *, dry_run: bool, keep_source: bool
) -> dict[str, Any]:
    """Move the tree; returns the result to print. Raises MigrationRefused, CoordinationError and OSError."""
    locations.refuse(source, target)
    note = former = None
    async with locations.open(source) as origin:
        returns_home = await _returns_home(locations, origin, target)
        if dry_run:
            outcome = await _checked(locations, origin, target, returns_home=returns_home)
        else:
            outcome, former = await _copied(locations, origin, target, returns_home=returns_home)
            note = None if keep_source else locations.mark(source, target)
    ends = {"from": str(source), "to": str(target), "dry_run": dry_run}
    return {**ends, **outcome._asdict(), "note": note, "former": former}


async def _returns_home(locations: StoreLocations, origin: StoreTree, target: StoreLocation) -> bool:
    """Whether this cluster was moved away from the target earlier. Raises MigrationRefused if another cluster was."""
    from sordini.coordination_store.store_migration import MigrationRefused, cluster_id_at

    if locations.moved_to(target) is None:
        return False
    if locations.may_exist(target):
        async with locations.open(target) as former:
            theirs = await cluster_id_at(former)
        if theirs != await cluster_id_at(origin):
            raise MigrationRefused(f"{target} was left by cluster {theirs}, which was moved away: remove it yourself")
    return True


async def _checked(
    locations: StoreLocations, origin: StoreTree, target: StoreLocation, *, returns_home: bool
) -> MigrationSummary:
    from sordini.coordination_store.store_migration import check

    if returns_home or not locations.may_exist(target):
        return await check(origin, None)
    async with locations.open(target) as destination:
        return await check(origin, destination)


async def _copied(
    locations: StoreLocations, origin: StoreTree, target: StoreLocation, *, returns_home: bool
) -> tuple[MigrationSummary, str | None]:
    from sordini.coordination_store.store_migration import check, copy

    former = None
    if returns_home:
        await check(origin, None)
        former = locations.rename_former(target)
    async with locations.open(target) as destination:
        outcome = await copy(origin, destination)
        locations.unmark(target)
    return outcome, former


def _print_move(report: Mapping[str, Any], source: StoreLocation, target: StoreLocation) -> None:
    """Print the result, and on standard error the next steps."""
    shape = f"{counted(report['topics'], 'topic')} with {counted(report['partitions'], 'partition')}"
    existing = f", {report['nodes'] - report['copied']} of them existed" if report["copied"] < report["nodes"] else ""
    does = "can be moved" if report["dry_run"] else "moved"
    echo(f"cluster {report['cluster_id']} {does} from {report['from']} to {report['to']}")
    echo(f"{shape}; {report['nodes']} nodes{existing}{'' if report['dry_run'] else ', verified'}")
    for line in _advice(report, source, target):
        echo(line, err=True)


def _advice(report: Mapping[str, Any], source: StoreLocation, target: StoreLocation) -> Iterator[str]:
    ids = report["brokers"]
    if report["left_out"]:
        yield f"not copied, as not part of a cluster: {', '.join(report['left_out'])}"
    if target.kind == "embedded" and len(ids) > 1:
        yield f"partitions are on brokers {', '.join(map(str, ids))}: an embedded store serves one process"
    if report["dry_run"]:
        return
    if report["former"]:
        yield f"the earlier store is now {report['former']}"
    if report["note"]:
        yield f"the old store stays; brokers refuse it because of {report['note']}"
    elif source.kind == "zookeeper":
        yield f"the tree at {source} stays, and nothing keeps a broker from using it: do not start one there again"
    elif source.kind == "embedded":
        yield f"the store at {source} can still be used, but never by a broker with the same log directories"
    where = f"with zookeeper.connect={target.where}{target.root}"
    if target.kind == "embedded":
        where = f"without zookeeper.connect, the first of log.dirs being that of {target}"
    yield f"now start {'brokers' if len(ids) > 1 else 'the broker'} {where}"
