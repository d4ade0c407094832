"""Opens object stores with obstore, and says in one sentence what they refuse.

S3 and Azure name the reason of a refusal by a code, in XML that each library quotes in its error; the words below are
by these codes, whichever library raised it.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from sordini.pipeline.errors import PipelineError
from sordini.pipeline.tables.object_storage import ObjectStorage, store_of

if TYPE_CHECKING:
    from obstore.store import ObjectStore


class StoreError(PipelineError):
    """An object store is out of reach, or refuses a request."""


_TIMEOUT: Final = "10s"
_RETRIES: Final = {"max_retries": 3, "retry_timeout": dt.timedelta(seconds=20)}
"""For small objects, by which a command finds out at once that a store is out of reach."""

_CODE: Final = re.compile(
    r"<Code>(\w+)</Code>|AWS Error ([A-Z_]+) |\b(AccessDenied|NoSuchBucket|ExpiredToken)\b|Azure Error: \[(\w*)\]"
)
_LACKS: Final = "refuses access: the credentials lack a permission for it (get, put, list or delete)"
_REFUSALS: Final = {
    "accessdenied": _LACKS,
    "allaccessdisabled": "refuses access: the bucket is disabled",
    "nosuchbucket": "is in no bucket: it has to be created first, and the region has to be its own",
    "invalidaccesskeyid": "does not know the access key",
    "xadminusernotfound": "does not know the access key",
    "signaturedoesnotmatch": "refuses the signature: the secret key does not belong to the access key",
    "requesttimetooskewed": "refuses requests as this machine's clock is wrong: set it, by NTP for instance",
    "expiredtoken": "refuses the credentials as they have expired: get new ones",
    "tokenrefreshrequired": "refuses the credentials as they have expired: get new ones",
    "invalidtoken": "does not know the session token: it belongs to another account, or is cut off",
    "authorizationheadermalformed": "is in another region than the settings say",
    "permanentredirect": "is in another region, or behind another endpoint, than the settings say",
    "slowdown": "asks for fewer requests, and did so until the retries ended",
    "serviceunavailable": "is unavailable, and was so until the retries ended",
    "internalerror": "has an error of its own, and had it until the retries ended",
}
_AZURE_NOT_KNOWN: Final = (
    "refuses the credentials: the key or token is not of this account or has expired, or this machine's clock is wrong"
)
_REFUSALS_OF_AZURE: Final = {
    "authenticationfailed": _AZURE_NOT_KNOWN,
    "invalidauthenticationinfo": _AZURE_NOT_KNOWN,
    "noauthenticationinformation": "refuses requests without credentials",
    "publicaccessnotpermitted": "refuses requests without credentials",
    # Azurite answers so to signatures that are wrong, too.
    "authorizationfailure": f"{_AZURE_NOT_KNOWN}, or the account's firewall does not admit it",
    "authorizationpermissionmismatch": _LACKS,
    "authorizationresourcetypemismatch": _LACKS,
    "authorizationservicemismatch": _LACKS,
    "insufficientaccountpermissions": _LACKS,
    "containernotfound": "is in no container: it has to be created first",
    "containerbeingdeleted": "is in a container that is being deleted",
    "accountisdisabled": "refuses access: the account is disabled",
    "serverbusy": "asks for fewer requests, and did so until the retries ended",
    "operationtimedout": "answers too late, and did so until the retries ended",
}
_MISSING_OBJECTS: Final = frozenset({None, "NoSuchKey", "BlobNotFound"})
_STATUS: Final = re.compile(r"HTTP status (\d{3})|status code: (\d{3})")
_OUT_OF_ORDER: Final = frozenset({"500", "502", "503", "504"})
_WITHOUT_BODY: Final = "during HeadObject operation"
"""The answer to a HEAD is a status alone."""
_UNREACHABLE: Final = (
    "error sending request",
    "error trying to connect",
    "NETWORK_CONNECTION",
    "Couldn't connect to server",
    "curlCode",
    "Could not connect to server",
    "Could not resolve host",
    "dns error",
)
_NO_KEYS: Final = (
    *("169.254.169.254", "InstanceProfile", "no credentials", "Unable to locate credentials"),
    *("AuthenticationException", "Bearer token authentication is not permitted"),
)
_NO_BASE64: Final = ("Invalid Access Key", "Base64 encoded string")


def open_store(location: str, options: Mapping[str, str]) -> ObjectStore:
    """The store of a location, whose names are below that. `options` are object_store's. Raises StoreError."""
    from obstore.store import from_url

    settings = dict(options)
    allowed = [settings.pop(name, "false") for name in ("aws_allow_http", "allow_http")]
    client: dict[str, Any] = {"allow_http": "true" in [each.lower() for each in allowed], "timeout": _TIMEOUT}
    try:
        return from_url(location, config=settings, client_options=client, retry_config=_RETRIES)  # type: ignore[call-overload, no-any-return]
    except Exception as error:  # noqa: BLE001 - all of them: obstore's have no common class with Python's own.
        raise store_error(location, error) from None


