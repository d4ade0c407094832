from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from sordini.pipeline.jobs.job import DecodeMode, Job, JobFileError, SinkKind, SourceFormat
from sordini.pipeline.jobs.job_file import read_job
from sordini.pipeline.tables.azure_storage import AccountKey, SasToken, ServicePrincipal
from sordini.pipeline.tables.object_storage import NOWHERE, Implicit, Keys, ObjectStorage, Provider

SCHEMA = "schema: {fields: {event_id: string!, event_time: timestamp!, session_id: string!, page: string!}}"
SMALL = f"""\
name: views
source:
  topics: [page_views]
decode:
  mode: json
  {SCHEMA}
sink:
  location: tables/views
"""
LARGE = """\
name: views
source:
  bootstrap: one:9092
  pattern: 'views-.*'
  format: kafka
  starting: 2026-11-22T08:00:00+01:00
  records_max: 5000
  fail_on_data_loss: false
  options: {kafka.security.protocol: SSL, minPartitions: 8}
decode:
  mode: json
  schema:
    fields: {id: string!, event_time: timestamp!, amount: double}
  keep: [key, headers]
transform: flags:crawlers
sink: {kind: iceberg, location: 's3://lake/views', partition_by: event_date, options: {compression: zstd}}
dead_letters: {kind: kafka, location: broken}
state: state/of-views
stream: {every: 10 seconds}
aggregates:
  per_minute:
    window: 1 minute
    slide: 30 seconds
    watermark: 2 minutes
    by: [page]
    measures: {views: count(*)}
    where: amount > 0
    sink: {location: tables/per_minute}
audit: {counts: counts.jsonl, window: 5 minutes, time: event_time}
spark: {master: 'spark://m:7077', config: {spark.executor.memory: 2g}}
"""


def read(folder: Path, text: str, name: str = "job.yaml", environment: Mapping[str, str] | None = None) -> Job:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return read_job(path, environment or {})


def wrong(folder: Path, text: str, name: str = "job.yaml") -> str:
    with pytest.raises(JobFileError) as caught:
        read(folder, text, name)
    return str(caught.value).removeprefix(str(folder / name))


def test_states_of_jobs_are_in_a_folder_of_the_environment_where_files_do_not_name_another(tmp_path: Path) -> None:
    elsewhere = {"SORDINI_PIPELINE_STATE": str(tmp_path / "states")}
    assert read(tmp_path, SMALL, environment=elsewhere).state == str(tmp_path / "states/views")
    assert read(tmp_path, f"{SMALL}state: mine\n", environment=elsewhere).state == str(tmp_path / "mine")


def test_what_a_job_file_leaves_out_has_defaults(tmp_path: Path) -> None:
    job = read(tmp_path, SMALL)
    assert job.source.bootstrap == "127.0.0.1:9092"
    assert job.source.format is SourceFormat.SORDINI
    assert job.source.starting == "earliest"
    assert job.sink is not None
    assert job.sink.kind is SinkKind.DELTA
    assert job.sink.location == str(tmp_path / "tables/views")
    assert job.dead_letters is not None
    assert job.dead_letters.location == str(tmp_path / "tables/views-dead")
    assert job.state == str(tmp_path / ".sordini/views")
    assert job.decode.event_time == "event_time"
    assert job.aggregates == ()


def test_everything_a_job_file_can_say_is_read(tmp_path: Path) -> None:
    job = read(tmp_path, LARGE)
    assert job.source.pattern == "views-.*"
    assert job.source.starting == "1795330800000"
    assert job.source.options == {"kafka.security.protocol": "SSL", "minPartitions": "8"}
    assert not job.source.fail_on_data_loss
    assert job.decode.mode is DecodeMode.JSON
    assert job.decode.schema is not None
    assert [(field.name, field.kind, field.is_required) for field in job.decode.schema.fields] == [
        ("id", "string", True),
        ("event_time", "timestamp", True),
        ("amount", "double", False),
    ]
    assert job.sink is not None
    assert (job.sink.location, job.sink.partition_by) == ("s3://lake/views", ("event_date",))
    assert job.dead_letters is not None
    assert (job.dead_letters.kind, job.dead_letters.location) == (SinkKind.KAFKA, "broken")
    assert job.every is not None
    assert job.every.seconds == 10
    [one] = job.aggregates
    assert (one.window.seconds, one.slide.seconds, one.watermark.seconds) == (60, 30, 120)
    assert (one.by, one.measures, one.where) == (("page",), {"views": "count(*)"}, "amount > 0")
    assert job.audit is not None
    assert (job.audit.window.seconds, job.audit.time) == (300, "event_time")
    assert job.spark.config == {"spark.executor.memory": "2g"}


