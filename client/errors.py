"""What can go wrong between a client and a cluster: the one hierarchy of all clients here. Pure.

    ClientError
    ├── Unreachable          no broker answers at an address; a later attempt may succeed
    │   ├── Disconnected     the connection ended: whether the requests in flight were carried out is unknown
    │   ├── InvalidResponse  the peer's bytes are not the response that is due
    │   └── NotABroker       what listens there is no broker, or none that is reached in this way
    ├── NotServed            the broker and this client have no version of a request in common
    ├── Unauthorized         a login, a certificate or a right is refused
    └── Refused              the cluster answered with an error code

The text is a sentence for the user of a command line: it names the broker, what is wrong, and the remedy if there is
one. Programs add classes of their own below ClientError (a command's `Failure`, a mirror's and a pipeline's errors).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from sordini.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from sordini.protocol.served_apis import Api

T = TypeVar("T")


class ClientError(Exception):
    """What was requested failed; each argument is a line of text that says why. It can be pickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep the text and the fields: constructors of subclasses take other arguments than the text."""
        return _restored, (type(self), self.args, self.__dict__)


def _restored(cls: type[ClientError], args: tuple[Any, ...], fields: dict[str, Any]) -> ClientError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(fields)
    return error


class Unreachable(ClientError):
    """No broker answers at an address at present."""


class Disconnected(Unreachable):
    """The connection ended before the response: whether the requests in flight were carried out is not known."""

    reason = ""
    """The system's reason, if it gave one."""


class InvalidResponse(Unreachable):
    """The peer's bytes are not the response that is due; the connection is unusable."""


class InvalidLength(InvalidResponse):
    """The length in front of a response is negative, too small, or beyond the limit."""

    def __init__(self, peer: str, size: int, limit: int, first_bytes: bytes) -> None:
        self.first_bytes = first_bytes
        """The four bytes that were read as the length: they often show that the peer speaks another protocol."""
        super().__init__(f"{peer} sent a response of {size} bytes, the limit is {limit}")


class NotABroker(Unreachable):
    """What listens at an address is no broker, or none that is reached in this way: another attempt does not help."""


class NotServed(ClientError):
    """The broker and this client have no version of a request in common, within the caller's bounds."""

    def __init__(self, peer: str, api: Api, oldest: int, newest: int) -> None:
        """The broker serves versions `oldest` to `newest`; -1 as `newest`: none."""
        self.api_name = api_name(api)
        self.oldest = oldest
        self.newest = newest
        served = f"knows versions {oldest} to {newest} of" if newest >= 0 else "does not serve"
        too_few = ", which is not enough" if newest >= 0 else ""
        super().__init__(f"{peer} {served} {self.api_name} requests{too_few}")


class Unauthorized(ClientError):
    """The broker refuses the login, the certificate or the operation, or does not prove to know the password."""


class Refused(ClientError):
    """The cluster answered with an error."""

    def __init__(self, subject: str, code: int, reason: str | None = None) -> None:
        self.code = ErrorCode(code) if code in ErrorCode._value2member_map_ else ErrorCode.UNKNOWN_SERVER_ERROR
        name = self.code.name if self.code == code else f"error {code}"
        super().__init__(f"{subject}: {reason or name.replace('_', ' ').lower()} ({name})")


def check(subject: str, code: int, reason: str | None = None) -> None:
    """Raise Refused for a code other than NONE."""
    if code != ErrorCode.NONE:
        raise Refused(subject, code, reason)


def only_row(rows: Sequence[T], subject: str) -> T:
    """The row of a response that must have exactly one. Raises ClientError for any other number."""
    if len(rows) != 1:
        raise ClientError(f"the broker's answer has {len(rows)} rows for {subject} instead of one")
    return rows[0]


def lost(peer: str, error: OSError | None = None) -> Disconnected:
    """The peer closed the connection, or it broke with this error of the system."""
    closed = f"{peer} closed the connection before it answered"
    if error is None:
        return Disconnected(closed)
    reason = reason_of(error)
    found = Disconnected(f"{closed} ({reason})")
    found.reason = reason
    return found


def too_late(peer: str, seconds: float) -> Disconnected:
    """There was no response in time."""
    return Disconnected(f"{peer} gave no answer within {seconds:g} s")


def with_text(error: ClientError, text: str) -> ClientError:
    """The same error with another text."""
    return _restored(type(error), (text,), error.__dict__)


def reason_of(error: OSError) -> str:
    """The system's text, as the end of a sentence."""
    if isinstance(error, ConnectionRefusedError) or "Connect call failed" in str(error):
        return "connection refused"
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]


def api_name(api: Api) -> str:
    """As Apache Kafka's documentation writes it, e.g. `ListOffsets`."""
    return api.key.name.replace("_", " ").title().replace(" ", "")
