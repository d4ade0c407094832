"""Every target, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.fuzz.target import Target
from tests.fuzz.targets.bearer_tokens import BearerTokens
from tests.fuzz.targets.coordination import Coordination
from tests.fuzz.targets.framing import Framing
from tests.fuzz.targets.logins import Logins
from tests.fuzz.targets.prepared import Prepared
from tests.fuzz.targets.records import Records
from tests.fuzz.targets.requests import Requests
from tests.fuzz.targets.served import Served
from tests.fuzz.targets.tls_records import TlsRecords

TARGETS: Final[Mapping[str, type[Target]]] = {
    made.name: made
    for made in (Framing, Requests, Records, Logins, BearerTokens, Coordination, TlsRecords, Prepared, Served)
}
