"""Schemas of a registry by id: from memory, from what a job keeps in its state, or from the registry.

A schema of an id never changes, so it is requested once, and what is kept serves a run while the registry is down. A
registry that does not answer is requested again until `wait_seconds` are over; then the batch fails, and is repeated by
the next run: no record becomes a dead letter for it. Only a registry that says that it has no such schema
(`error_code` 40403) makes one, and is asked again for it after UNKNOWN_SECONDS. Registries say so, too, of schemas that
the login may not read; so it has to be able to read the job's subjects.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeVar

from sordini.admin.schema_registry.exchange import RegistryFailed
from sordini.admin.schema_registry.registry_requests import (
    NO_SCHEMA,
    RegistryClient,
    RegistryRefused,
)
from sordini.admin.schema_registry.sources import RegistrySources
from sordini.pipeline.errors import PipelineError
from sordini.pipeline.schemas.registry_settings import RegistrySettings
from sordini.schemas.registered.types import Reference, SchemaSource, SchemaType
from sordini.system.clock import SystemClock

T = TypeVar("T")
UNKNOWN_SECONDS: Final = 30
PAUSE_SECONDS: Final = 1.0
_SERVER_FAULTS: Final = range(500, 600)
_TOO_MANY: Final = 429
_NOT_FOUND: Final = 404
_LOGIN: Final = frozenset({401, 403})


class RegistryUnavailable(PipelineError):
    """A registry does not answer, or refuses the job."""


class UnknownId(LookupError):
    """The registry has no schema of an id."""


class Kept(Protocol):
    """Where a job keeps JSON files."""

    def read(self, name: str) -> dict[str, Any] | None: ...

    def write(self, name: str, value: Mapping[str, Any]) -> None: ...


class KeptSchemas:
    """The schemas of one registry."""

    def __init__(self, settings: RegistrySettings, kept: Kept) -> None:
        self._settings = settings
        self._kept = kept
        self._found: dict[int, SchemaSource] = {}
        self._unknown: dict[int, int] = {}
        self._clock = SystemClock()
        self._client: RegistryClient | None = None

    def source_of(self, schema_id: int) -> SchemaSource:
        """A schema with its references. Raises UnknownId, RegistryUnavailable, InvalidSchema beyond a bound."""
        if schema_id not in self._found:
            self._found[schema_id] = self._read(schema_id) or self._requested(schema_id)
        return self._found[schema_id]

    def versions(self, subject: str) -> list[SchemaSource]:
        """All versions of a subject, in order; if the registry does not answer, those that were seen before.

        Raises RegistryUnavailable.
        """
        name = self._path(f"versions-{subject.encode().hex()}.json")
        known = {int(number): int(found) for number, found in (self._kept.read(name) or {}).items()}
        try:
            numbers = self._asked(lambda client: client.versions(subject), waits=not known)
        except RegistryUnavailable:
            if not known:
                raise
            numbers = sorted(known)
        new = [number for number in numbers if number not in known]
        for number in new:
            known[number] = self._version(subject, number)
        if new:
            self._kept.write(name, {str(number): found for number, found in known.items()})
        return [self.source_of(known[number]) for number in sorted(known)]

    def _version(self, subject: str, number: int) -> int:
        """The id of a version, whose schema is kept."""
        found = self._asked(lambda client: client.version(subject, number))
        self._keep(found.schema_id, self._asked(lambda client: RegistrySources(client).resolved(found.schema)))
        return found.schema_id

    def _path(self, name: str) -> str:
        return f"registry/{self._settings.cache_name}/{name}"

    def _read(self, schema_id: int) -> SchemaSource | None:
        kept = self._kept.read(self._path(f"{schema_id}.json"))
        return None if kept is None else source_from_json(kept)

    def _requested(self, schema_id: int) -> SchemaSource:
        now = self._clock.monotonic_ms()
        if now < self._unknown.get(schema_id, 0):
            raise UnknownId(schema_id)
        try:
            text = self._asked(lambda client: client.schema(schema_id), unknown=schema_id)
        except UnknownId:
            self._check_login()
            if len(self._unknown) >= 10_000:
                self._unknown.clear()
            self._unknown[schema_id] = now + UNKNOWN_SECONDS * 1000
            raise
        source = self._asked(lambda client: RegistrySources(client).resolved(text))
        self._keep(schema_id, source)
        return source

    def _check_login(self) -> None:
        """That the login may read the job's subjects, which need not exist. Raises RegistryUnavailable."""
        for subject in filter(None, (self._settings.subject, *self._settings.read_subjects)):
            self._asked(lambda client, of=subject: _exists(client, of))  # type: ignore[misc]

    def _keep(self, schema_id: int, source: SchemaSource) -> None:
        if schema_id not in self._found:
            self._kept.write(self._path(f"{schema_id}.json"), source_to_json(source))
        self._found[schema_id] = source

    def _asked(self, request: Callable[[RegistryClient], T], *, unknown: int | None = None, waits: bool = True) -> T:
        """Send requests, again while the registry does not answer. Raises UnknownId, RegistryUnavailable."""
        if self._client is None:
            self._client = RegistryClient(self._settings.access())
        wait_ms = self._settings.wait_seconds * 1000 if waits else 0
        deadline = self._clock.monotonic_ms() + wait_ms
        while True:
            try:
                return request(self._client)
            except RegistryRefused as error:
                if unknown is not None and error.code == NO_SCHEMA:
                    raise UnknownId(unknown) from None
                if not (error.status in _SERVER_FAULTS or error.status == _TOO_MANY) or self._is_over(deadline):
                    raise RegistryUnavailable(_refused(error)) from None
            except RegistryFailed as error:
                if self._is_over(deadline):
                    raise RegistryUnavailable(f"{error}; no record was decoded without its schema") from None
            threading.Event().wait(PAUSE_SECONDS)

    def _is_over(self, deadline: float) -> bool:
        return self._clock.monotonic_ms() + PAUSE_SECONDS * 1000 > deadline


def _exists(client: RegistryClient, subject: str) -> bool:
    try:
        client.versions(subject)
    except RegistryRefused as error:
        if error.status != _NOT_FOUND:
            raise
        return False
    return True


def source_to_json(source: SchemaSource) -> dict[str, Any]:
    """A schema with its references as JSON."""
    return {
        "type": source.type.value,
        "text": source.text,
        "references": [reference._asdict() for reference in source.references],
        "resolved": {name: source_to_json(inner) for name, inner in source.resolved.items()},
    }


def source_from_json(value: Mapping[str, Any]) -> SchemaSource:
    """Undoes `source_to_json`. Raises PipelineError for anything else."""
    try:
        return SchemaSource(
            SchemaType(value["type"]),
            str(value["text"]),
            tuple(Reference(one["name"], one["subject"], one["version"]) for one in value["references"]),
            {str(name): source_from_json(inner) for name, inner in value["resolved"].items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise PipelineError(f"a kept schema in the job's state is damaged ({error!r}): remove its file") from None


def _refused(error: RegistryRefused) -> str:
    hint = ": decode.registry has its login" if error.status in _LOGIN else ""
    return f"{error}{hint}; no record was decoded without its schema"
