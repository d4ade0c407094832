"""Schemas of a registry by their ids, with all that they refer to. They block."""

from __future__ import annotations

from typing import Final

from sordini.admin.schema_registry.exchange import RegistryFailed
from sordini.admin.schema_registry.registry_requests import NOT_FOUND, RegistryClient, RegistryRefused, RegistryText
from sordini.schemas.registered.references import REFERENCED_MAX, REFERENCES_DEPTH_MAX
from sordini.schemas.registered.types import InvalidSchema, SchemaSource
from sordini.system.clock import SystemClock

WHOLE_MS: Final = 30_000
"""For a schema with all that it refers to, beside the last request."""
UNKNOWN_MAX: Final = 10_000
"""Ids of which it is remembered that there is no schema."""


class UnknownSchema(LookupError):
    """The registry has no schema of an id."""


class RegistrySources:
    """Finds schemas; remembers which ids there are not."""

    def __init__(self, client: RegistryClient, *, whole_ms: int = WHOLE_MS) -> None:
        self._client = client
        self._whole_ms = whole_ms
        self._clock = SystemClock()
        self._unknown: dict[int, None] = {}

    def source_of(self, schema_id: int) -> SchemaSource:
        """A schema. Raises UnknownSchema, InvalidSchema beyond a bound, RegistryFailed and RegistryRefused."""
        if schema_id in self._unknown:
            raise UnknownSchema(schema_id)
        try:
            text = self._client.schema(schema_id)
        except RegistryRefused as refused:
            if refused.status != NOT_FOUND:
                raise
            if len(self._unknown) >= UNKNOWN_MAX:
                self._unknown.clear()
            self._unknown[schema_id] = None
            raise UnknownSchema(schema_id) from None
        return self.resolved(text)

    def forget_unknown(self) -> None:
        """Request ids again that the registry had no schema of."""
        self._unknown.clear()

    def resolved(self, text: RegistryText) -> SchemaSource:
        """A text with the schemas that it refers to. Raises as `source_of`, but for UnknownSchema."""
        return _Resolution(self._client, self._clock.monotonic_ms() + self._whole_ms, self._clock).source(text, 0)


class _Resolution:
    """One search for all references, each version once."""

    def __init__(self, client: RegistryClient, deadline_ms: int, clock: SystemClock) -> None:
        self._client = client
        self._deadline_ms = deadline_ms
        self._clock = clock
        self._found: dict[tuple[str, int], SchemaSource] = {}

    def source(self, text: RegistryText, depth: int) -> SchemaSource:
        if depth > REFERENCES_DEPTH_MAX:
            raise InvalidSchema(f"references of references, more than {REFERENCES_DEPTH_MAX} levels deep")
        resolved = {one.name: self._version(one.subject, one.version, depth) for one in text.references}
        return SchemaSource(text.type, text.text, text.references, resolved)

    def _version(self, subject: str, version: int, depth: int) -> SchemaSource:
        key = subject, version
        if key not in self._found:
            if len(self._found) >= REFERENCED_MAX:
                raise InvalidSchema(f"more than {REFERENCED_MAX} schemas are referred to")
            if self._clock.monotonic_ms() > self._deadline_ms:
                raise RegistryFailed(f"the registry {self._client.name} did not answer in time for all references")
            found = self._client.version(subject, None if version < 0 else version)
            self._found[key] = self.source(found.schema, depth + 1)
        return self._found[key]
