"""The whole way of a client, from the bootstrap addresses to the last partition, as one report."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from sordini.client.addresses import Address
from sordini.client.cluster import Cluster
from sordini.client.errors import ClientError, NotServed, Unreachable
from sordini.client.retries import RETRIABLE, RetryRules
from sordini.client.routing import metadata_request
from sordini.client.sockets import connect_with
from sordini.doctor.client_way import cluster_state
from sordini.doctor.client_way.advertised import Advertised, Bootstrap, try_advertised
from sordini.doctor.client_way.coordinators import check_coordinators
from sordini.doctor.client_way.endpoint import Reached, reach
from sordini.doctor.client_way.logins import login_required, offered_at
from sordini.doctor.client_way.means import Means
from sordini.doctor.client_way.scratch_topic import try_writing
from sordini.doctor.faults import Fault
from sordini.doctor.findings import Finding, Report
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.metadata import MetadataResponse
from sordini.protocol.printable import counted

METADATA: Final = "metadata"
_CODES: Final = RETRIABLE | {ErrorCode.NOT_CONTROLLER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
"""The second: brokers learn of a new topic one after the other."""


async def examine(bootstrap: Sequence[Address], means: Means, *, may_write: bool = False) -> Report:
    """Go the way, and report. Raises nothing of the network: whatever fails is a finding."""
    named = ", ".join(map(str, bootstrap))
    report = Report(f"{named}, as a client reaches it by {means.protocol}")
    ways = [await reach(address, means) for address in bootstrap]
    for way in ways:
        report.checks += way.checks
        report.findings += way.findings
    try:
        opened = next((way for way in ways if way.link is not None), None)
        if opened is not None:
            await _examine_cluster(opened, means, report, may_write=may_write)
    finally:
        for way in ways:
            if way.link is not None:
                way.link.close()
    return report


async def _examine_cluster(way: Reached, means: Means, report: Report, *, may_write: bool) -> None:
    found = await _metadata(way, means, report)
    if found is None:
        return
    at = str(way.address)
    is_alone = len(found.brokers) == 1
    bootstrap = Bootstrap(way.address, way.ip, found.cluster_id or "", way.is_same_machine, is_alone)
    each = await try_advertised(found, bootstrap, means)
    _report_advertised(each, report)
    _report_state(found, at, report)
    if any(one.finding is not None for one in each):
        report.skipped("coordinators", "left out, like writing, until every advertised address is reached")
        return
    reachable = tuple(one.address for one in each)
    rules = RetryRules(_CODES, budget_s=means.timeout_s)
    async with Cluster(means.access(*reachable), partial(connect_with, means.security.tls), rules) as cluster:
        cluster.cluster_map.learn(found)
        await check_coordinators(cluster, found, at, report, may_write=may_write)
        if may_write:
            await try_writing(cluster, at, means, report)
        else:
            report.skipped("write", "nothing was written: --write tries it on a topic of its own, and compares clocks")


async def _metadata(way: Reached, means: Means, report: Report) -> MetadataResponse | None:
    """The cluster as the bootstrap broker knows it."""
    at, link = str(way.address), way.link
    assert link is not None, "only an open link is asked"
    try:
        found: MetadataResponse = await link.ask(metadata_request(None))
    except NotServed as error:
        report.found(METADATA, str(error), Finding(Fault.VERSIONS, at, {"reason": str(error)}))
        return None
    except ClientError as error:
        offer = None
        if isinstance(error, Unreachable) and means.security.sasl is None:
            offer = await offered_at(way.ip, way.address, means)
        if offer is not None and offer.has_logins:
            report.found(METADATA, "closed the connection instead of an answer", login_required(at, offer, means))
        else:
            report.found(METADATA, str(error), Finding(Fault.REQUEST_FAILED, at, {"reason": str(error)}))
        return None
    if not found.brokers:
        report.found(METADATA, "no broker", Finding(Fault.NO_BROKERS, at, {"listener": means.protocol}))
        return None
    report.ok(METADATA, f"cluster {found.cluster_id or '(without an id)'}, {counted(len(found.brokers), 'broker')}")
    return found


def _report_advertised(each: Sequence[Advertised], report: Report) -> None:
    for one in each:
        text = f"broker {one.broker} at {one.address}: {one.result}"
        if one.finding is not None:
            report.found("advertised", text, one.finding)
        else:
            report.ok("advertised", text)
        report.findings += one.notes


def _report_state(found: MetadataResponse, at: str, report: Report) -> None:
    finding = cluster_state.no_controller(found, at)
    if finding is not None:
        report.found("controller", "there is none", finding)
    else:
        report.ok("controller", f"broker {found.controller_id}")
    findings = cluster_state.partition_findings(found, at)
    for one in findings:
        state = "without a leader" if one.fault is Fault.PARTITIONS_OFFLINE else "not fully in sync"
        report.found("partitions", f"{one.facts['count']} {state}", one)
    if not findings:
        report.ok("partitions", f"{cluster_state.state_text(found)}, all with a leader and in sync")
