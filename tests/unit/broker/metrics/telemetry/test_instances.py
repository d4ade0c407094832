"""Which clients are remembered, for how long, and how many of their values (KIP-714)."""

from __future__ import annotations

import pytest

from sordini.broker.configuration.client_metrics_config import ClientMetricsConfig, read_client_metrics
from sordini.broker.metrics.telemetry.machine.figures import (
    FIGURES_PER_CLIENT_MAX,
    Decoded,
    FigureKind,
    Name,
    PushedValue,
)
from sordini.broker.metrics.telemetry.machine.instances import EXPIRY_MS_MIN, SWEEP_MS, Instance, Instances, Now
from sordini.broker.metrics.telemetry.machine.subscriptions import TEXT_MAX, ClientIdentity, subscribed
from tests.support.telemetry_pushes import an_id

CLIENT = ClientIdentity("billing-1", "apache-kafka-java", "4.4.0", "192.0.2.1", 4711, "User:ANONYMOUS")
EVERY_MINUTE = read_client_metrics("all", {"metrics": "*", "interval.ms": "60000"})


def at(ms: int) -> Now:
    return Now(ms, ms + 1_000_000)


def seen(instances: Instances, number: int, ms: int = 0, subscription: ClientMetricsConfig = EVERY_MINUTE) -> Instance:
    return instances.requested(an_id(number), CLIENT, "connection", [subscription], 1, at(ms))


def values(*names: str, value: float = 1.0, kind: FigureKind = FigureKind.GAUGE) -> list[PushedValue]:
    return [PushedValue(Name(name, ()), kind, value) for name in names]


def test_an_instance_is_forgotten_when_it_was_silent_for_three_intervals() -> None:
    instances = Instances(10, 10, 100)
    seen(instances, 2)
    instances.read(seen(instances, 2), 1, Decoded(values("a"), 0), at(0))
    instances.expire(at(3 * 60_000 - 1))
    assert (len(instances), instances.bounds.series) == (1, 1)
    instances.expire(at(3 * 60_000 + SWEEP_MS))
    assert (len(instances), instances.bounds.series, instances.evicted) == (0, 0, 0)


def test_an_instance_of_a_short_interval_is_remembered_for_a_minute() -> None:
    instances = Instances(10, 10, 100)
    seen(instances, 2, 0, read_client_metrics("all", {"interval.ms": "100"}))
    instances.expire(at(EXPIRY_MS_MIN - 1))
    assert len(instances) == 1
    instances.expire(at(EXPIRY_MS_MIN - 1 + SWEEP_MS))
    assert len(instances) == 0


def test_of_too_many_instances_the_one_that_was_silent_for_longest_is_forgotten_and_counted() -> None:
    instances = Instances(2, 10, 100)
    instances.read(seen(instances, 2), 1, Decoded(values("a", "b"), 0), at(0))
    seen(instances, 3)
    seen(instances, 2)
    seen(instances, 4)
    assert (instances.ids(), instances.evicted, instances.bounds.series) == ([an_id(2), an_id(4)], 1, 2)
    seen(instances, 5)
    assert (instances.ids(), instances.evicted, instances.bounds.series) == ([an_id(4), an_id(5)], 2, 0)


def test_values_of_a_client_that_was_forgotten_while_they_were_read_are_not_kept() -> None:
    instances = Instances(1, 10, 100)
    former = seen(instances, 2)
    seen(instances, 3)
    instances.read(former, 1, Decoded(values("a"), 0), at(0))
    assert instances.bounds.series == 0


def test_values_beyond_the_bound_of_all_clients_are_dropped_and_counted_and_known_ones_change() -> None:
    instances = Instances(10, 3, 100)
    one, other = seen(instances, 2), seen(instances, 3)
    instances.read(one, 1, Decoded(values("a", "b"), 0), at(0))
    instances.read(other, 1, Decoded(values("a", "b"), 5), at(0))
    assert (instances.bounds.series, instances.bounds.dropped, other.figures_dropped) == (3, 6, 6)
    instances.read(other, 1, Decoded(values("a", value=2.0), 0), at(1))
    assert [figure.value for figure in other.figures.values()] == [2.0]
    instances.read(one, 1, Decoded(values("a"), 0), at(1))
    assert instances.bounds.series == 2


def test_one_client_does_not_take_the_place_of_all() -> None:
    instances = Instances(10, 10 * FIGURES_PER_CLIENT_MAX, 100)
    one = seen(instances, 2)
    instances.read(one, 1, Decoded(values(*map(str, range(FIGURES_PER_CLIENT_MAX + 1))), 0), at(0))
    assert (len(one.figures), one.figures_dropped) == (FIGURES_PER_CLIENT_MAX, 1)


def test_a_cumulative_total_replaces_and_a_delta_adds() -> None:
    instances = Instances(10, 10, 100)
    one = seen(instances, 2)
    for kind, value in (
        (FigureKind.DELTA, 3.0),
        (FigureKind.DELTA, 4.0),
        (FigureKind.TOTAL, 5.0),
        (FigureKind.DELTA, 1.0),
    ):
        instances.read(one, 1, Decoded(values("a", value=value, kind=kind), 0), at(0))
    (figure,) = one.figures.values()
    assert (figure.value, figure.kind) == (6.0, FigureKind.TOTAL)


def test_text_of_a_client_is_cut_where_it_is_kept() -> None:
    instances = Instances(10, 10, 100)
    instance = instances.requested(an_id(2), CLIENT._replace(client_id="x" * 32_000), "c", [], 1, at(0))
    assert instance.client.client_id == "x" * TEXT_MAX


@pytest.mark.parametrize(
    ("match", "is_matched"),
    [
        ("", True),
        ("client_id=billing-.*", True),
        ("client_id=billing", False),
        ("client_id=illing-1", False),
        ("client_software_name=apache-kafka-java,client_software_version=4[.].*", True),
        ("client_software_name=apache-kafka-java,client_software_version=3[.].*", False),
        ("client_source_address=192[.]0[.]2[.][0-9]+", True),
        ("client_source_port=47[0-9]{2}", True),
        ("client_instance_id=AAAAAAAAAAAAAAAAAAAAAg", True),
        ("client_instance_id=BAAAAAAAAAAAAAAAAAAAAg", False),
    ],
)
def test_all_selectors_must_match_the_whole_text(match: str, is_matched: bool) -> None:
    subscription = read_client_metrics("some", {"metrics": "a", "match": match})
    assert subscribed([subscription], an_id(2), CLIENT).metrics == (("a",) if is_matched else ())


@pytest.mark.parametrize("client_id", [None, "x" * (TEXT_MAX + 1)])
def test_a_client_without_an_id_or_with_a_very_long_one_matches_no_pattern_of_it(client_id: str | None) -> None:
    subscription = read_client_metrics("some", {"metrics": "a", "match": "client_id=.*"})
    assert subscribed([subscription], an_id(2), CLIENT._replace(client_id=client_id)).metrics == ()


def test_subscriptions_that_match_are_one_with_the_shortest_interval_and_five_minutes_at_most() -> None:
    slow = read_client_metrics("slow", {"metrics": "b,a", "interval.ms": "3600000"})
    quick = read_client_metrics("quick", {"metrics": "c", "interval.ms": "100"})
    every = read_client_metrics("every", {"metrics": "d,*"})
    assert subscribed([slow], an_id(2), CLIENT)[1:] == (("a", "b"), 300_000)
    assert subscribed([slow, quick], an_id(2), CLIENT)[1:] == (("a", "b", "c"), 100)
    assert subscribed([slow, every], an_id(2), CLIENT)[1:] == (("*",), 300_000)
