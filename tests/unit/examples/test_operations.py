"""The operations example's generator plants what it says, and its jobs' limits tell it from a good day."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples.operations import generator
from examples.operations.generator import CALM, CRAWLERS, MEASURES, REQUESTS, TROUBLED, VISITS, Plan, happen
from tests.support.example_schemas import EXAMPLE_SCHEMAS

PLAN = Plan(seed=1, start_ms=1_790_000_000_000, minutes=4)
JOBS = Path(generator.__file__).parent / "jobs"


@pytest.fixture(scope="module")
def limits() -> dict[str, float]:
    spec = importlib.util.spec_from_file_location("alerts", JOBS / "alerts.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: dict[str, float] = module.LIMITS
    return found


def test_the_same_plan_gives_the_same_records() -> None:
    assert happen(PLAN) == happen(PLAN)


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32))
def test_measures_are_above_their_limits_exactly_as_often_as_was_counted(seed: int, limits: dict[str, float]) -> None:
    happened = happen(PLAN._replace(seed=seed, visits=1, visitors=1))
    above: Counter[tuple[str, str]] = Counter()
    for record in happened.records:
        if record.topic == MEASURES:
            fields = json.loads(record.value)
            above[fields["host"], fields["metric"]] += fields["value"] > limits[fields["metric"]]
    assert +above == happened.too_much
    assert happened.too_much.total() > 0


def test_every_limit_lies_between_a_good_day_and_an_incident(limits: dict[str, float]) -> None:
    for metric, limit in limits.items():
        assert CALM[metric] < limit < TROUBLED[metric] * 0.98
    assert limits.keys() == CALM.keys()


def test_crawlers_ask_for_more_pages_a_minute_than_visitors() -> None:
    pages = defaultdict(set)
    for record in happen(PLAN).records:
        if record.topic == REQUESTS:
            pages[record.key.decode(), record.timestamp_ms // 60_000].add(json.loads(record.value)["page"])
    full = [minute for (address, minute), asked in pages.items() if address in CRAWLERS and len(asked) >= 60]
    assert len(full) >= len(CRAWLERS) * (PLAN.minutes - 1)
    assert all(len(asked) < 30 for (address, _), asked in pages.items() if address not in CRAWLERS)


def test_visits_are_counted_by_the_member_that_is_their_key() -> None:
    happened = happen(PLAN)
    keys = Counter(int(record.key) for record in happened.records if record.topic == VISITS)
    assert keys == happened.visits
    assert keys.total() == PLAN.visits


def test_records_have_the_fields_of_their_schemas_and_come_in_order() -> None:
    records = happen(PLAN).records
    assert [one.timestamp_ms for one in records] == sorted(one.timestamp_ms for one in records)
    schemas = {MEASURES: "operational", REQUESTS: "page_view", VISITS: "member_visit"}
    for one in records:
        fields = {field.name: field for field in EXAMPLE_SCHEMAS[schemas[one.topic]].fields}
        value = json.loads(one.value)
        assert value.keys() <= fields.keys()
        assert all(value.get(name) is not None for name, field in fields.items() if field.is_required)
