"""DescribeClientQuotas and AlterClientQuotas: quotas of users, client ids and addresses (KIP-546)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from sordini.broker.configuration.entity_admin import EntityAdmin
from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.call import Call, RespondLater, Route
from sordini.broker.requests.quotas.client_quotas import ClientQuotas
from sordini.broker.requests.quotas.entities import DEFAULT, QuotaEntity, checked_value, value_text
from sordini.broker.security.access import Access
from sordini.broker.security.rules.simple_rules import on_cluster
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredEntity,
    AlteredEntry,
    AlterResult,
    QuotaOp,
)
from sordini.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribedEntity,
    DescribedEntry,
    DescribedValue,
    FilterComponent,
)
from sordini.replication.metadata_store.acl_model import AclOperation

USER, CLIENT_ID, ADDRESS = "user", "client-id", "ip"
TYPES: Final = (USER, CLIENT_ID, ADDRESS)
"""Parts of an entity, as requests name them, in the order of `QuotaEntity`."""
EXACT, IS_DEFAULT, ANY = range(3)
NAME_BYTES_MAX: Final = 250
"""Of one part: with its escapes it must be the name of a node."""
ENTRIES_MAX: Final = 1_000
"""Entities that one request changes."""


class ClientQuotasHandler:
    """Serves administrators of quotas."""

    def __init__(self, quotas: ClientQuotas, admin: EntityAdmin, access: Access, later: RespondLater) -> None:
        self._quotas = quotas
        self._admin = admin
        self._access = access
        self._later = later

    def routes(self) -> list[Route]:
        return [
            Route(
                ApiKey.DESCRIBE_CLIENT_QUOTAS,
                self.describe,
                self.describe_error_response,
                on_cluster(AclOperation.DESCRIBE_CONFIGS),
            ),
            Route(
                ApiKey.ALTER_CLIENT_QUOTAS,
                self.alter,
                self.alter_error_response,
                on_cluster(AclOperation.ALTER_CONFIGS),
            ),
        ]

    def describe(self, call: Call) -> DescribeClientQuotasResponse:
        self._access.require_cluster(call.peer, AclOperation.DESCRIBE_CONFIGS)
        request: DescribeClientQuotasRequest = call.body
        try:
            matches = _filter(request.components, strict=request.strict)
        except BrokerError as error:
            return DescribeClientQuotasResponse(error_code=error.code, error_message=str(error), entries=None)
        found = self._quotas.all()
        return DescribeClientQuotasResponse(
            error_message=None,
            entries=[_described(entity, found[entity]) for entity in sorted(found, key=_order) if matches(entity)],
        )

    @staticmethod
    def describe_error_response(_request: DescribeClientQuotasRequest, code: ErrorCode) -> DescribeClientQuotasResponse:
        return DescribeClientQuotasResponse(error_code=code, error_message=code.name, entries=None)

    def alter(self, call: Call) -> DelayedResponse:
        self._access.require_cluster(call.peer, AclOperation.ALTER_CONFIGS)
        request: AlterClientQuotasRequest = call.body
        if len(request.entries) > ENTRIES_MAX:
            reason = f"{len(request.entries)} entities are more than {ENTRIES_MAX} of one request"
            raise BrokerError(ErrorCode.POLICY_VIOLATION, reason)
        return self._later(call, self._alter(request))

    async def _alter(self, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
        return AlterClientQuotasResponse(
            entries=[await self._alter_one(entry, is_done=not request.validate_only) for entry in request.entries]
        )

    async def _alter_one(self, entry: AlteredEntry, *, is_done: bool) -> AlterResult:
        try:
            entity = _entity(entry.entity)
            changes = _changes(entity, entry.ops)
            if is_done:
                await self._admin.alter(entity.path, partial(_changed, changes))
        except BrokerError as error:
            return AlterResult(error_code=error.code, error_message=str(error), entity=entry.entity)
        return AlterResult(error_message=None, entity=entry.entity)

    @staticmethod
    def alter_error_response(request: AlterClientQuotasRequest, code: ErrorCode) -> AlterClientQuotasResponse:
        return AlterClientQuotasResponse(
            entries=[
                AlterResult(error_code=code, error_message=code.name, entity=entry.entity) for entry in request.entries
            ]
        )


def _invalid(why: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_REQUEST, why)


def _entity(parts: Iterable[AlteredEntity]) -> QuotaEntity:
    """The entity of a change. Raises BrokerError INVALID_REQUEST, as Apache Kafka."""
    named: dict[str, str] = {}
    for part in parts:
        if part.entity_type not in TYPES:
            raise _invalid(f"Unhandled client quota entity type: {part.entity_type}")
        if part.entity_name == "":
            raise _invalid(f"Empty {part.entity_type} not supported")
        if len((part.entity_name or "").encode()) > NAME_BYTES_MAX:
            raise _invalid(f"a {part.entity_type} has at most {NAME_BYTES_MAX} bytes")
        named[part.entity_type] = DEFAULT if part.entity_name is None else part.entity_name
    if not named:
        raise _invalid("Invalid empty client quota entity")
    if ADDRESS in named and len(named) > 1:
        raise _invalid(f"Invalid quota entity combination: {', '.join(sorted(named))}: an ip has no other part")
    address = named.get(ADDRESS)
    if address:
        address = _address(address)
    return QuotaEntity(named.get(USER), named.get(CLIENT_ID), address)


def _address(text: str) -> str:
    """An address as connections have it. Apache Kafka takes host names, too, which it never finds a connection by."""
    import ipaddress

    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise _invalid(f"{text} is not a valid IP") from None


def _changes(entity: QuotaEntity, ops: Iterable[QuotaOp]) -> dict[str, str | None]:
    """The new text of each quota; None where it is removed. Raises BrokerError INVALID_REQUEST."""
    found: dict[str, str | None] = {}
    for op in ops:
        if op.key not in entity.keys:
            raise _invalid(f"Invalid configuration key {op.key}: allowed is {', '.join(entity.keys)}")
        if op.remove:
            found[op.key] = None
            continue
        try:
            found[op.key] = value_text(op.key, checked_value(op.key, op.value))
        except ValueError as error:
            raise _invalid(str(error)) from None
    return found


def _changed(changes: Mapping[str, str | None], settings: Mapping[str, str]) -> dict[str, str]:
    after = {key: value for key, value in settings.items() if key not in changes}
    return after | {key: value for key, value in changes.items() if value is not None}


def _filter(components: Iterable[FilterComponent], *, strict: bool) -> Callable[[QuotaEntity], bool]:
    """What the components select. Raises BrokerError for those that cannot be."""
    wanted: dict[str, FilterComponent] = {}
    for one in components:
        if not one.entity_type:
            raise _invalid("Unexpected empty filter component entity type")
        if one.entity_type not in TYPES:
            why = f"Custom entity type '{one.entity_type}' not supported"
            raise BrokerError(ErrorCode.UNSUPPORTED_VERSION, why)
        if one.entity_type in wanted:
            raise _invalid(f"Duplicate {one.entity_type} filter component entity type")
        if not EXACT <= one.match_type <= ANY:
            raise _invalid(f"Unexpected match type {one.match_type}")
        wanted[one.entity_type] = one
    if ADDRESS in wanted and len(wanted) > 1:
        raise _invalid(
            "Invalid entity filter component combination, IP filter component should not be used with user or "
            "clientId filter component."
        )

    def matches(entity: QuotaEntity) -> bool:
        return all(_fits(wanted.get(kind), name, strict=strict) for kind, name in zip(TYPES, entity, strict=True))

    return matches


def _fits(component: FilterComponent | None, name: str | None, *, strict: bool) -> bool:
    """Whether a part of an entity is what its component says; without a component any part is, unless `strict`."""
    if component is None:
        return name is None or not strict
    if name is None:
        return False
    if component.match_type == ANY:
        return True
    return name == (DEFAULT if component.match_type == IS_DEFAULT else component.match)


def _order(entity: QuotaEntity) -> tuple[str, ...]:
    return tuple("" if name is None else f"={name}" for name in entity)


def _described(entity: QuotaEntity, quotas: Mapping[str, float]) -> DescribedEntry:
    named = [(kind, name) for kind, name in zip(TYPES, entity, strict=True) if name is not None]
    return DescribedEntry(
        entity=[DescribedEntity(entity_type=kind, entity_name=name or None) for kind, name in named],
        values=[DescribedValue(key=key, value=quotas[key]) for key in sorted(quotas)],
    )
