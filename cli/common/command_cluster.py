"""How a command reaches a cluster: by the addresses of --bootstrap, secured as --command-config says."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from sordini.admin.cluster_client import ClusterClient
from sordini.cli.common.client_security import current_security
from sordini.client.addresses import Address
from sordini.client.cluster import Connect
from sordini.client.cluster_core import Access, not_opened
from sordini.client.security import PLAINTEXT
from sordini.client.sockets import connect_with

CLIENT_ID: Final = "sordini-cli"


def command_access(bootstrap: Iterable[Address]) -> tuple[Access, Connect]:
    """How the command that runs reaches a cluster."""
    security = current_security() or PLAINTEXT
    explain = partial(not_opened, protocol=security.protocol)
    access = Access(tuple(bootstrap), CLIENT_ID, security.sasl, explain=explain)
    return access, partial(connect_with, security.tls)


def command_cluster(bootstrap: Iterable[Address]) -> ClusterClient:
    """The cluster of the command that runs."""
    return ClusterClient(*command_access(bootstrap))
