"""The least registry over a journal: one subject, and the rule that a new schema has the next id.

It decides under a lock, on what was read back, as a registry does. What it keeps is what the judge compares.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from sordini.client.addresses import parse_bootstrap
from sordini.client.cluster_core import Access
from sordini.client.sockets import connect
from sordini.registry.journal.journal import TopicJournal
from sordini.registry.journal.membership import Identity
from sordini.registry.journal.settings import JournalSettings
from sordini.replication.ports import Logger
from sordini.system.clock import SystemClock
from tests.support.fake_ports import ListLog

QUICK: dict[str, Any] = {"session_timeout_ms": 1_000, "heartbeat_ms": 100, "rebalance_timeout_ms": 1_500}
"""Elections in a second; brokers have to allow the session timeout (`group.min.session.timeout.ms`)."""


def settings(port: int, **changed: Any) -> JournalSettings:
    """Of a registry at a port of this machine."""
    return JournalSettings(Identity("http", "127.0.0.1", port), **{**QUICK, **changed})


class NumberingRegistry:
    """One process's state, and its journal."""

    def __init__(self, bootstrap: str, configured: JournalSettings, log: Logger | None = None) -> None:
        self.ids: dict[str, int] = {}
        """By the text of the schema."""
        self.records: list[tuple[int, bytes, bytes | None]] = []
        """Offset, key and value of all that was applied, in order."""
        self.log = ListLog()
        """What is logged, if no other log is given."""
        self._lock = asyncio.Lock()
        access = Access(tuple(parse_bootstrap(bootstrap)), f"registry-{configured.identity.port}")
        self.journal = TopicJournal(access, connect, configured, self._apply, SystemClock().now_ms, log or self.log)

    def _apply(self, key: bytes, value: bytes | None, offset: int) -> None:
        self.records.append((offset, key, value))
        if value is not None:
            fields = json.loads(value)
            self.ids[fields["schema"]] = fields["id"]

    def registrations(self) -> list[tuple[str, int]]:
        """Schema and id of every record that registers one, in the order of the log."""
        values = [json.loads(value) for _, _, value in self.records if value is not None]
        return [(fields["schema"], fields["id"]) for fields in values]

    async def register(self, schema: str) -> int:
        """The id of a schema, which is registered if it is new. Raises NotTheWriter and JournalFailed."""
        async with self._lock:
            if schema not in self.ids:
                number = max(self.ids.values(), default=0) + 1
                key = {"keytype": "SCHEMA", "subject": "judged", "version": number, "magic": 1}
                value = {"subject": "judged", "version": number, "id": number, "schema": schema, "deleted": False}
                await self.journal.append(json.dumps(key).encode(), json.dumps(value).encode())
            return self.ids[schema]
