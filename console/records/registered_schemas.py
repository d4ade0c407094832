"""The schemas of the registry that the console was started with: found by the ids in records, before a page is made.

Requests and the parsing of schemas are in a thread, for which a page waits a bounded time; one that is not there by
then is found by the next page. A registry that fails is left alone for a while. Values of JSON Schema are not checked:
a pattern of a schema may take any time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from typing import Final

from sordini.admin.schema_registry.access import RegistryAccess
from sordini.admin.schema_registry.registry_requests import RegistryClient, RegistryRefused
from sordini.admin.schema_registry.sources import RegistrySources, UnknownSchema
from sordini.client.errors import ClientError
from sordini.schemas.codecs import Json, SchemaError, ValueRefused
from sordini.schemas.registered.registered_codecs import FoundCodec, RegisteredCodecs
from sordini.schemas.registered.wire import read_header
from sordini.system.named_tuple import NamedTuple

LOAD_S: Final = 3.0
"""For which a page waits."""
REQUEST_S: Final = 2.0
FAILED_S: Final = 5.0
"""For which a registry that has failed receives no request."""
UNKNOWN_S: Final = 30.0
"""After which ids without a schema, and schemas that could not be used, are requested again."""
NAMES_MAX: Final = 1_000
SUBJECTS_SHOWN: Final = 2


class RegisteredValue(NamedTuple):
    """How one key or value is read: a reader and what its schema is called, or why there is none."""

    reader: FramedReader | None = None
    schema: str | None = None
    problem: str | None = None


class FramedReader(NamedTuple):
    """Reads behind the header."""

    found: FoundCodec

    def decode(self, data: bytes) -> Json:
        """Raises ValueRefused."""
        return self.found.codec.decode(data[self.found.start :])


NO_SCHEMA: Final = RegisteredValue()


class RegisteredSchemas:
    """What pages know of a registry."""

    def __init__(self, access: RegistryAccess) -> None:
        self.client = RegistryClient(access, REQUEST_S)
        self._sources = RegistrySources(self.client, whole_ms=int(REQUEST_S * 1000))
        self._codecs = RegisteredCodecs(self._sources.source_of, checks_json=False)
        self._names: dict[int, str] = {}
        self._unusable: dict[int, str | None] = {}
        """By id: why; None where the registry has no such schema."""
        self._forgotten_at_s = time.monotonic()
        self._failure: tuple[float, str] | None = None
        """Until when, and why."""
        self._running: asyncio.Future[None] | None = None

    def close(self) -> None:
        """Forget what was found. No connection is open between requests."""
        self._names.clear()
        self._unusable.clear()

    async def load(self, values: Iterable[bytes | None]) -> None:
        """Find the schemas of keys and values, as far as the time of a page allows."""
        now_s = time.monotonic()
        if self._failure is not None and now_s >= self._failure[0]:
            self._failure = None
        if now_s - self._forgotten_at_s >= UNKNOWN_S:
            self._forgotten_at_s = now_s
            self._unusable.clear()
            self._sources.forget_unknown()
        missing = [value for value in values if value is not None and self._is_missing(value)]
        if not missing or self._failure is not None:
            return
        try:
            async with asyncio.timeout(LOAD_S):
                while self._running is not None and not self._running.done():
                    await asyncio.wait([self._running])
                self._running = asyncio.get_running_loop().run_in_executor(None, self._fill, missing, now_s + LOAD_S)
                await asyncio.wait([self._running])
        except TimeoutError:
            return

    def of(self, data: bytes | None) -> RegisteredValue:
        """How to read a key or value, by what is known already."""
        try:
            schema_id = read_header(data or b"").schema_id
            found = self._codecs.find_kept(data or b"")
        except ValueRefused:  # Most records have no header.
            return NO_SCHEMA
        name = self._names.get(schema_id, f"schema {schema_id}")
        if found is not None:
            return RegisteredValue(FramedReader(found), name)
        if schema_id in self._unusable:
            return RegisteredValue(problem=self._unusable[schema_id])
        late = f"the registry {self.client.name} was too slow for schema {schema_id}: open the page again"
        return RegisteredValue(problem=late if self._failure is None else self._failure[1])

    def _is_missing(self, data: bytes) -> bool:
        try:
            return read_header(data).schema_id not in self._unusable and self._codecs.find_kept(data) is None
        except ValueRefused:
            return False

    def _fill(self, values: Sequence[bytes], deadline_s: float) -> None:
        """In a thread."""
        for data in values:
            if time.monotonic() >= deadline_s:
                return
            if not self._is_missing(data):
                continue
            schema_id = read_header(data).schema_id
            try:
                self._codecs.find(data)
                self._name(schema_id)
            except UnknownSchema:
                self._unusable[schema_id] = None
            except ValueRefused:  # Indexes of messages that are none.
                continue
            except SchemaError as error:
                self._unusable[schema_id] = f"the registered schema {schema_id} cannot be used: {error}"
            except ClientError as error:
                self._failure = time.monotonic() + FAILED_S, str(error)
                return

    def _name(self, schema_id: int) -> None:
        """The subjects of a schema, which an older registry does not list."""
        try:
            subjects = [f"{subject} version {version}" for subject, version in self.client.subjects_of(schema_id)]
        except RegistryRefused:
            return
        if len(self._names) >= NAMES_MAX:
            self._names.clear()
        more = f" and {len(subjects) - SUBJECTS_SHOWN} more" if len(subjects) > SUBJECTS_SHOWN else ""
        self._names[schema_id] = f"schema {schema_id}: {', '.join(subjects[:SUBJECTS_SHOWN])}{more}"
