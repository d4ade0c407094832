"""How one section reaches each library, and what of it is ever printed."""

from __future__ import annotations

import datetime as dt
import sys
from pathlib import Path

import pytest

from sordini.pipeline.errors import BadSetting, PipelineError
from sordini.pipeline.tables.delta.files import Access
from sordini.pipeline.tables.delta.files import RemoteOutputs as DeltaOutputs
from sordini.pipeline.tables.iceberg.iceberg_table import RemoteOutputs as IcebergOutputs
from sordini.pipeline.tables.iceberg.location import IcebergLocation
from sordini.pipeline.tables.object_storage import (
    RETRIES,
    Implicit,
    Keys,
    ObjectStorage,
    Provider,
    check_storage,
    store_of,
)

KEYS = Keys("AKID", "hush", "session-hush")
MINIO = ObjectStorage("http://127.0.0.1:9000", "eu-central-1", KEYS, allow_http=True)


def test_each_library_gets_the_settings_by_its_own_names() -> None:
    assert MINIO.object_store_options("s3://bucket/a") == {
        "aws_endpoint": "http://127.0.0.1:9000",
        "aws_region": "eu-central-1",
        "aws_virtual_hosted_style_request": "false",
        "aws_allow_http": "true",
        "aws_access_key_id": "AKID",
        "aws_secret_access_key": "hush",
        "aws_session_token": "session-hush",
    }
    assert MINIO.pyiceberg_properties("s3a://bucket/a") == {
        "s3.endpoint": "http://127.0.0.1:9000",
        "s3.region": "eu-central-1",
        "s3.force-virtual-addressing": "false",
        "s3.access-key-id": "AKID",
        "s3.secret-access-key": "hush",
        "s3.session-token": "session-hush",
        "s3.retry-strategy-impl": "sordini.pipeline.tables.iceberg.retries.StoreRetries",
    }


@pytest.mark.parametrize("location", ["/data/events", "file:///data/events", "hdfs://host/events", "events"])
def test_a_folder_needs_no_settings(location: str) -> None:
    assert store_of(location) == ""
    assert MINIO.object_store_options(location) == MINIO.pyiceberg_properties(location) == {}


def test_what_the_environment_has_is_left_to_the_libraries_and_anonymous_requests_are_not_signed() -> None:
    assert ObjectStorage().object_store_options("s3://bucket/a") == {}
    assert ObjectStorage().pyiceberg_properties("s3://bucket/a") == {"s3.retry-strategy-impl": RETRIES}
    nameless = ObjectStorage(credentials=Implicit.ANONYMOUS)
    assert nameless.object_store_options("s3://bucket/a") == {"aws_skip_signature": "true"}
    assert nameless.pyiceberg_properties("s3://bucket/a") == {
        "s3.anonymous": "true",
        "s3.retry-strategy-impl": RETRIES,
    }


def test_options_go_to_the_library_whose_names_they_have_and_keys_of_s3_to_no_other_store() -> None:
    storage = ObjectStorage("https://s3", credentials=KEYS, options={"google_service_account": "a", "gcs.x": "b"})
    assert storage.object_store_options("gs://bucket/a") == {"google_service_account": "a"}
    assert storage.object_store_options("az://container/a") == {"google_service_account": "a"}
    assert storage.pyiceberg_properties("gs://bucket/b") == {"gcs.x": "b"}


def test_no_text_of_it_has_a_secret() -> None:
    options = tuple(MINIO.object_store_options("s3://bucket/a").items())
    properties = tuple(MINIO.pyiceberg_properties("s3://bucket/a").items())
    assert "hush" in str(options)
    assert "hush" in str(properties)
    own = {"AWS_SECRET_ACCESS_KEY": "hush"}
    location = IcebergLocation("s3://bucket/a", "", {"s3.secret-access-key": "hush"}, MINIO)
    delta, iceberg = DeltaOutputs("s3://bucket/a", options), IcebergOutputs("s3://bucket/a", properties)
    assert "hush" not in f"{MINIO} {KEYS} {Access(MINIO, own)} {delta} {location} {iceberg}"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def test_a_provider_is_called_again_only_shortly_before_its_keys_expire(home: Path) -> None:
    (home / "vault_of_keys.py").write_text(
        "import datetime as dt\n"
        "calls = []\n"
        "lasts = dt.timedelta(hours=1)\n"
        "def current():\n"
        "    calls.append(1)\n"
        "    ends = dt.datetime.now(dt.UTC) + lasts\n"
        "    return {'access_key': 'A', 'secret_key': str(len(calls)), 'expires_at': ends}\n"
    )
    storage = ObjectStorage(credentials=Provider("vault_of_keys:current", str(home)))
    first = [storage.object_store_options("s3://b/a")["aws_secret_access_key"] for _ in range(3)]
    assert first == ["1"] * 3
    import vault_of_keys  # type: ignore[import-not-found]

    soon = ObjectStorage(credentials=Provider("vault_of_keys:current", f"{home}/."))
    vault_of_keys.lasts = dt.timedelta(minutes=4)
    assert [soon.object_store_options("s3://b/a")["aws_secret_access_key"] for _ in range(2)] == ["2", "3"]


@pytest.mark.parametrize(
    ("body", "reported"),
    [
        ("return {'access_key': 'A'}", "returns no keys (KeyError: 'secret_key')"),
        ("return None", "returns no keys (TypeError"),
        ("raise OSError('vault is sealed')", "failed: OSError: vault is sealed"),
        (
            "import datetime; return {'access_key': 'A', 'secret_key': 'b', 'expires_at': datetime.datetime.now()}",
            "expires_at has no time zone",
        ),
    ],
)
def test_a_provider_that_fails_is_named(home: Path, body: str, reported: str) -> None:
    name = f"keys_{abs(hash(body))}"
    (home / f"{name}.py").write_text(f"def current():\n    {body}\n")
    with pytest.raises(PipelineError) as error:
        ObjectStorage(credentials=Provider(f"{name}:current", str(home))).resolved()
    assert f"storage.credentials: {name}:current" in str(error.value)
    assert reported in str(error.value)


@pytest.mark.parametrize(
    ("storage", "reported"),
    [
        (ObjectStorage("minio:9000"), "endpoint: 'minio:9000' is no URL: https://host[:port]"),
        (ObjectStorage("http://minio:9000"), "`allow_http: true`"),
    ],
)
def test_an_endpoint_is_a_url_and_encrypted_unless_the_file_allows_other(storage: ObjectStorage, reported: str) -> None:
    with pytest.raises(BadSetting) as error:
        check_storage(storage)
    assert reported in str(error.value)
