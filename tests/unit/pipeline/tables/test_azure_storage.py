"""How Azure's stores are named and reached, in the form of each library."""

from __future__ import annotations

from typing import Any

import pytest

from sordini.pipeline.errors import BadSetting
from sordini.pipeline.tables.azure_storage import (
    AccountKey,
    SasToken,
    ServicePrincipal,
    named_with_account,
    pyiceberg_endpoint,
)
from sordini.pipeline.tables.iceberg.azure_files import AzureFiles, arguments_of
from sordini.pipeline.tables.object_storage import Implicit, Keys, ObjectStorage, check_storage, store_of
from sordini.pipeline.tables.store_client import is_missing, problem_of

FILES = {"py-io-impl": "sordini.pipeline.tables.iceberg.azure_files.AzureFiles"}
PLACE = "abfss://lake@account.dfs.core.windows.net/tables/views"


@pytest.mark.parametrize(
    ("credentials", "options", "properties"),
    [
        (AccountKey("hush"), {"azure_storage_account_key": "hush"}, {"adls.account-key": "hush"}),
        (SasToken("sig=hush"), {"azure_storage_sas_token": "sig=hush"}, {"adls.sas-token": "sig=hush"}),
        (
            ServicePrincipal("t", "c", "hush"),
            {
                "azure_storage_tenant_id": "t",
                "azure_storage_client_id": "c",
                "azure_storage_client_secret": "hush",
            },
            {"adls.tenant-id": "t", "adls.client-id": "c", "adls.client-secret": "hush"},
        ),
        (Implicit.ENVIRONMENT, {}, {}),
        (Keys("of", "s3"), {}, {}),
    ],
)
def test_each_library_gets_credentials_by_its_own_names(
    credentials: Any, options: dict[str, str], properties: dict[str, str]
) -> None:
    storage = ObjectStorage(credentials=credentials)
    assert storage.object_store_options(PLACE) == options
    assert storage.pyiceberg_properties(PLACE) == FILES | properties
    assert "hush" not in f"{storage} {credentials}"


def test_an_endpoint_is_azures_if_there_is_an_account_and_else_that_of_s3() -> None:
    storage = ObjectStorage("http://127.0.0.1:10000/dev", account="dev", allow_http=True)
    assert storage.object_store_options("az://lake/a") == {
        "azure_storage_account_name": "dev",
        "azure_storage_endpoint": "http://127.0.0.1:10000/dev",
        "allow_http": "true",
    }
    assert storage.pyiceberg_properties("az://lake/a") == {
        **FILES,
        "adls.account-name": "dev",
        "adls.blob-storage-authority": "127.0.0.1:10000",
        "adls.dfs-storage-authority": "127.0.0.1:10000",
        "adls.blob-storage-scheme": "http",
        "adls.dfs-storage-scheme": "http",
    }
    assert storage.object_store_options("s3://lake/a") == {"aws_allow_http": "true"}
    assert "s3.endpoint" not in storage.pyiceberg_properties("s3://lake/a")
    minio = ObjectStorage("https://minio:9000")
    assert minio.object_store_options("az://lake/a") == {}
    assert minio.pyiceberg_properties("az://lake/a") == FILES


def test_an_endpoint_names_its_account_before_the_host_or_behind_it() -> None:
    found = pyiceberg_endpoint("https://account.blob.core.chinacloudapi.cn", "account")
    assert found["adls.blob-storage-authority"] == ".blob.core.chinacloudapi.cn"
    assert found["adls.dfs-storage-authority"] == ".dfs.core.chinacloudapi.cn"
    for endpoint in ("https://other.blob.core.windows.net", "http://127.0.0.1:10000", "http://127.0.0.1:1/other"):
        with pytest.raises(BadSetting, match=r"endpoint: .* is not one of the account account: it is https?://account"):
            check_storage(ObjectStorage(endpoint, account="account", allow_http=True))


def test_azures_stores_are_not_written_by_anonymous_requests() -> None:
    with pytest.raises(BadSetting, match="credentials: Azure's stores grant anonymous requests to read at most"):
        check_storage(ObjectStorage(account="account", credentials=Implicit.ANONYMOUS))