def problem_of(error: BaseException | str) -> str:
    """What a store refuses, as the rest of a sentence that begins with its location; empty if it is none of that."""
    text = str(error)
    for found in _CODE.finditer(text):
        code = next((group for group in found.groups() if group), "").replace("_", "").lower()
        if said := _REFUSALS.get(code) or _REFUSALS_OF_AZURE.get(code):
            return said
    statuses = {group for found in _STATUS.finditer(text) for group in found.groups() if group}
    if statuses & _OUT_OF_ORDER:
        return f"answers with {min(statuses & _OUT_OF_ORDER)}, and did so until the retries ended"
    if any(part in text for part in _NO_BASE64):
        return "does not know the account key: it is not in base64, as Azure's are"
    if any(part in text for part in _NO_KEYS):
        return "gets no credentials: none are in the environment, and this machine has no role"
    if any(part in text for part in _UNREACHABLE):
        return "cannot be reached: nothing answers at its endpoint"
    return ""


def check_store(storage: ObjectStorage, location: str) -> None:
    """Check that a store answers and lists a location, before anything is begun there. Raises StoreError."""
    if not store_of(location):
        return
    store = open_store(location, storage.object_store_options(location))
    try:
        next(iter(store.list(chunk_size=1)), None)
    except Exception as error:  # All of them - obstore's have no common class with Python's own.
        raise store_error(location, error) from error


def store_error(location: str, error: BaseException) -> StoreError:
    """The error with its reason in one sentence."""
    said = problem_of(error) or f"cannot be used: {str(error).splitlines()[0]}"
    return StoreError(f"{location} {said}")


@contextmanager
def store_errors(location: str, storage: ObjectStorage) -> Iterator[None]:
    """Raise what the store of a location refuses as StoreError, which names it, and other errors as they are."""
    try:
        yield
    except PipelineError:
        raise
    except Exception as error:  # All of them - the libraries' have no common class.
        if not store_of(location):
            raise
        if _WITHOUT_BODY in str(error) or isinstance(error, FileNotFoundError):
            check_store(storage, location)  # The same refusal again, of a request whose answer has the reason.
        if said := problem_of(error):
            raise StoreError(f"{location} {said}") from error
        raise


_Method = TypeVar("_Method", bound=Callable[..., Any])


def in_store(method: _Method) -> _Method:
    """Make a method of a table raise what its `reporting` makes of errors."""

    @wraps(method)
    def reporting(self: Any, *arguments: Any, **named: Any) -> Any:
        with self.reporting():
            return method(self, *arguments, **named)

    return cast("_Method", reporting)


def is_missing(error: FileNotFoundError) -> bool:
    """Whether just the object is missing: the same exception stands for a bucket or container that is unknown."""
    with suppress(StopIteration):
        code = next(_CODE.finditer(str(error)))
        return code[1] in _MISSING_OBJECTS and not problem_of(code[0])
    return True
