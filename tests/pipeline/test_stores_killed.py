"""Writers that are killed, cut off or refused between the HTTP requests to their object store: kill -9, without Spark.

Whatever the request: readers see the old table or the new one, with the position that belongs to it; the same batch
again makes the new one, once; `pipeline doctor` finds every file that was left behind, and upkeep removes those.

SORDINI_STORE_KILLS=all, as `make store-kills` sets it, does so at every such request of a deed; `make pipeline` at two.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.outside.azure_server import AzureServer
from tests.outside.iceberg_rest import IcebergRestCatalog
from tests.outside.s3_server import S3Server
from tests.pipeline.request_proxy import DENIED, SLOW_DOWN, Harm, Request, Watch, at, nothing, proxy
from tests.pipeline.store_stories import (
    DEEDS,
    InBuckets,
    OfRestCatalog,
    StoreWriter,
    Stories,
    check_again,
    check_sentence,
    check_upkeep,
    check_whole,
    outcome,
)

HOW_MANY: Final = None if os.environ.get("SORDINI_STORE_KILLS") == "all" else 2
"""At so many of the requests of a deed harm is done, the last ones among them; None is all."""

ALL_REQUESTS: Final = frozenset({Harm.CUT_BEFORE, Harm.BUSY})
"""Harm that differs at requests that read."""

CASES = [
    pytest.param(kind, deed, harm, id=f"{kind}-{deed}-{harm.value}")
    # Arrow's requests to Azure are of changing number, as two threads may find out at once what the account can do.
    for kind in ("delta", "iceberg", "rest", "delta in azure")
    for deed in DEEDS
    for harm in Harm
]


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="module")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureServer]:
    with AzureServer(tmp_path_factory.mktemp("azure")) as server:
        yield server


@pytest.fixture(scope="module")
def writer() -> Iterator[StoreWriter]:
    with StoreWriter() as process:
        yield process


@pytest.fixture(scope="module")
def rest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergRestCatalog]:
    with IcebergRestCatalog(tmp_path_factory.mktemp("rest")) as server:
        yield server


@pytest.fixture
def stories(kind: str, request: pytest.FixtureRequest, writer: StoreWriter, tmp_path: Path) -> Iterator[Stories]:
    watch = Watch()
    if kind == "rest":
        # The tables are in a folder: the requests are those of the catalog alone.
        rest: IcebergRestCatalog = request.getfixturevalue("rest")
        with proxy(rest.port, watch) as port:
            yield Stories(writer, watch, OfRestCatalog(tmp_path, rest.uri, f"http://127.0.0.1:{port}"))
        return
    table, _, store = kind.partition(" in ")
    server: S3Server | AzureServer = request.getfixturevalue(store or "s3")
    # The catalog is a file: the requests are those of the store alone.
    sql = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db"} if table == "iceberg" else {}
    with proxy(server.port, watch) as port:
        yield Stories(writer, watch, InBuckets(table, server, port, sql))


@pytest.mark.long
@pytest.mark.parametrize(("kind", "deed", "harm"), CASES)
def test_harm_at_any_request_leaves_the_old_table_or_the_new_one_and_a_restart_makes_the_new_one(
    stories: Stories, kind: str, deed: str, harm: Harm
) -> None:
    done = []
    for number in places(stories, deed, harm):
        with stories.story(DEEDS[deed]) as story:
            story.prepare()
            ended, requests = story.harmed(at(number, harm))
            assert number < len(requests), "it has as many requests each time"
            seen = story.aftermath()
            is_new = seen.after_harm.position == story.deed.positions[1]
            request = requests[number]
            done.append(
                f"{request.number} {request.method} {request.path}: {outcome(ended)}, {'new' if is_new else 'old'}"
            )
            if "error" in ended:
                check_sentence(ended["error"])
            if kind == "rest":
                check_catalog(harm, ended, done[-1])
            else:
                assert (harm is Harm.BUSY) <= ("values" in ended), done[-1]
                assert (harm is Harm.REFUSED) <= ("refuses access" in ended.get("error", "")), done[-1]
            check_whole(story.deed, seen.after_harm, done[-1])
            check_again(story.deed, seen.again, done[-1])
            check_upkeep(story.deed, seen, done[-1])
    sys.stdout.write("\n".join([f"{kind} {deed} {harm.value}:", *done]) + "\n")
    assert done


def check_catalog(harm: Harm, ended: Mapping[str, Any], at_request: str) -> None:
    """A catalog is named by what it refuses, and pyiceberg sends no request to it again."""
    named = ": the Iceberg catalog at http://127.0.0.1:" in ended.get("error", "")
    assert (harm is Harm.REFUSED) <= ("refuses access: the login lacks" in ended.get("error", "")), at_request
    assert named == (harm not in {Harm.KILLED_BEFORE, Harm.KILLED_AFTER}), at_request


def places(stories: Stories, deed: str, harm: Harm) -> list[int]:
    """The requests of a deed that are harmed.

    A writer that is killed at a request that reads leaves what the last one that writes has left, so those are enough;
    refused are those that write.
    """
    with stories.story(DEEDS[deed]) as story:
        story.prepare()
        _, requests = story.harmed(nothing)
    found = [request.number for request in requests if request.is_writing or harm in ALL_REQUESTS]
    if HOW_MANY is None or len(found) <= HOW_MANY:
        return found
    step = len(found) / HOW_MANY
    return sorted({found[-1 - int(step * place)] for place in range(HOW_MANY)})


def test_the_requests_of_a_commit_are_those_that_are_harmed() -> None:
    """A guard of this suite: `at` harms one request and no other."""
    requests = [Request(number, "PUT", "/") for number in range(3)]
    assert [at(1, Harm.CUT_AFTER)(request) for request in requests] == [None, Harm.CUT_AFTER, None]
    assert [at(1, Harm.BUSY)(request) for request in requests] == [None, SLOW_DOWN, None]
    requests[2] = requests[2]._replace(method="GET")
    requests.append(Request(3, "DELETE", "/"))
    assert [at(1, Harm.REFUSED)(request) for request in requests] == [None, DENIED, None, DENIED]
