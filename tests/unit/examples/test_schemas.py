"""The examples' schemas, which their jobs and producers of other languages take."""

from __future__ import annotations

from pathlib import Path

import pytest

from sordini.pipeline.jobs.job_file_schema import avro_of_file, schema_of_file
from sordini.pipeline.schemas.avro import avro_text, read_avro, to_avro
from sordini.pipeline.schemas.fields import Schema, SchemaError
from tests.outside.needs import ROOT
from tests.support.example_schemas import EXAMPLE_SCHEMAS, FOLDER


@pytest.mark.parametrize(("name", "schema"), EXAMPLE_SCHEMAS.items(), ids=EXAMPLE_SCHEMAS)
def test_every_schema_is_the_same_after_avro_and_says_when_its_events_happened(name: str, schema: Schema) -> None:
    assert schema.name == name
    assert schema.about
    assert all(field.about for field in schema.fields)
    assert read_avro(avro_text(schema), "") == schema
    assert schema.event_time == "event_time"


@pytest.mark.parametrize("schema", EXAMPLE_SCHEMAS.values(), ids=EXAMPLE_SCHEMAS)
def test_fastavro_takes_every_schema(schema: Schema) -> None:
    import fastavro

    assert fastavro.parse_schema(to_avro(schema))


@pytest.mark.parametrize("name", EXAMPLE_SCHEMAS)
def test_a_name_that_earlier_versions_had_is_reported_with_the_file_that_has_its_schema(name: str) -> None:
    for read in (schema_of_file, avro_of_file):
        with pytest.raises(SchemaError) as caught:
            read(name, Path())
        file = next(word.rstrip(":") for word in str(caught.value).split() if word.startswith("examples/"))
        assert (ROOT / file).samefile(FOLDER / f"{name}.yaml")


def test_a_file_with_fields_says_the_avro_of_records_with_an_id() -> None:
    assert avro_of_file("click.yaml", FOLDER) == avro_text(EXAMPLE_SCHEMAS["click"])
