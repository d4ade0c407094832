"""Each fault in sentences, apart from how it is found. Pure: tables, and two look-ups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from sordini.doctor.faults import Fault
from sordini.doctor.knowledge.broker_host import ENTRIES as _BROKER_HOST
from sordini.doctor.knowledge.client_messages import MESSAGES, SAME_AS
from sordini.doctor.knowledge.cluster import ENTRIES as _CLUSTER
from sordini.doctor.knowledge.connections import ENTRIES as _CONNECTIONS
from sordini.doctor.knowledge.entry import Entry
from sordini.doctor.knowledge.tls_and_logins import ENTRIES as _TLS_AND_LOGINS

ENTRIES: Final[Mapping[Fault, Entry]] = {**_CONNECTIONS, **_TLS_AND_LOGINS, **_CLUSTER, **_BROKER_HOST}
"""All of them."""


def entry_of(fault: Fault) -> Entry:
    """What is known of a fault."""
    return ENTRIES[fault]


def messages_of(fault: Fault) -> Mapping[str, Sequence[str]]:
    """What clients print because of it, by the client's name; empty where none was seen to print anything."""
    return MESSAGES.get(SAME_AS.get(fault, fault), {})
