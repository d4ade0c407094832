"""What a REST catalog of Iceberg refuses is one sentence: the table, the catalog's host, and what to look at."""

from __future__ import annotations

import pytest
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    ForbiddenError,
    OAuthError,
    ServiceUnavailableError,
    UnauthorizedError,
)
from requests.exceptions import ConnectionError as NoConnection
from requests.exceptions import ReadTimeout, SSLError

from sordini.pipeline.tables import TableError
from sordini.pipeline.tables.iceberg.location import IcebergLocation, catalog_errors

CATALOG = {"type": "rest", "uri": "https://someone:hush@lake.example:8181/iceberg", "credential": "id:hush"}
WHERE = IcebergLocation("s3://lake/tables/views", "", CATALOG)


@pytest.mark.parametrize(
    ("error", "reported"),
    [
        (NoConnection("('Connection aborted.', ...)"), "does not answer, or has ended the connection"),
        (ReadTimeout("read timed out"), "does not answer, or has ended the connection"),
        (SSLError("CERTIFICATE_VERIFY_FAILED"), "is not trusted: its certificate"),
        (UnauthorizedError("NotAuthorizedException: hush"), "refuses the login: catalog.credential or catalog.token"),
        (OAuthError("invalid_client"), "refuses the login"),
        (ForbiddenError("ForbiddenException: no"), "refuses access: the login lacks a permission"),
        (CommitStateUnknownException("InternalServerError"), "failed in a commit, which it may have done"),
        (ServiceUnavailableError("SlowDown: later\nmore"), "refuses a request, or fails: SlowDown: later"),
    ],
)
def test_a_catalog_is_named_with_what_it_refuses(error: Exception, reported: str) -> None:
    with pytest.raises(TableError) as said, catalog_errors(WHERE):
        raise error
    assert str(said.value).startswith(
        f"s3://lake/tables/views: the Iceberg catalog at https://lake.example:8181 {reported}"
    )
    assert "hush" not in str(said.value)
    assert "\n" not in str(said.value)


def test_a_commit_that_another_writer_was_faster_than_is_none_of_it() -> None:
    with pytest.raises(CommitFailedException), catalog_errors(WHERE):
        raise CommitFailedException("Requirement failed")
