"""Stores that refuse: each is one sentence with the place and what is missing, nothing is half written, and the batch
that failed is right when it is repeated. Tables without Spark, states, counts, and the commands of a job.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from sordini.cli.__main__ import main
from sordini.pipeline.errors import PipelineError
from sordini.pipeline.jobs.audit import read_counts
from sordini.pipeline.jobs.state_files import StateError
from sordini.pipeline.jobs.state_folder import StateFolder
from tests.outside.ports import free_port
from tests.outside.s3_server import KEYS, REGION, S3Server
from tests.pipeline.request_proxy import DENIED, SLOW_DOWN, Refusal, Watch, always, first, proxy, writes
from tests.pipeline.store_stories import (
    DEEDS,
    InBuckets,
    StoreWriter,
    Stories,
    check_again,
    check_sentence,
    check_upkeep,
    check_whole,
)

LACKS = "refuses access: the credentials lack a permission for it (get, put, list or delete)"
NO_BUCKET = "is in no bucket: it has to be created first, and the region has to be its own"
UNAVAILABLE = Refusal(503, "ServiceUnavailable")
REFUSALS = {
    "read only": (writes(DENIED), LACKS),
    "nothing allowed": (always(DENIED), LACKS),
    "no bucket": (always(Refusal(404, "NoSuchBucket")), NO_BUCKET),
    "a wrong clock": (
        always(Refusal(403, "RequestTimeTooSkewed")),
        "refuses requests as this machine's clock is wrong: set it, by NTP for instance",
    ),
    "another region": (always(Refusal(400, "AuthorizationHeaderMalformed")), "is in another region than the settings"),
    "unavailable for ever": (writes(UNAVAILABLE), "is unavailable, and was so until the retries ended"),
}
READING = tuple(name for name in REFUSALS if name not in {"read only", "unavailable for ever"})
"""Refusals of requests that read."""


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="module")
def writer() -> Iterator[StoreWriter]:
    with StoreWriter() as process:
        yield process


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def port(s3: S3Server, watch: Watch) -> Iterator[int]:
    with proxy(s3.port, watch) as found:
        yield found


@pytest.fixture
def proxied(port: int) -> str:
    return S3Server.endpoint_at(port)


@pytest.fixture
def stories(kind: str, s3: S3Server, writer: StoreWriter, watch: Watch, port: int, tmp_path: Path) -> Stories:
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db"} if kind == "iceberg" else {}
    return Stories(writer, watch, InBuckets(kind, s3, port, catalog))


@pytest.mark.long
@pytest.mark.parametrize("refusal", REFUSALS)
@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_store_that_refuses_is_one_sentence_and_the_table_is_as_it_was_until_it_does_not(
    stories: Stories, kind: str, deed: str, refusal: str
) -> None:
    plan, reported = REFUSALS[refusal]
    with stories.story(DEEDS[deed]) as story:
        story.prepare()
        ended, requests = story.harmed(plan)
        assert requests, "it came to the proxy"
        check_sentence(ended["error"])
        assert ended["error"].startswith(f"{story.direct.location} {reported}")
        seen = story.aftermath()
        assert (seen.after_harm.rows, seen.after_harm.position) == (story.deed.before, story.deed.positions[0])
        check_whole(story.deed, seen.after_harm, refusal)
        check_again(story.deed, seen.again, refusal)
        check_upkeep(story.deed, seen, refusal)


@pytest.mark.parametrize(
    "deed", [pytest.param(each, marks=() if each == "upsert" else pytest.mark.long) for each in DEEDS]
)
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_store_that_is_busy_for_a_while_delays_and_fails_nothing(stories: Stories, kind: str, deed: str) -> None:
    with stories.story(DEEDS[deed]) as story:
        story.prepare()
        ended, requests = story.harmed(first(4, SLOW_DOWN))
        assert "values" in ended, ended
        assert len(requests) > 4
        seen = story.aftermath()
        assert seen.after_harm.position == story.deed.positions[1]
        check_again(story.deed, seen.again, deed)
        check_upkeep(story.deed, seen, deed)


@pytest.mark.parametrize("kind", ["delta", pytest.param("iceberg", marks=pytest.mark.long)])
def test_an_endpoint_at_which_nothing_answers_is_one_sentence_of_each_deed(stories: Stories, kind: str) -> None:
    with stories.story(DEEDS["append"]) as story:
        story.prepare()
        for deed in ("append", "compact"):
            nowhere = story.direct._replace(endpoint=f"http://127.0.0.1:{free_port()}", deeds=[deed])
            ended = story.writer.do(nowhere)
            assert ended == {"error": f"{nowhere.location} cannot be reached: nothing answers at its endpoint"}
        check_again(story.deed, story.aftermath().again, kind)


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_state_that_cannot_be_written_names_the_note_and_keeps_what_it_had(
    s3: S3Server, watch: Watch, proxied: str, refusal: str
) -> None:
    bucket = s3.make_bucket(f"state-{refusal.replace(' ', '-')}")
    plan, reported = REFUSALS[refusal]
    state = StateFolder(f"{bucket}/state", replace(s3.storage, endpoint=proxied))
    state.write("load/done.json", {"batch_id": 1})
    watch.begin(plan)
    with pytest.raises(StateError) as refused:
        state.write("load/done.json", {"batch_id": 2})
    assert str(refused.value).startswith(f"{bucket}/state/load/done.json {reported}")
    with pytest.raises(StateError) as not_held, state.locked():
        raise AssertionError("it is not held")
    assert str(not_held.value).startswith(f"{bucket}/state/lock.json {reported}")
    assert watch.end() is False
    direct = StateFolder(f"{bucket}/state", s3.storage)
    assert (direct.read("load/done.json"), direct.names("")) == ({"batch_id": 1}, ["load"])
    watch.begin(lambda _: None)
    state.write("load/done.json", {"batch_id": 2})
    assert direct.read("load/done.json") == {"batch_id": 2}


@pytest.mark.parametrize("refusal", READING)
def test_counts_that_a_store_refuses_name_their_place(s3: S3Server, watch: Watch, proxied: str, refusal: str) -> None:
    plan, reported = REFUSALS[refusal]
    watch.begin(plan)
    with pytest.raises(PipelineError) as refused:
        read_counts("s3://lake/counts.jsonl", 60, replace(s3.storage, endpoint=proxied))
    assert str(refused.value).startswith("s3://lake/counts.jsonl ")
    assert reported in str(refused.value)


@pytest.mark.parametrize("refusal", READING)
@pytest.mark.parametrize(
    "command",
    ["compact --clean-up", "doctor", "status", "audit", "resume", "load", "stream --available-now", "aggregate"],
)
def test_a_command_names_the_place_that_a_store_refuses_before_it_begins(
    s3: S3Server, watch: Watch, proxied: str, tmp_path: Path, command: str, refusal: str
) -> None:
    plan, reported = REFUSALS[refusal]
    watch.begin(plan)
    job = tmp_path / "job.yaml"
    job.write_text(
        "name: events\n"
        f"source: {{topics: [t], bootstrap: '127.0.0.1:{free_port()}'}}\n"
        "sink: {location: 's3://lake/events'}\n"
        "state: s3://lake/state\n"
        "audit: {counts: 's3://lake/counts.jsonl'}\n"
        "decode: {mode: json, schema: {fields: {n: int!, at: timestamp!}}}\n"
        "aggregates: {m: {window: 1 minute, sink: {location: 's3://lake/m'}}}\n"
        f"storage:\n  endpoint: {proxied}\n  region: {REGION}\n  allow_http: true\n"
        f"  credentials: {{access_key: {KEYS.access_key}, secret_key: {KEYS.secret_key}}}\n"
    )
    name, *options = command.split()
    result = CliRunner().invoke(main, ["pipeline", name, str(job), *options])
    assert result.exit_code == 1
    assert f"sordini: s3://lake/events {reported}" in result.output
    assert KEYS.secret_key not in result.output
    assert {request.method for request in watch.requests} == {"GET"}
