"""What is Azure's own: its credentials and what it refuses, names of its places, and job files; Microsoft's emulator.

What stores have in common is in `test_stores`, which also proves the emulator's conditional puts. It has no hierarchical
namespace and no logins of Microsoft Entra.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyiceberg.catalog import load_catalog

from sordini.cli.__main__ import main
from sordini.pipeline.errors import BadSetting, PipelineError
from sordini.pipeline.jobs.state_folder import StateFolder
from sordini.pipeline.tables import Table, open_table
from sordini.pipeline.tables.azure_storage import AccountKey, SasToken
from sordini.pipeline.tables.object_storage import Implicit, ObjectStorage, Provider
from sordini.pipeline.tables.store_client import check_store
from tests.outside.azure_server import ACCOUNT, SECRET, AzureServer, signature
from tests.outside.ports import free_port
from tests.pipeline.request_proxy import Refusal, Watch, always, first, proxy
from tests.pipeline.store_stories import DEEDS, InBuckets, StoreWriter, Stories, check_again
from tests.support.frames import frame

ALL = "racwdl"
OTHER = base64.b64encode(b"another account's key of 32 byte").decode()
NOT_KNOWN = (
    "refuses the credentials: the key or token is not of this account or has expired, or this machine's clock is wrong"
)
LACKS = "refuses access: the credentials lack a permission for it (get, put, list or delete)"
BUSY = Refusal(503, "ServerBusy")
_numbers = count()

pytestmark = [
    # Of pyiceberg: its catalogs keep a connection to SQLite for as long as they live.
    pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning"),
]


@pytest.fixture(scope="module")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureServer]:
    with AzureServer(tmp_path_factory.mktemp("azure")) as server:
        yield server


@pytest.fixture
def container(azure: AzureServer) -> str:
    name = f"container-{next(_numbers)}"
    azure.make_bucket(name)
    return name


def place(container: str) -> str:
    return f"abfss://{container}@{ACCOUNT}.dfs.core.windows.net"


def token(permissions: str, container: str, hours: int = 1, secret: str = SECRET) -> SasToken:
    return SasToken(signature(permissions, container, dt.datetime.now(dt.UTC) + dt.timedelta(hours=hours), secret))


def opened(kind: str, location: str, storage: ObjectStorage, folder: Path) -> Table:
    catalog = {"catalog.type": "sql", "catalog.uri": f"sqlite:///{folder}/catalog.db"} if kind == "iceberg" else {}
    return open_table(kind, f"{location}/events", app_id="app", storage=storage, **catalog)


def deeds(location: str, storage: ObjectStorage, folder: Path) -> dict[str, object]:
    """What a job does at a place, each by its library: a check, a note under a lock, and batches of both formats."""

    def note() -> None:
        state = StateFolder(f"{location}/state", storage)
        with state.locked():
            state.write("done.json", {"batch_id": 1})
        assert state.names("") == ["done.json"]

    def batches(kind: str) -> None:
        table = opened(kind, f"{location}/{kind}", storage, folder)
        for batch in range(2):
            assert table.append(frame(range(8 * batch, 8 * batch + 8)), batch, {"t": {0: 8 * batch + 8}}).rows == 8
        assert table.compact(1_000_000).files_after == 1
        table.clean_up(0)
        assert table.last() == (1, {"t": {0: 16}})

    return {
        location: lambda: check_store(storage, location),
        f"{location}/state": note,
        f"{location}/delta/events": lambda: batches("delta"),
        f"{location}/iceberg/events": lambda: batches("iceberg"),
    }


def refused(deed: object) -> str:
    assert callable(deed)
    with pytest.raises(PipelineError) as error:
        deed()
    return str(error.value)


@pytest.mark.parametrize(
    ("wrong", "reported"),
    [
        ("another key", NOT_KNOWN),
        ("expired", NOT_KNOWN),
        ("signed by another key", NOT_KNOWN),
        ("no base64", "does not know the account key: it is not in base64, as Azure's are"),
        ("no container", "is in no container: it has to be created first"),
        ("nowhere", "cannot be reached: nothing answers at its endpoint"),
    ],
)
def test_what_azure_refuses_is_one_sentence_with_the_place_from_whichever_library(
    azure: AzureServer, container: str, tmp_path: Path, wrong: str, reported: str
) -> None:
    changes = {
        "another key": {"credentials": AccountKey(OTHER)},
        "expired": {"credentials": token(ALL, container, -1)},
        "signed by another key": {"credentials": token(ALL, container, 1, OTHER)},
        "no base64": {"credentials": AccountKey("hush hush")},
        "no container": {},
        "nowhere": {"endpoint": AzureServer.endpoint_at(free_port())},
    }[wrong]
    location = place("none" if wrong == "no container" else container)
    storage = replace(azure.storage, **changes)  # type: ignore[arg-type]
    for where, deed in deeds(location, storage, tmp_path).items():
        said = refused(deed)
        assert said.startswith(where)
        assert reported in said
        assert "\n" not in said
        assert not any(secret in said for secret in (OTHER, SECRET, "hush", "sig="))


def test_credentials_that_may_only_read_fail_what_writes_and_leave_nothing(
    azure: AzureServer, container: str, tmp_path: Path
) -> None:
    location = place(container)
    storage = replace(azure.storage, credentials=token("rl", container))
    check, *writing = deeds(location, storage, tmp_path).items()
    assert callable(check[1])
    check[1]()
    for where, deed in writing:
        said = refused(deed)
        assert said.startswith(where)
        assert said.endswith(LACKS)
    assert StateFolder(location, azure.storage).names("") == []


def test_a_signature_of_a_container_is_all_that_a_job_needs(azure: AzureServer, container: str, tmp_path: Path) -> None:
    storage = replace(azure.storage, credentials=token(ALL, container))
    for deed in deeds(place(container), storage, tmp_path).values():
        assert callable(deed)
        deed()


def test_credentials_of_the_environment_are_found_by_each_library(
    azure: AzureServer, container: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = replace(azure.storage, credentials=Implicit.ENVIRONMENT)
    nowhere = deeds(place(container), storage, tmp_path)
    monkeypatch.setenv("AZURE_IDENTITY_DISABLE_CLI", "1")
    for where, deed in nowhere.items():
        assert refused(deed).startswith(f"{where}"), "this machine has none"
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", SECRET)
    for deed in deeds(place(container), storage, tmp_path).values():
        assert callable(deed)
        deed()


def test_a_provider_may_give_signatures(
    azure: AzureServer, container: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    granted = token(ALL, container).sas_token
    (tmp_path / "grants.py").write_text(f"def current():\n    return {{'sas_token': {granted!r}}}\n")
    storage = replace(azure.storage, credentials=Provider("grants:current", str(tmp_path)))
    for deed in deeds(place(container), storage, tmp_path).values():
        assert callable(deed)
        deed()


def test_a_container_has_the_same_tables_by_each_of_its_names_and_iceberg_writes_that_with_the_account(
    azure: AzureServer, container: str, tmp_path: Path
) -> None:
    for kind in ("delta", "iceberg"):
        short = opened(kind, f"az://{container}/{kind}", azure.storage, tmp_path)
        short.append(frame(range(8)), 0, {"t": {0: 8}})
        for other in (place(container), f"abfs://{container}"):
            table = opened(kind, f"{other}/{kind}", azure.storage, tmp_path)
            assert table.last() == (0, {"t": {0: 8}})
    properties = azure.storage.pyiceberg_properties(place(container))
    catalog = load_catalog("sordini", type="sql", uri=f"sqlite:///{tmp_path}/catalog.db", **properties)
    assert catalog.load_table("default.events").location() == f"{place(container)}/iceberg/events"
    with pytest.raises(BadSetting, match=r"az://c/events has no account: readers of Iceberg tables know abfss://"):
        opened("iceberg", "az://c", replace(azure.storage, account="", endpoint=""), tmp_path)


@pytest.mark.parametrize("kind", ["delta", pytest.param("iceberg", marks=pytest.mark.long)])
def test_a_store_of_azure_that_is_busy_is_waited_for_some_seconds(
    azure: AzureServer, container: str, tmp_path: Path, kind: str
) -> None:
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db"} if kind == "iceberg" else {}
    watch = Watch()
    with StoreWriter() as writer, proxy(azure.port, watch) as port:
        stories = Stories(writer, watch, InBuckets(kind, azure, port, catalog))
        with stories.story(DEEDS["append"]) as story:
            story.prepare()
            ended, requests = story.harmed(first(2, BUSY))
            assert "values" in ended, ended
            assert len(requests) > 2
            check_again(story.deed, story.aftermath().again, kind)
        watch.begin(always(BUSY))
        storage = replace(azure.storage, endpoint=AzureServer.endpoint_at(port))
        state = StateFolder(f"{place(container)}/state", storage)
        said = refused(lambda: state.write("done.json", {}))
        assert said.startswith(f"{place(container)}/state/done.json asks for fewer requests, and did so until")


def test_commands_of_a_job_in_azure(azure: AzureServer, container: str, tmp_path: Path) -> None:
    location = place(container)
    table = opened("delta", location, azure.storage, tmp_path)
    for batch in range(2):
        table.append(frame(range(8 * batch, 8 * batch + 8)), batch, {"t": {0: 8 * batch + 8}})
    (tmp_path / "job.yaml").write_text(
        "name: events\n"
        f"source: {{topics: [t], bootstrap: '127.0.0.1:{free_port()}'}}\n"
        f"sink: {{location: '{location}/events'}}\n"
        f"state: az://{container}/state\n"
        f"storage: {{endpoint: '{azure.endpoint}', account: {ACCOUNT}, allow_http: true,"
        f" credentials: {{account_key: '{SECRET}'}}}}\n"
    )

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(main, ["pipeline", arguments[0], str(tmp_path / "job.yaml"), *arguments[1:]])
        assert result.exit_code == 0, result.output
        assert SECRET not in result.output
        return result.stdout

    assert f"account: {ACCOUNT}" in run("check", "--no-spark")
    [merged] = json.loads(run("compact", "--clean-up", "--json"))
    assert (merged["files_before"], merged["files_after"]) == (4, 1)
    assert f"{location}/events" in run("doctor")
    assert len(table.files()) == 1
