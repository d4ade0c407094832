"""Requests that change something for everybody, in the audit log, with what became of them.

    call ── copy of the request ──► rule, handler ──► response ──► `Call.amend`: lines ──► AuditLog
                                        '── the connection closes meanwhile: ABANDONED

Which APIs these are follows from their rules (`administrative_apis`), and what is shown of them from their messages
(`shown_messages.py`): an API that gets a rule is in the audit log. A request of many rows has several lines, which are
made in slices; no row is left out.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from types import GeneratorType
from typing import Any, Final

from sordini.broker.configuration.config import find_setting
from sordini.broker.configuration.settings import ValueKind
from sordini.broker.configuration.topic_config import TOPIC_SETTINGS
from sordini.broker.network.ports import Peer
from sordini.broker.requests.call import Call, Route
from sordini.broker.requests.finished_work import no_result
from sordini.broker.requests.quotas.entities import QUOTA_KEYS
from sordini.broker.requests.slice_scheduler import SliceExhausted, SliceScheduler, Work, first_slice
from sordini.broker.security.audit.audit_lines import AuditEvent
from sordini.broker.security.audit.audit_log import AuditLog
from sordini.broker.security.audit.denials import caller
from sordini.broker.security.audit.shown_messages import MessageRenderer, error_codes, error_name
from sordini.protocol.api_keys import ApiKey
from sordini.replication.metadata_store.acl_model import AclOperation
from sordini.replication.ports import Logger

ROWS_PER_LINE: Final = 20
ROW_STEPS: Final = 5
"""Steps to show one row."""
LINE_STEPS: Final = 10
CHANGING: Final = frozenset({AclOperation.CREATE, AclOperation.DELETE, AclOperation.ALTER, AclOperation.ALTER_CONFIGS})
ABANDONED: Final = "ABANDONED"
"""The outcome of a request whose connection closed before it was answered; it may be carried out in part."""
_OF_COORDINATORS: Final = ("-transactions", "-txn-marker-sender")
"""How the client ids end with which coordinators of ours, and of Apache Kafka's, send markers."""


def administrative_apis(routes: Iterable[Route]) -> frozenset[ApiKey]:
    """The APIs whose rule asks for an operation that changes something, and markers, which end transactions."""
    found = {route.key for route in routes if operations_of(route.rule) & CHANGING}
    return frozenset(found | {ApiKey.WRITE_TXN_MARKERS})


def operations_of(rule: Any) -> frozenset[AclOperation]:
    """The operations that a rule, or a part of it, asks for."""
    own = getattr(rule, "operation", None)
    parts = [getattr(rule, name, None) for name in ("first", "second", "of_client")]
    of_parts = [operations_of(part) for part in parts if part is not None]
    return frozenset(() if own is None else (own,)).union(*of_parts)


class ChangeEvents:
    """Puts itself in front of the handlers of administrative APIs."""

    def __init__(self, audit: AuditLog, slices: SliceScheduler, itself: Peer, log: Logger) -> None:
        """`itself` is the peer of this broker's own requests to itself, which are no administrator's."""
        self._audit = audit
        self._slices = slices
        self._itself = itself
        self._log = log

    def audited(self, routes: Sequence[Route]) -> list[Route]:
        """The same routes; administrative ones write what they have changed. Rules are in front of them already."""
        apis = administrative_apis(routes)
        return [route._replace(handle=partial(self._handle, route)) if route.key in apis else route for route in routes]

    def _handle(self, route: Route, call: Call) -> Any:
        if call.peer is self._itself or _is_of_coordinator(call):
            return route.handle(call)
        request = copy.copy(call.body)  # Its rule takes out what is not allowed.
        answer: Any = None
        try:
            answer = route.handle(call)
        finally:  # After the rule, which has set its own; the response to an exception is amended, too.
            if type(answer) is not GeneratorType:
                self._amend(call, request)
        return self._in_steps(answer, call, request) if type(answer) is GeneratorType else answer

    def _in_steps(self, work: Work[Any], call: Call, request: Any) -> Work[Any]:
        try:
            return (yield from work)
        except GeneratorExit:
            self._write(call, request, None)
            raise
        finally:  # The rule may have been a part of the work.
            self._amend(call, request)

    def _amend(self, call: Call, request: Any) -> None:
        former, is_written = call.amend, False

        def amend(message: Any) -> Any:
            nonlocal is_written
            response = message if former is None else former(message)
            if not is_written:
                is_written = True
                self._write(call, request, response)
            return response

        call.amend = amend

    def _write(self, call: Call, request: Any, response: Any) -> None:
        work = change_lines(call, request, response, partial(self._audit.write, AuditEvent.CHANGE, call.peer.address))
        try:
            first_slice(work)
        except SliceExhausted:
            self._slices.add(work, no_result, self._failed)

    def _failed(self, error: Exception) -> None:
        self._log.error("audit lines not written", reason=str(error), exc_info=error)


def change_lines(call: Call, request: Any, response: Any, write: Callable[[dict[str, Any]], None]) -> Work[None]:
    """Write the lines of one request; `response` is None for one that was abandoned."""
    failures, first = 0, ""
    for code in () if response is None else error_codes(response):
        if code:
            failures, first = failures + 1, first or error_name(code)
        yield 1
    outcome = ABANDONED if response is None else first or "NONE"
    shown = MessageRenderer(call.versioned_api.api.key, may_show_value if outcome == "NONE" else _hide)
    head = {**caller(call), "outcome": outcome, "failures": failures}
    scalars = (shown.scalars(request), {} if response is None else shown.scalars(response))
    asked = shown.rows(request, is_response=False)
    answered = iter(()) if response is None else shown.rows(response, is_response=True)
    part = 1
    while True:
        of_request, of_response = list(islice(asked, ROWS_PER_LINE)), list(islice(answered, ROWS_PER_LINE))
        if part > 1 and not of_request and not of_response:
            return
        yield LINE_STEPS + ROW_STEPS * (len(of_request) + len(of_response))
        write(
            {
                **head,
                "part": part,
                "request": {**scalars[0], **_by_field(of_request)},
                "response": {**scalars[1], **_by_field(of_response)},
            }
        )
        if len(of_request) < ROWS_PER_LINE and len(of_response) < ROWS_PER_LINE:
            return
        part += 1


def may_show_value(key: str) -> bool:
    """Whether the value of a setting is no secret: the key is known, and no password."""
    if key in TOPIC_SETTINGS or key in QUOTA_KEYS:
        return True
    declared = find_setting(key)
    return declared is not None and declared.rule.kind is not ValueKind.PASSWORD


def _hide(_key: str) -> bool:
    return False


def _by_field(rows: Iterable[tuple[str, Any]]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for field, row in rows:
        found.setdefault(field, []).append(row)
    return found


def _is_of_coordinator(call: Call) -> bool:
    """Whether it is a marker that a transaction's coordinator sends, not one by which an operator aborts it."""
    return call.versioned_api.api.key == ApiKey.WRITE_TXN_MARKERS and (call.client_id or "").endswith(_OF_COORDINATORS)
