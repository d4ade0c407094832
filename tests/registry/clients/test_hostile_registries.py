"""What listens where a registry should be, and answers wrongly: the client says so, within its limits."""

from __future__ import annotations

from typing import Any

import pytest

from sordini.admin.schema_registry.access import RegistryAccess, basic, bearer, registry_address
from sordini.admin.schema_registry.exchange import ANSWER_BYTES_MAX, RegistryFailed
from sordini.admin.schema_registry.registry_requests import RegistryClient, RegistryRefused, RegistryText
from sordini.admin.schema_registry.sources import RegistrySources, UnknownSchema
from sordini.schemas.registered.types import InvalidSchema, SchemaType
from tests.registry.clients.scripted_registry import ScriptedRegistry, answer, raw_answer

SHORT_S = 0.5


def client_of(url: str, request_s: float = 10.0, authorization: str | None = None) -> RegistryClient:
    return RegistryClient(RegistryAccess(registry_address(url), None, authorization), request_s)


def failure(data: bytes, *, drips: bool = False, request_s: float = 10.0) -> str:
    """The text of the error for a schema that is answered with these bytes."""
    with (
        ScriptedRegistry(lambda _: data, drips=drips) as server,
        pytest.raises(RegistryFailed) as raised,
    ):
        client_of(server.url, request_s).schema(1)
    return str(raised.value)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (raw_answer(b"<html>"), "is no registry: its answer has no JSON"),
        (raw_answer(b"null"), "is no registry: its answer has no JSON"),
        (raw_answer(b"[" * 100_000), "is no registry: its answer has no JSON"),
        (raw_answer(b"\xff\xfe"), "is no registry: its answer has no JSON"),
        (answer([]), 'is no registry: its answer has no "schema"'),
        (answer({"schema": 7}), 'its answer has no "schema"'),
        (answer({"schema": "x", "schemaType": ["AVRO"]}), "a schema of a kind that is not known"),
        (answer({"schema": "x", "schemaType": "XML"}), "a schema of a kind that is not known"),
        (answer({"schema": "x", "references": {"a": 1}}), 'no list as "references"'),
        (answer({"schema": "x", "references": [{"name": "a", "subject": "b", "version": True}]}), 'no "version"'),
        (answer({}, "500 Oh"), "answered with the status 500, and gave no reason"),
        (answer({"message": 7}, "404 No"), "answered with the status 404, and gave no reason"),
        (answer({}, "302 Found", "Location: http://192.0.2.1/"), "redirects to http://192.0.2.1/, which is not"),
        (raw_answer(b"{}")[:-1], "the answer ends early"),
        (b"SSH-2.0-OpenSSH\r\n", "sent no answer of HTTP (BadStatusLine)"),
        (b"", "sent no answer of HTTP"),
        (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 1_000 + b"\r\n{}", "sent no answer of HTTP"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "sent no answer of HTTP"),
    ],
)
def test_an_answer_that_is_none_of_a_registry_is_an_error_in_words(data: bytes, reason: str) -> None:
    assert reason in failure(data)


def test_an_answer_has_a_limit_whatever_length_it_declares() -> None:
    head = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
    assert f"sent more than {ANSWER_BYTES_MAX} bytes" in failure(head + b" " * (ANSWER_BYTES_MAX + 1))
    assert f"sent more than {ANSWER_BYTES_MAX} bytes" in failure(raw_answer(b" " * (ANSWER_BYTES_MAX + 1)))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nName: ",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
    ],
)
def test_an_answer_that_comes_byte_by_byte_ends_with_the_time_of_the_whole(data: bytes) -> None:
    # Each byte comes long before the timeout of a single read, which so never passes.
    assert "did not answer within 0.5 s" in failure(data, drips=True, request_s=SHORT_S)


def test_a_login_is_not_sent_to_where_an_answer_redirects() -> None:
    with ScriptedRegistry(lambda _: answer({"schema": "x"})) as other:
        redirect = answer({}, "307 There", f"Location: {other.url}/schemas/ids/1")
        with ScriptedRegistry(lambda _: redirect) as server, pytest.raises(RegistryFailed):
            client_of(server.url, authorization=basic("alice", "secret")).schema(1)
    assert other.requests == []


def test_a_login_is_in_the_header_and_in_no_representation() -> None:
    with ScriptedRegistry(lambda _: answer({"schema": "x"})) as server:
        client_of(server.url, authorization=bearer("hidden")).schema(1)
    assert "authorization: Bearer hidden" in server.headers
    assert "hidden" not in repr(RegistryAccess(registry_address(server.url), None, bearer("hidden")))