@pytest.mark.parametrize(
    ("location", "account", "named"),
    [
        (PLACE, "", PLACE),
        (PLACE, "other", PLACE),
        ("az://lake/tables/views", "account", PLACE),
        ("abfs://lake/tables/views", "account", PLACE),
        ("az://lake", "account", "abfss://lake@account.dfs.core.windows.net"),
    ],
)
def test_an_iceberg_table_is_named_with_the_account(location: str, account: str, named: str) -> None:
    assert store_of(location) == "az"
    assert named_with_account(location, account) == named


@pytest.mark.parametrize(
    ("location", "parsed"),
    [
        (f"{PLACE}/a?b#c%20.parquet", ("abfss", "account.dfs.core.windows.net", "lake/tables/views/a?b#c%20.parquet")),
        ("abfs://lake/tables", ("abfs", "", "lake/tables")),
        ("az://lake", ("az", "", "lake")),
        ("s3://bucket/a", ("s3", "bucket", "bucket/a")),
    ],
)
def test_a_location_is_a_container_and_a_path_of_an_account(location: str, parsed: tuple[str, str, str]) -> None:
    assert AzureFiles.parse_location(location) == parsed


HOST = "account.dfs.core.windows.net"


@pytest.mark.parametrize(
    ("properties", "host", "environment", "arguments"),
    [
        ({}, HOST, {}, {"account_name": "account"}),
        ({"adls.account-name": "a"}, "", {}, {"account_name": "a"}),
        ({}, "", {"AZURE_STORAGE_ACCOUNT_NAME": "e"}, {"account_name": "e"}),
        ({}, HOST, {"AZURE_STORAGE_ACCOUNT_KEY": "k"}, {"account_name": "account", "account_key": "k"}),
        ({}, HOST, {"AZURE_STORAGE_SAS_TOKEN": "?s=1"}, {"account_name": "account", "sas_token": "?s=1"}),
        (
            {"adls.sas-token": "s=2"},
            HOST,
            {"AZURE_STORAGE_ACCOUNT_KEY": "k"},
            {"account_name": "account", "sas_token": "?s=2"},
        ),
        (
            {f"adls.sas-token.{HOST}": "s=3"},
            HOST,
            {"AZURE_STORAGE_ACCOUNT_KEY": "k"},
            {"account_name": "account", "sas_token": "?s=3"},
        ),
    ],
)
def test_what_no_property_has_is_a_catalogs_token_or_is_in_the_environment(
    properties: dict[str, str], host: str, environment: dict[str, str], arguments: dict[str, str]
) -> None:
    assert arguments_of(properties, host, environment) == arguments


def test_a_location_without_any_account_is_refused() -> None:
    with pytest.raises(ValueError, match="no account is named"):
        arguments_of({}, "", {})


@pytest.mark.parametrize(
    ("error", "reported"),
    [
        ("<Code>AuthenticationFailed</Code>", "refuses the credentials: the key or token is not of this account"),
        ("Azure Error: [AuthorizationPermissionMismatch] 403", "refuses access: the credentials lack a permission"),
        ("Azure Error: [ContainerNotFound] 404", "is in no container"),
        ("<Code>ServerBusy</Code>", "asks for fewer requests"),
        ("Azure Error: [] Fail to get a new connection: Could not connect to server", "cannot be reached"),
        ("Azure Error: [BlobNotFound] 404", ""),
    ],
)
def test_azures_codes_are_sentences(error: str, reported: str) -> None:
    assert problem_of(error).startswith(reported)
    assert bool(problem_of(error)) == bool(reported)


@pytest.mark.parametrize(
    ("text", "just_the_object"),
    [
        ("Object at location x not found", True),
        ("404 Not Found: <Error><Code>NoSuchKey</Code></Error>", True),
        ("404 Not Found: <Error><Code>BlobNotFound</Code></Error>", True),
        ("Azure Error: [BlobNotFound] 404 The specified blob does not exist.", True),
        ("When reading: AWS Error RESOURCE_NOT_FOUND during HeadObject operation", True),
        ("404 Not Found: <Error><Code>NoSuchBucket</Code></Error>", False),
        ("404 Not Found: <Error><Code>ContainerNotFound</Code></Error>", False),
        ("Azure Error: [ContainerNotFound] 404 The specified container does not exist.", False),
        ("When listing: AWS Error NO_SUCH_BUCKET during ListObjectsV2 operation", False),
    ],
)
def test_a_missing_object_is_distinguished_from_a_missing_bucket_or_container(
    text: str, *, just_the_object: bool
) -> None:
    assert is_missing(FileNotFoundError(text)) is just_the_object
