"""The examination of a machine for one broker, as one report."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

from sordini.doctor.broker_host.configuration import read_configuration
from sordini.doctor.broker_host.directories import LogDirectories
from sordini.doctor.broker_host.listeners import check_certificates, check_ports
from sordini.doctor.broker_host.machine import check_machine
from sordini.doctor.broker_host.zookeeper import check_zookeeper
from sordini.doctor.findings import Report
from sordini.replication.ports import Clock
from sordini.storage.disk import SystemDisk


def examine_host(properties: str, environment: Mapping[str, str], clock: Clock, timeout_s: float) -> Report:
    """Examine this machine for the broker of a server.properties; `timeout_s` is for ZooKeeper."""
    report = Report(f"{properties}, for a broker on this machine")
    given = read_configuration(properties, environment, report)
    if given is None:
        return report
    config, disk = given.config, SystemDisk()
    check_machine(config, report)
    directories = LogDirectories(config, disk, clock, report)
    directories.check()
    check_ports(config, directories.running, report)
    now = dt.datetime.fromtimestamp(clock.now_ms() / 1000, dt.UTC)
    check_certificates(config, disk, now, report)
    check_zookeeper(config, disk, clock, timeout_s, directories.cluster_id, report)
    return report
