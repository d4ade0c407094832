"""The activity example's generator: what it plays, what it sends, what it counts."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from datetime import datetime
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from examples.activity.generator.sending import BROKEN, TOPICS, encode, records
from examples.activity.generator.site import Skewed
from examples.activity.generator.tally import LATE_MINUTES, Tally
from examples.activity.generator.visits import CLICK, EVENTS_PER_VISIT, KINDS, MINUTE_MS, SEARCH, VIEW, Plan, events
from tests.support.example_schemas import EXAMPLE_SCHEMAS
from tests.support.in_memory_site import PLAN, sent_of, tally_of

SMALL = PLAN._replace(events=100)
MANY = tuple(events(PLAN._replace(events=8_000)))


def test_the_same_plan_gives_the_same_records_byte_for_byte() -> None:
    assert sent_of(SMALL) == sent_of(SMALL)


def test_another_seed_gives_other_records() -> None:
    assert sent_of(SMALL) != sent_of(SMALL._replace(seed=SMALL.seed + 1))


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32))
def test_events_come_in_the_order_of_their_arrival_and_none_before_it_happened(seed: int) -> None:
    happened = list(events(SMALL._replace(seed=seed)))
    assert [one.arrives_ms for one in happened] == sorted(one.arrives_ms for one in happened)
    assert all(PLAN.start_ms <= one.at_ms <= one.arrives_ms for one in happened)


def test_about_as_many_events_happen_as_were_asked_for() -> None:
    assert abs(len(MANY) - 8_000) < 800
    visits = len({one.fields["session_id"] for one in MANY})
    assert abs(len(MANY) / visits - EVENTS_PER_VISIT) < 0.4


def test_every_event_has_the_fields_of_its_schema_and_no_other() -> None:
    for one in events(SMALL):
        fields = {field.name: field for field in EXAMPLE_SCHEMAS[one.kind].fields}
        assert one.fields.keys() <= fields.keys()
        assert all(one.fields[name] is not None for name, field in fields.items() if field.is_required)
        assert datetime.fromisoformat(str(one.fields["event_time"])).timestamp() == one.at_ms / 1000


def test_no_two_events_have_the_same_id() -> None:
    ids = [one.fields["event_id"] for one in events(PLAN)]
    assert len(ids) == len(set(ids))


def test_a_click_follows_a_search_of_the_same_visit_and_leads_to_the_view_of_its_target() -> None:
    visits = defaultdict(list)
    for one in sorted(events(PLAN), key=lambda one: one.at_ms):
        visits[one.fields["session_id"]].append(one)
    clicks = 0
    for walk in visits.values():
        assert walk[0].kind == VIEW
        for before, one, after in zip(walk, walk[1:], [*walk[2:], None], strict=False):
            if one.kind == CLICK:
                clicks += 1
                assert before.kind == SEARCH
                assert one.fields["search_id"] == before.fields["event_id"]
                assert 1 <= one.fields["position"] <= min(10, before.fields["results"])
                assert after is not None
                assert (after.kind, after.fields["page"]) == (VIEW, one.fields["target"])
    assert clicks > 100


def test_few_pages_have_most_of_the_views() -> None:
    pages = Counter(one.fields["page"] for one in MANY if one.kind == VIEW)
    ranked = [views for _, views in pages.most_common()]
    assert sum(ranked[: len(ranked) // 5]) > sum(ranked) / 2


@given(things=st.integers(1, 50), skew=st.floats(0, 2), seed=st.integers())
def test_what_is_drawn_is_one_of_the_things(things: int, skew: float, seed: int) -> None:
    assert Skewed(range(things), skew).draw(Random(seed)) in range(things)


def test_some_phones_send_their_events_late_and_together() -> None:
    late = [one for one in MANY if one.late_ms > LATE_MINUTES * MINUTE_MS]
    assert 0.001 < len(late) / len(MANY) < 0.03
    assert all(
        "Mobile" in one.fields["user_agent"] or "iPhone" in one.fields["user_agent"] for one in late if one.kind == VIEW
    )
    without = events(PLAN._replace(late_share=0.0))
    assert not any(one.late_ms > MINUTE_MS for one in without)


def test_broken_records_break_as_often_as_asked_and_change_no_other() -> None:
    happened = list(events(PLAN))
    whole = list(records(happened, seed=1, broken_share=0.0))
    some = list(records(happened, seed=1, broken_share=0.1))
    assert not any(one.broken for one in whole)
    assert {one.broken for one in some if one.broken} == set(BROKEN)
    assert [one for one in some if not one.broken] == [
        one for one, other in zip(whole, some, strict=True) if not other.broken
    ]
    assert all(json.loads(one.value) == one.event.fields for one in whole)


@settings(max_examples=50)
@given(seed=st.integers(), way=st.sampled_from(sorted(BROKEN)))
def test_nothing_that_is_broken_can_be_taken_for_a_whole_event(seed: int, way: str) -> None:
    event = next(events(SMALL._replace(seed=seed)))
    value = BROKEN[way](encode(event.fields), event.fields, Random(seed))
    try:
        fields = json.loads(value)
    except ValueError:
        return
    try:
        assert "event_id" in fields
        datetime.fromisoformat(fields["event_time"])
    except (AssertionError, ValueError):
        return
    raise AssertionError(f"{value!r} is whole")


def test_a_visit_s_records_of_one_kind_have_one_key() -> None:
    assert {(one.key.decode(), one.topic) for one in sent_of(SMALL)} == {
        (one.fields["session_id"], TOPICS[one.kind]) for one in events(SMALL)
    }


def test_the_tally_counts_every_record_once() -> None:
    sent = sent_of(PLAN)
    tally = tally_of(sent)
    assert tally.sent.total() == len(sent)
    assert sum(tally.whole.values()) + tally.broken.total() == len(sent)
    assert tally.pages.total() == tally.whole[VIEW]
    assert list(tally.funnel) == list(KINDS)
    assert tally.funnel[VIEW] >= tally.funnel[SEARCH] >= tally.funnel[CLICK] > 0


def test_the_tally_reported_as_json_is_read_back_as_it_was() -> None:
    tally = tally_of(sent_of(SMALL))
    assert json.loads(json.dumps(tally.reported())) == tally.reported()
    assert Tally().reported()["whole"] == dict.fromkeys(KINDS, 0)


def test_a_plan_ends_after_its_minutes() -> None:
    plan = Plan(seed=1, start_ms=0, minutes=10, events=100)
    assert plan.end_ms == 600_000