def test_toml_says_the_same_as_yaml(tmp_path: Path) -> None:
    toml = """
name = "views"
[source]
topics = ["page_views"]
starting = 2026-11-22T08:00:00Z
[source.options]
kafka.security.protocol = "SSL"
[decode]
mode = "json"
[decode.schema.fields]
event_id = "string!"
event_time = "timestamp!"
session_id = "string!"
page = "string!"
[sink]
location = "tables/views"
"""
    yaml = SMALL.replace(
        "  topics: [page_views]\n",
        "  topics: [page_views]\n  starting: 2026-11-22T08:00:00Z\n  options: {kafka.security.protocol: SSL}\n",
    )
    assert read(tmp_path, toml, "job.toml") == read(tmp_path, yaml)


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        (("name: views", "name: a/b"), ":1: name is 'a/b'"),
        (("name: views\n", ""), ":1: name is missing"),
        (("topics: [page_views]", "topic: [page_views]"), ":3: source.topics or pattern"),
        (("topics: [page_views]", "topics: [page_views]\n  formt: kafka"), ":4: source.formt is not known here (did you mean format?)"),
        (("topics: [page_views]", "topics: [a, a]"), ":3: source.topics has a duplicate"),
        (("topics: [page_views]", "topics: [1]"), ":3: source.topics has 1, which is not a text"),
        (("topics: [page_views]", "topics: [a]\n  pattern: b"), ":3: source.topics or pattern"),
        (("topics: [page_views]", "pattern: '('"), ":3: source.pattern is '(': not a regular expression"),
        (("topics: [page_views]", "topics: [a]\n  starting: yesterday"), ":4: source.starting is 'yesterday'"),
        (("topics: [page_views]", "topics: [a]\n  records_max: 0"), ":4: source.records_max is 0"),
        (("topics: [page_views]", "topics: [a]\n  records_max: true"), ":4: source.records_max is True"),
        (("topics: [page_views]", "topics: [a]\n  options: {kafka.group.id: x}"), ":4: source.options has kafka.group.id"),
        (("topics: [page_views]", "topics: [a]\n  options: {subscribe: x}"), ":4: source.options has subscribe, which is set by source.topics"),
        (("topics: [page_views]", "topics: [a]\n  format: kafka\n  commit_group: g"), ":5: source.commit_group goes with the format sordini alone"),
        (("mode: json", "mode: jsn"), ":5: decode.mode is 'jsn'; it can be raw, json, key_value, schema_id_prefix (did you mean json?)"),
        (("mode: json", "mode: raw"), ":6: decode.schema says nothing where the mode is raw"),
        ((SCHEMA, "schema: pageview"), ":6: decode.schema is 'pageview': a schema is a file: Avro's (.avsc), a JSON schema (.json), or fields"),
        ((SCHEMA, "schema: page_view"), ":6: decode.schema is 'page_view': a schema is a file, and this one is examples/schemas/page_view.yaml in Sordini's source code"),
        ((SCHEMA, "schema: {fields: {offset: long}}"), ":6: decode.schema cannot be: a field cannot be called 'offset'"),
        ((SCHEMA, "schema: {fields: {a: integer}}"), ":6: decode.schema.fields.a cannot be a field: 'integer' is not one of"),
        ((SCHEMA, "schema: missing.avsc"), ":6: decode.schema is 'missing.avsc':"),
        (("mode: json", "mode: schema_id_prefix"), ":5: decode.schemas is missing"),
        ((SCHEMA, f"{SCHEMA}\n  keep: [value]"), ":7: decode.keep has 'value'"),
        ((SCHEMA, f"{SCHEMA}\n  between: ;"), ":5: decode has between or equals"),
        (("location: tables/views", "kind: delta"), ":8: sink.location is missing"),
        (("location: tables/views", "kind: kafka\n  location: t\n  options: {kafka.transactional.id: ''}"), ":10: sink.options cannot be: kafka.transactional.id is empty"),
        (("location: tables/views", "kind: kafka\n  location: t\n  options: {kafka.transactional.id: x}\ndead_letters:\n  options: {kafka.transactional.id: x}"), "dead_letters.options has kafka.transactional.id=x, as the sink has"),
        (("sink:\n  location: tables/views\n", ""), ":1: has neither a sink nor aggregates"),
        (("sink:", "transform: no function\nsink:"), ":7: transform is 'no function'"),
        (("sink:", "name: again\nsink:"), ":7: 'name' is set twice"),
        (("sink:", "stream: {every: soon}\nsink:"), ":7: stream.every is 'soon', not a length of time"),
        (("sink:", "stream: often\nsink:"), ":7: stream is not a group of settings"),
        (("sink:", "state: ${NOWHERE}\nsink:"), ":7: state uses $NOWHERE, which is not set"),
        (("sink:", "sink: ["), " is not YAML"),
        (("topics: [page_views]", "topics: [a]\n  options:\n    minPartitions: 2\n    kafka.max.pol.records: 5"), ":6: source.options.kafka.max.pol.records cannot be: no Kafka client has such an option (did you mean kafka.max.poll.records?)"),
        (("topics: [page_views]", "topics: [a]\n  options: {minPartition: 2}"), ":4: source.options.minPartition cannot be: there is no such option; did you mean minPartitions?"),
        (("topics: [page_views]", "topics: [a]\n  options: {kafka.security.protocol: TLS}"), ":4: source.options cannot be: kafka.security.protocol is 'TLS': this client knows PLAINTEXT, SSL"),
        (("topics: [page_views]", "topics: [a]\n  bootstrap: here:there"), ":4: source.bootstrap is 'here:there'"),
        (("location: tables/views", "location: t\n  partition_by: [event_dat]"), ":9: sink.partition_by has 'event_dat', and the rows have no such column; they have event_id, event_time,"),
        (("location: tables/views", "location: t\n  partition_by: [event_dat]"), "(did you mean event_date?)"),
        (("location: tables/views", "location: t\n  partition_by: [event_time]"), ":9: sink.partition_by has 'event_time', which is a timestamp: a table can be partitioned by event_id, session_id,"),
        (("location: tables/views", "location: t\n  options: {compresion: zstd}"), ":9: sink.options cannot be: tables of kind 'delta' have no option compresion; they have compression, file_bytes, storage.* (did you mean compression?)"),
        (("location: tables/views", "kind: kafka\n  location: t\n  options: {kafka.ack: all}"), ":10: sink.options.kafka.ack cannot be: no Kafka client has such an option"),
        (("location: tables/views", "kind: kafka\n  location: t\n  options: {key: pge}"), ":10: sink.options key has 'pge', and the rows have no such column; they have event_id"),
        (("location: tables/views", "kind: parquet\n  location: t"), ":8: sink.kind is 'parquet'; it can be delta, iceberg, kafka"),
        (("location: tables/views", "location: t\n  files_per_batch: few"), ":9: sink.files_per_batch is 'few'"),
        (("location: tables/views", "location: t\n  upkeep: {vacuum_every: sometimes}"), ":9: sink.upkeep.vacuum_every is 'sometimes'"),
        (("location: tables/views", "location: t\n  upkeep: {vacuum: 1 day}"), ":9: sink.upkeep.vacuum is not known here (did you mean vacuum_every?)"),
        (("location: tables/views", "location: t\n  upkeep: {small_files_max: 1}"), ":9: sink.upkeep.small_files_max is 1: every batch would be rewritten"),
        (("location: tables/views", "location: t\n  upkeep: {cluster_by: [pge]}"), ":9: sink.upkeep.cluster_by has 'pge', and the rows have no such column"),
        (("location: tables/views", "location: t\n  upkeep: {cluster_by: [a, b, c, d, e]}"), ":9: sink.upkeep.cluster_by names 5 columns: at most 4"),
        (("location: tables/views", "kind: kafka\n  location: t\n  upkeep: {versions_max: 1}"), ":10: sink.upkeep says nothing where the sink is a topic"),
        (("sink:", "audit: {counts: c, time: event_tim}\nsink:"), ":7: audit.time has 'event_tim', and the rows have no such column"),
        (("sink:", "dead_letters: {options: {x: 1}}\nsink:"), ":7: dead_letters.options cannot be: tables of kind 'delta' have no option x"),
        (("sink:", "dead_letters: {partition_by: page}\nsink:"), ":7: dead_letters.partition_by has 'page', and the rows have no such column; they have reason, topic"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_job_file_is_reported_with_its_place(
    tmp_path: Path, change: tuple[str, str], reported: str
) -> None:
    assert change[0] in SMALL
    assert reported in wrong(tmp_path, SMALL.replace(*change))


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        (("slide: 30 seconds", "slide: 2 minutes"), "aggregates.per_minute.slide is longer than the window"),
        (("by: [page]", "by: [views]"), "makes two columns called views"),
        (("by: [page]", "by: ['no name']"), "no name of a column"),
        (("    window: 1 minute\n", ""), "aggregates.per_minute.window is missing"),
        (("sink: {location: tables/per_minute}", "sink: {kind: kafka, location: t}"), "aggregates.per_minute.sink is a topic"),
        (("per_minute:", "per minute:"), "aggregates.per minute is no name"),
        (("by: [page]", "byy: [page]"), "aggregates.per_minute.byy is not known here"),
        (("transform: flags:crawlers\n", ""), ":24: aggregates.per_minute.by has 'page', and the rows have no such column; they have id, event_time, amount, topic, partition, offset, timestamp, key, headers"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_an_aggregate_is_reported_with_its_place(
    tmp_path: Path, change: tuple[str, str], reported: str
) -> None:
    assert change[0] in LARGE
    assert reported in wrong(tmp_path, LARGE.replace(*change))


def test_what_a_transform_makes_of_the_columns_is_not_guessed(tmp_path: Path) -> None:
    assert read(tmp_path, LARGE).aggregates[0].by == ("page",)


SECRETIVE = """\
sink:
  location: s3://lake/views
  options: {compression: zstd, storage.AWS_ACCESS_KEY_ID: id, storage.AWS_SECRET_ACCESS_KEY: secret}
"""


@pytest.mark.parametrize(
    ("sink", "dead", "kind", "location", "options"),
    [
        (SECRETIVE, "", "delta", "s3://lake/views-dead", {"compression": "zstd", "storage.AWS_ACCESS_KEY_ID": "id", "storage.AWS_SECRET_ACCESS_KEY": "secret"}),
        (SECRETIVE, "dead_letters: {options: {compression: none}}", "delta", "s3://lake/views-dead", {"compression": "none", "storage.AWS_ACCESS_KEY_ID": "id", "storage.AWS_SECRET_ACCESS_KEY": "secret"}),
        (SECRETIVE, "dead_letters: {location: s3://broken}", "delta", "s3://broken", {"compression": "zstd", "storage.AWS_ACCESS_KEY_ID": "id", "storage.AWS_SECRET_ACCESS_KEY": "secret"}),
        (SECRETIVE, "dead_letters: {kind: kafka, location: broken}", "kafka", "broken", {}),
        ("sink: {kind: iceberg, location: s3://l/v, options: {table: web.views, catalog.uri: x}}", "", "iceberg", "s3://l/v-dead", {"table": "web.views_dead", "catalog.uri": "x"}),
        ("sink: {kind: kafka, location: out, options: {key: page, kafka.compression.type: lz4}}", "", "kafka", "out-dead", {"kafka.compression.type": "lz4"}),
    ],
)  # fmt: skip
def test_dead_letters_are_kept_as_the_sinks_rows_unless_the_file_says_otherwise(
    tmp_path: Path, sink: str, dead: str, kind: str, location: str, options: dict[str, str]
) -> None:
    job = read(tmp_path, SMALL.replace("sink:\n  location: tables/views\n", f"{sink}\n{dead}\n"))
    assert job.dead_letters is not None
    assert (job.dead_letters.kind.value, job.dead_letters.location) == (kind, location)
    assert job.dead_letters.options == options


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("{", "clicks.avsc is not JSON"),
        ('{"type": "record", "name": "c"}', 'clicks.avsc is not an Avro record: an object with "type": "record"'),
        ('{"type": "record", "fields": [{"name": "page", "type": "txt"}]}', 'clicks.avsc: page: "txt" has no column here; a field can be string'),
        ('{"type": "record", "fields": [{"name": "a"}]}', "clicks.avsc: {'name': 'a'} is not a field of Avro's"),
        ('{"type": "record", "fields": []}', "clicks.avsc: clicks has no fields"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_an_avro_file_is_reported_with_file_and_field(
    tmp_path: Path, text: str, reported: str
) -> None:
    (tmp_path / "clicks.avsc").write_text(text)
    said = wrong(tmp_path, SMALL.replace(SCHEMA, "schema: clicks.avsc"))
    assert ":6: decode.schema is 'clicks.avsc': " in said
    assert reported in said
    ids = "  mode: schema_id_prefix\n  schemas: {1: clicks.avsc}\n"
    said = wrong(tmp_path, SMALL.replace("  mode: json\n", ids))
    assert ":6: decode.schemas.1 is 'clicks.avsc': " in said
    assert reported in said


def test_variables_of_the_environment_are_filled_in(tmp_path: Path) -> None:
    text = SMALL.replace("[page_views]", "['${PREFIX:-test}-views']").replace("tables/", "${TABLES}/")
    assert read(tmp_path, text, environment={"TABLES": "/lake"}).source.topics == ("test-views",)
    job = read(tmp_path, text, environment={"TABLES": "/lake", "PREFIX": "live"})
    assert job.source.topics == ("live-views",)
    assert job.sink is not None
    assert job.sink.location == "/lake/views"


def test_an_address_of_the_command_goes_before_that_of_the_environment_and_that_before_the_files(
    tmp_path: Path,
) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(SMALL.replace("source:", "source:\n  bootstrap: file:9092"), encoding="utf-8")
    assert read_job(path, {}).source.bootstrap == "file:9092"
    assert read_job(path, {"SORDINI_BOOTSTRAP": "environment:9092"}).source.bootstrap == "environment:9092"
    assert read_job(path, {"SORDINI_BOOTSTRAP": "x:1"}, "command:9092").source.bootstrap == "command:9092"


def test_a_file_that_cannot_be_read_is_reported_without_a_traceback(tmp_path: Path) -> None:
    with pytest.raises(JobFileError, match=r"cannot be read: No such file"):
        read_job(tmp_path / "none.yaml", {})
    assert "not TOML" in wrong(tmp_path, "a = ", "job.toml")
    (tmp_path / "latin.yaml").write_bytes(b"name: \xff\xfe\xfa")
    with pytest.raises(JobFileError, match="line 1 is not UTF-8"):
        read_job(tmp_path / "latin.yaml", {})


def test_an_avro_file_is_a_schema(tmp_path: Path) -> None:
    (tmp_path / "clicks.avsc").write_text(
        '{"type": "record", "name": "click", "fields": [{"name": "page", "type": ["null", "string"]}]}'
    )
    job = read(tmp_path, SMALL.replace(SCHEMA, "schema: clicks.avsc"))
    assert job.decode.schema is not None
    assert [field.name for field in job.decode.schema.fields] == ["page"]


def test_a_job_reads_the_topics_it_names_or_those_whose_whole_names_fit_its_pattern(tmp_path: Path) -> None:
    named = read(tmp_path, SMALL).source
    assert named.reads("page_views")
    assert not named.reads("page_views-2")
    fitting = read(tmp_path, LARGE).source
    assert fitting.reads("views-de")
    assert not fitting.reads("page-views-de")


STORED = f"""\
{SMALL}\
storage:
  endpoint: https://minio:9000
  region: eu-central-1
  credentials: {{access_key: AKID, secret_key: '${{HUSH}}'}}
  path_style: false
  options: {{adls.account-name: lake}}
  working_folder: work
"""


def test_one_section_says_how_everything_in_object_stores_is_reached(tmp_path: Path) -> None:
    job = read(tmp_path, STORED, environment={"HUSH": "hush"})
    assert job.sink is not None
    assert job.dead_letters is not None
    assert job.sink.storage == job.dead_letters.storage == job.storage
    assert job.storage == ObjectStorage(
        "https://minio:9000",
        "eu-central-1",
        Keys("AKID", "hush"),
        path_style=False,
        options={"adls.account-name": "lake"},
        working_folder=str(tmp_path / "work"),
    )
    assert "hush" not in f"{job}"


def test_what_the_section_leaves_out_is_in_the_environment(tmp_path: Path) -> None:
    environment = {"AWS_ENDPOINT_URL": "http://minio:9000", "AWS_REGION": "eu-west-1", "AWS_ALLOW_HTTP": "true"}
    storage = read(tmp_path, SMALL, environment=environment).storage
    assert storage == ObjectStorage("http://minio:9000", "eu-west-1", allow_http=True)
    assert read(tmp_path, SMALL).storage == NOWHERE
    # What is written here is allowed here: a variable that is set for others says nothing about this address.
    environment = {"AWS_ALLOW_HTTP": "true"}
    with pytest.raises(JobFileError, match="is not encrypted"):
        read(tmp_path, f"{SMALL}storage: {{endpoint: 'http://minio:9000'}}\n", environment=environment)


def test_credentials_are_the_environments_a_functions_a_groups_or_none(tmp_path: Path) -> None:
    def credentials(written: str) -> object:
        return read(tmp_path, f"{SMALL}storage: {{credentials: {written}}}\n").storage.credentials

    assert [credentials("environment"), credentials("anonymous")] == list(Implicit)
    assert credentials("vault:keys") == Provider("vault:keys", str(tmp_path))
    assert credentials("{account_key: k}") == AccountKey("k")
    assert credentials("{sas_token: '?sv=1'}") == SasToken("sv=1")
    assert credentials("{tenant_id: t, client_id: c, client_secret: s}") == ServicePrincipal("t", "c", "s")


def test_an_account_of_azure_has_its_own_endpoint_and_none_of_s3s_environment(tmp_path: Path) -> None:
    environment = {"AWS_ENDPOINT_URL": "http://minio:9000", "AWS_ALLOW_HTTP": "true"}
    assert read(tmp_path, f"{SMALL}storage: {{account: lake}}\n", environment=environment).storage.endpoint == ""
    emulator = "storage: {account: lake, endpoint: 'http://127.0.0.1:10000/lake', allow_http: true}\n"
    assert read(tmp_path, SMALL + emulator).storage.endpoint == "http://127.0.0.1:10000/lake"


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("storage: {endpoint: minio}", "storage.endpoint cannot be: 'minio' is no URL"),
        ("storage: {credentials: AKIDSECRET}", "storage.credentials is none of environment, anonymous"),
        ("storage: {credentials: {access_key: a}}", "storage.credentials.secret_key is missing"),
        ("storage: {credentials: {client_id: a, tenant_id: b}}", "storage.credentials.client_secret is missing"),
        ("storage: {credentials: {account_key: a, access_key: b}}", "storage.credentials.access_key is not known here"),
        ("storage: {account: lake, credentials: anonymous}", "storage.credentials cannot be: Azure's stores grant"),
        ("storage: {account: lake, endpoint: 'https://h'}", "storage.endpoint cannot be: https://h is not one of the"),
        ("storage: {pathstyle: true}", "storage.pathstyle is not known here (did you mean path_style?)"),
        ("storage: {allow_http: 1}", "storage.allow_http is 1, neither true nor false"),
    ],
)
def test_what_is_wrong_in_the_storage_is_reported_and_no_key_is_repeated(
    tmp_path: Path, text: str, reported: str
) -> None:
    said = wrong(tmp_path, f"{SMALL}{text}\n")
    assert said.startswith(f":9: {reported}")
    assert "AKIDSECRET" not in said
