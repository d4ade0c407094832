"""Whether the ensemble answers, and whose tree is at the chroot. It is read only; the chroot is not created."""

from __future__ import annotations

import asyncio

from sordini.broker.configuration.config import Config
from sordini.broker.configuration.settings import ConfigError
from sordini.broker.security.tls.zookeeper_material import access_of
from sordini.coordination_store.store_location import StoreLocation, StoreLocations, location_of
from sordini.coordination_store.store_migration import cluster_id_at
from sordini.doctor.faults import Fault
from sordini.doctor.findings import Finding, Report
from sordini.replication.ports import Clock, CoordinationError, StoreUnusable
from sordini.storage.disk import Disk

STEP = "zookeeper"


def check_zookeeper(
    config: Config, disk: Disk, clock: Clock, timeout_s: float, cluster_id: str | None, report: Report
) -> None:
    """Read the chroot and the cluster id in it; `cluster_id` is that of the data on this machine."""
    if not config.zookeeper_connect:
        return
    where = config.zookeeper_connect
    try:
        location = location_of(f"zookeeper:{where}")
        locations = StoreLocations(
            disk,
            clock,
            connection_timeout_ms=round(timeout_s * 1000),
            zookeeper=lambda root: access_of(config, disk, root),
        )
        is_there, found = asyncio.run(_read(locations, location))
    except (ConfigError, StoreUnusable, CoordinationError, ValueError, OSError, TimeoutError) as error:
        reason = str(error) or type(error).__name__
        finding = Finding(Fault.ZOOKEEPER_UNREACHABLE, where, {"reason": reason, "seconds": f"{timeout_s:g}"})
        report.found(STEP, f"{where}: {reason}", finding)
        return
    facts = {"chroot": location.root or "/", "hosts": location.where, "cluster": str(cluster_id), "other": str(found)}
    if cluster_id is not None and found != cluster_id:
        if is_there and found is not None:
            report.found(STEP, f"cluster {found} is there", Finding(Fault.ZOOKEEPER_OTHER_CLUSTER, where, facts))
        else:
            report.found(STEP, f"nothing at {facts['chroot']}", Finding(Fault.ZOOKEEPER_NO_CHROOT, where, facts))
    elif found is None:
        report.ok(STEP, f"{location.where} answers; {facts['chroot']} has no cluster yet")
    else:
        report.ok(STEP, f"{location.where} answers; cluster {found} is at {facts['chroot']}")


async def _read(locations: StoreLocations, location: StoreLocation) -> tuple[bool, str | None]:
    """Whether the chroot exists, and the id of the cluster in it."""
    async with locations.open(location) as tree:
        is_there = await tree.session.exists(tree.at("")) is not None
        return is_there, await cluster_id_at(tree) if is_there else None
