"""The broker's one fence: an exception of a handler becomes the response to that request, and affects no other.

WireError, AssertionError   pass: the connection, or the process, must end
BrokerError                 its code
CoordinationError           the code for a store that does not answer, which clients retry
any other                   UNKNOWN_SERVER_ERROR, and a line with the traceback
"""

from __future__ import annotations

from sordini.broker.network.ports import Parts
from sordini.broker.requests.call import Call
from sordini.broker.requests.error_responses import error_response_in_steps
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.requests.store_error_codes import StoreErrorCodes
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.replication.ports import CoordinationError, Logger


class Fence:
    """Makes responses of exceptions."""

    def __init__(self, log: Logger) -> None:
        self._log = log
        self.store_error_codes = StoreErrorCodes(log)

    def frame(self, call: Call, error: Exception) -> Parts:
        """The response to a call whose handling raised."""
        return call.frame(call.versioned_api.route.error_response(call.body, self.code_of(call, error)))

    def frame_in_steps(self, call: Call, error: Exception) -> Work[Parts]:
        """As `frame`, for a request of many rows."""
        code = self.code_of(call, error)
        message = yield from error_response_in_steps(call.versioned_api.route.error_response, call.body, code)
        return (yield from call.frame_in_steps(message))

    def code_of(self, call: Call, error: Exception) -> ErrorCode:
        """The code for the whole request."""
        versioned = call.versioned_api
        versioned.errors += 1
        if isinstance(error, BrokerError):
            return error.code
        if isinstance(error, CoordinationError):
            return self.store_error_codes.code(versioned.api.key, error)
        self._log.error(
            "request failed", api=versioned.api.key.name, version=versioned.version, peer=str(call.peer), exc_info=error
        )
        return ErrorCode.UNKNOWN_SERVER_ERROR