def test_reasons_of_a_registry_are_shown_up_to_a_length() -> None:
    refusal = answer({"error_code": 40403, "message": "m" * 100_000}, "409 Conflict")
    with ScriptedRegistry(lambda _: refusal) as server, pytest.raises(RegistryRefused) as raised:
        client_of(server.url).schema(1)
    assert len(str(raised.value)) < 2_200
    assert raised.value.status == 409


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("127.0.0.1:8081", "is not the URL of a registry"),
        ("ftp://host", "is not the URL of a registry"),
        ("http://", "is not the URL of a registry"),
        ("http://host:99999", "not the URL of a registry"),
        ("http://host/a b", "is not the URL of a registry"),
        ("http://host/?x=1", "is not the URL of a registry"),
        ("http://alice:secret@host", "a login in the URL is seen by other users"),
    ],
)
def test_what_is_no_url_of_a_registry_is_refused_without_its_password(url: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as raised:
        registry_address(url)
    assert "secret" not in str(raised.value)


def test_a_path_in_the_url_is_before_each_request_and_names_are_escaped() -> None:
    version = answer({"subject": "a/b ?#", "version": 1, "id": 1, "schema": "x"})
    with ScriptedRegistry(lambda _: version) as server:
        assert client_of(f"{server.url}/contexts/.test/").version("a/b ?#").schema_id == 1
    assert server.requests == ["/contexts/.test/subjects/a%2Fb%20%3F%23/versions/latest"]


def referring(path: str) -> bytes:
    """Each schema refers to itself by its subject, and to another one that does the same."""
    reference: dict[str, Any] = {"name": "A", "subject": path.split("/")[2], "version": 1}
    other = {"name": "B", "subject": f"{reference['subject']}x"[-50:], "version": 1}
    members = {"schema": '"int"', "references": [other, reference], "subject": "s", "version": 1, "id": 1}
    return answer(members)


def test_references_without_an_end_are_refused() -> None:
    with ScriptedRegistry(referring) as server:
        with pytest.raises(InvalidSchema, match="more than 20 levels deep"):
            RegistrySources(client_of(server.url)).source_of(1)
        assert len(server.requests) == 22


def test_a_schema_that_refers_to_very_many_is_refused() -> None:
    def many(path: str) -> bytes:
        references = [{"name": f"A{n}", "subject": f"s{n}", "version": 1} for n in range(1_000)]
        members = {"schema": '"int"', "subject": "s", "version": 1, "id": 1}
        return answer(members | ({"references": references} if path.startswith("/schemas") else {}))

    with ScriptedRegistry(many) as server:
        with pytest.raises(InvalidSchema, match="more than 100 schemas are referred to"):
            RegistrySources(client_of(server.url)).source_of(1)
        assert len(server.requests) == 101


def test_references_are_found_within_the_time_of_the_whole() -> None:
    with ScriptedRegistry(referring) as server, pytest.raises(RegistryFailed, match="in time for all references"):
        RegistrySources(client_of(server.url), whole_ms=-1).source_of(1)


def test_an_id_without_a_schema_is_requested_once_until_it_is_forgotten() -> None:
    refusal = answer({"error_code": 40403, "message": "Schema 7 not found"}, "404 Not Found")
    with ScriptedRegistry(lambda _: refusal) as server:
        sources = RegistrySources(client_of(server.url))
        for _ in range(3):
            with pytest.raises(UnknownSchema):
                sources.source_of(7)
        assert server.requests == ["/schemas/ids/7"]
        sources.forget_unknown()
        with pytest.raises(UnknownSchema):
            sources.source_of(7)
        assert len(server.requests) == 2


@pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden", "500 Oh"])
def test_an_error_is_not_taken_for_an_id_that_is_not_known(status: str) -> None:
    refusal = answer({"error_code": 1, "message": "not now"}, status)
    with ScriptedRegistry(lambda _: refusal) as server, pytest.raises(RegistryRefused, match="not now"):
        RegistrySources(client_of(server.url)).source_of(7)


def test_an_id_that_no_header_has_room_for_is_refused() -> None:
    schema = RegistryText(SchemaType.AVRO, '"int"')
    for number in (-1, 2**31):
        with (
            ScriptedRegistry(lambda _, number=number: answer({"id": number})) as server,  # type: ignore[misc]
            pytest.raises(RegistryFailed, match="no id of a schema"),
        ):
            client_of(server.url).find("s", schema)
