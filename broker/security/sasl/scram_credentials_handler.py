"""DescribeUserScramCredentials and AlterUserScramCredentials: users and their passwords for SCRAM (KIP-554)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from sordini.broker.configuration.entity_admin import EntityAdmin
from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.call import Call, RespondLater, Route
from sordini.broker.security.access import Access
from sordini.broker.security.rules.simple_rules import on_cluster
from sordini.broker.security.sasl.scram_credential import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    SALT_BYTES_MAX,
    credential_of,
)
from sordini.broker.security.sasl.users import ScramUsers, user_entity
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialUpsertion,
)
from sordini.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from sordini.replication.metadata_store.acl_model import AclOperation

MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
"""By their numbers in requests."""
_NUMBERS: Final = {name: number for number, name in MECHANISMS.items()}
NO_CREDENTIAL: Final = "Attempt to delete a user credential that does not exist"
TWICE: Final = "A user credential cannot be altered twice in the same request"


class ScramCredentialsHandler:
    """Serves administrators of users."""

    def __init__(self, users: ScramUsers, admin: EntityAdmin, access: Access, later: RespondLater) -> None:
        self._users = users
        self._admin = admin
        self._access = access
        self._later = later

    def routes(self) -> list[Route]:
        return [
            Route(
                ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
                self.describe,
                self.describe_error_response,
                on_cluster(AclOperation.DESCRIBE),
            ),
            Route(
                ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
                self.alter,
                self.alter_error_response,
                on_cluster(AclOperation.ALTER),
            ),
        ]

    def describe(self, call: Call) -> DescribeUserScramCredentialsResponse:
        self._access.require_cluster(call.peer, AclOperation.DESCRIBE)
        request: DescribeUserScramCredentialsRequest = call.body
        known = self._users.all()
        names = [row.name for row in request.users or ()] or sorted(known)
        counts = Counter(names)
        return DescribeUserScramCredentialsResponse(
            error_message=None, results=[self._described(name, counts[name]) for name in dict.fromkeys(names)]
        )

    def _described(self, name: str, mentions: int) -> DescribeUserScramCredentialsResult:
        if mentions > 1:
            message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
            return _undescribed(name, ErrorCode.DUPLICATE_RESOURCE, message)
        found = self._users.all().get(name)
        if found is None:
            message = f"Attempt to describe a user credential that does not exist: {name}"
            return _undescribed(name, ErrorCode.RESOURCE_NOT_FOUND, message)
        return DescribeUserScramCredentialsResult(
            user=name,
            error_message=None,
            credential_infos=[
                CredentialInfo(mechanism=_NUMBERS[mechanism], iterations=one.iterations)
                for mechanism, one in sorted(found.items())
            ],
        )

    @staticmethod
    def describe_error_response(
        request: DescribeUserScramCredentialsRequest, code: ErrorCode
    ) -> DescribeUserScramCredentialsResponse:
        return DescribeUserScramCredentialsResponse(
            error_code=code,
            error_message=code.name,
            results=[_undescribed(row.name, code, code.name) for row in request.users or ()],
        )

    def alter(self, call: Call) -> DelayedResponse:
        self._access.require_cluster(call.peer, AclOperation.ALTER)
        return self._later(call, self._alter(call.body))

    async def _alter(self, request: AlterUserScramCredentialsRequest) -> AlterUserScramCredentialsResponse:
        by_user: dict[str, dict[str, str | None]] = {}
        errors: dict[str, BrokerError] = {}
        rows: Sequence[tuple[str, int, ScramCredentialUpsertion | None]] = [
            *((row.name, row.mechanism, None) for row in request.deletions),
            *((row.name, row.mechanism, row) for row in request.upsertions),
        ]
        for name, number, upsertion in rows:
            changes = by_user.setdefault(name, {})
            try:
                mechanism = self._checked(name, number, upsertion, changes)
                changes[mechanism] = None if upsertion is None else _text(mechanism, upsertion)
            except BrokerError as error:
                errors.setdefault(name, error)
        for name, changes in by_user.items():
            if name not in errors:
                try:
                    await self._admin.alter(user_entity(name), partial(_changed, changes))
                except BrokerError as error:
                    errors[name] = error
        return AlterUserScramCredentialsResponse(results=[_altered(name, errors.get(name)) for name in by_user])

    def _checked(
        self, name: str, number: int, upsertion: ScramCredentialUpsertion | None, changes: Mapping[str, str | None]
    ) -> str:
        """The mechanism of one change. Raises BrokerError with Apache Kafka's codes."""
        if not name:
            raise BrokerError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
        mechanism = MECHANISMS.get(number)
        if mechanism is None:
            raise BrokerError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
        if mechanism in changes:
            raise BrokerError(ErrorCode.DUPLICATE_RESOURCE, TWICE)
        if upsertion is None:
            if self._users.credential(mechanism, name) is None:
                raise BrokerError(ErrorCode.RESOURCE_NOT_FOUND, NO_CREDENTIAL)
            return mechanism
        if not ITERATIONS_MIN <= upsertion.iterations <= ITERATIONS_MAX:
            few = upsertion.iterations < ITERATIONS_MIN
            raise BrokerError(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"Too {'few' if few else 'many'} iterations")
        if not 0 < len(upsertion.salt) <= SALT_BYTES_MAX or not upsertion.salted_password:
            raise BrokerError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "a credential has a salt and a salted password")
        return mechanism

    @staticmethod
    def alter_error_response(
        request: AlterUserScramCredentialsRequest, code: ErrorCode
    ) -> AlterUserScramCredentialsResponse:
        names = [row.name for row in request.deletions] + [row.name for row in request.upsertions]
        error = BrokerError(code, code.name)
        return AlterUserScramCredentialsResponse(results=[_altered(name, error) for name in dict.fromkeys(names)])


def _text(mechanism: str, row: ScramCredentialUpsertion) -> str:
    return credential_of(mechanism, bytes(row.salted_password), bytes(row.salt), row.iterations).text


def _changed(changes: Mapping[str, str | None], settings: Mapping[str, str]) -> dict[str, str]:
    after = dict(settings)
    for mechanism, text in changes.items():
        if text is None:
            after.pop(mechanism, None)
        else:
            after[mechanism] = text
    return after


def _undescribed(name: str, code: ErrorCode, message: str) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(user=name, error_code=code, error_message=message)


def _altered(name: str, error: BrokerError | None) -> AlterUserScramCredentialsResult:
    if error is None:
        return AlterUserScramCredentialsResult(user=name, error_message=None)
    return AlterUserScramCredentialsResult(user=name, error_code=error.code, error_message=str(error))
