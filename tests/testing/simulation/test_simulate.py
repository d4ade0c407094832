"""`simulate`: what is a finding, what is repeated, and what unmodified clients can do on the simulated loop."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from sordini.testing import Fault, FaultKind, Scenario, SimulationFailed, search, simulate
from sordini.testing.simulation.app_loop import OutOfTime
from sordini.testing.simulation.run import SimulationNested
from sordini.testing.simulation.search import Search


async def idle(bootstrap_servers: str, scenario: Scenario) -> None:
    await asyncio.Event().wait()


async def copy_orders(bootstrap_servers: str, scenario: Scenario) -> None:
    """A service that is right, but for copies made twice."""
    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=bootstrap_servers,
        group_id="copies",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap_servers, enable_idempotence=True)
    await producer.start()
    await consumer.start()
    try:
        async for record in consumer:
            await producer.send_and_wait("copies", record.value)
            await consumer.commit()
    finally:
        await consumer.stop()
        await producer.stop()


async def send_orders(bootstrap_servers: str, scenario: Scenario) -> None:
    for number in range(10):
        await asyncio.sleep(scenario.random.expovariate(1))
        await scenario.send("orders", f"order {number}")


async def all_are_copied(scenario: Scenario) -> None:
    assert {record.text for record in await scenario.read("copies")} == {f"order {number}" for number in range(10)}


COPYING = {"topics": {"orders": 2, "copies": 2}, "load": send_orders, "settled": all_are_copied, "duration": 30.0}


def test_a_right_service_comes_to_rest_under_faults_of_every_kind():
    schedule = [
        Fault(4.0 + 2.0 * index, kind, broker=index % 3 + 1, instance=index % 2 + 1, seconds=1.5)
        for index, kind in enumerate(FaultKind)
    ]
    result = simulate(copy_orders, seed=1, schedule=schedule, instances=2, **COPYING).check()
    struck = [line for line in result.transcript if " fault: " in line]
    assert len(struck) == len(schedule) + 1
    assert not [line for line in struck if "left out" in line]


def test_the_same_seed_is_the_same_run_and_another_seed_is_another():
    first, another = (simulate(copy_orders, seed=seed, **COPYING) for seed in (5, 6))
    again = first.replay()
    assert again.digest == first.digest != another.digest
    assert again.transcript == first.transcript


def test_a_transcript_has_more_lines_with_a_lower_level_of_logging(monkeypatch: pytest.MonkeyPatch):
    for name in [name for name in logging.root.manager.loggerDict if name.startswith("aiokafka")]:
        monkeypatch.setattr(logging.getLogger(name), "level", logging.NOTSET)  # Other tests want to hear less.
        monkeypatch.setattr(logging.getLogger(name), "_cache", {})
    result = simulate(copy_orders, seed=5, faults=(), **COPYING)
    detailed = result.replay(log_level=logging.INFO)
    assert detailed.digest == result.digest
    assert len(detailed.transcript) > len(result.transcript)


async def transact(bootstrap_servers: str, scenario: Scenario) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap_servers, transactional_id="tx")
    await producer.start()
    async with producer.transaction():
        await producer.send_and_wait("kept", b"committed")
    await producer.begin_transaction()
    await producer.send_and_wait("kept", b"aborted")
    await producer.abort_transaction()
    await producer.stop()
    scenario.expect([one.text for one in await scenario.read("kept")] == ["committed"], "aborted records are read")


def test_transactions_of_an_unmodified_client_are_committed_and_aborted():
    simulate(transact, seed=1, faults=(), duration=5, topics={"kept": 1}).check()


async def assert_something(bootstrap_servers: str, scenario: Scenario) -> None:
    await asyncio.sleep(1)
    assert scenario.instance == 2, "the first instance"
    await asyncio.Event().wait()


def test_an_assertion_that_fails_in_the_application_is_a_finding():
    result = simulate(assert_something, seed=1, faults=(), duration=5, instances=2)
    assert result.findings[0] == "app-1: the first instance"
    with pytest.raises(SimulationFailed, match="the first instance"):
        result.check()


async def reads_without_commits(bootstrap_servers: str, scenario: Scenario) -> None:
    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=bootstrap_servers,
        group_id="readers",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    await consumer.start()
    first = await consumer.getone()
    await consumer.commit()
    scenario.note(f"committed behind {first.partition}@{first.offset}")
    await asyncio.Event().wait()


def test_a_group_that_leaves_records_unread_is_not_at_rest():
    result = simulate(
        reads_without_commits, seed=1, faults=(), duration=20, calm=20, topics={"orders": 1}, load=send_orders
    )
    assert result.findings == [
        "not at rest 20 s after the last fault: group readers has not committed 9 records: the first is orders-0@1"
    ]


async def fails_again_and_again(bootstrap_servers: str, scenario: Scenario) -> None:
    await asyncio.sleep(5)
    raise RuntimeError("no way")


def test_an_application_that_keeps_failing_without_faults_is_a_finding():
    async def never(scenario: Scenario) -> None:
        assert scenario.elapsed_s > 75, "too early"

    result = simulate(fails_again_and_again, seed=1, faults=(), duration=5, settled=never)
    assert [one for one in result.findings if "RuntimeError('no way')" in one]


async def loses_a_task(bootstrap_servers: str, scenario: Scenario) -> None:
    async def fail() -> None:
        await asyncio.sleep(1)
        raise ValueError("lost")

    asyncio.create_task(fail())  # noqa: RUF006 - the mistake.
    await asyncio.Event().wait()


def test_a_task_whose_exception_nothing_awaits_is_a_finding():
    assert simulate(loses_a_task, seed=1, faults=(), duration=5).findings == [
        "a task ended with an exception that nothing awaited: fail: ValueError('lost')"
    ]


async def blocks(bootstrap_servers: str, scenario: Scenario) -> None:
    time.sleep(3)  # noqa: ASYNC251 - the mistake.
    await asyncio.Event().wait()


def test_a_blocked_loop_is_a_finding_unless_it_is_allowed():
    assert simulate(blocks, seed=1, faults=(), duration=5).findings == ["app-1.1 blocked its loop for 3 s"]
    simulate(blocks, seed=1, faults=(), duration=5, blocked_max_s=None).check()


async def counts_starts(bootstrap_servers: str, scenario: Scenario) -> None:
    scenario.state["starts"] = scenario.state.get("starts", 0) + 1
    try:
        await asyncio.Event().wait()
    finally:
        scenario.state["unwound"] = scenario.state.get("unwound", 0) + 1


@pytest.mark.parametrize(("kind", "unwound"), [(FaultKind.CRASH_APP, 0), (FaultKind.STOP_APP, 1)])
def test_an_instance_is_started_again_and_only_a_stop_runs_its_finally(kind: FaultKind, unwound: int):
    async def settled(scenario: Scenario) -> None:
        scenario.expect(scenario.state == {"starts": 2, **({"unwound": 1} if unwound else {})}, str(scenario.state))

    schedule = [Fault(4.0, kind, broker=1, instance=1, seconds=1.0)]
    simulate(counts_starts, seed=1, schedule=schedule, duration=8, settled=settled).check()


async def ends_at_sigterm(bootstrap_servers: str, scenario: Scenario) -> None:
    import signal

    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    await over.wait()
    scenario.state["handled"] = True


def test_an_instance_with_a_handler_of_sigterm_is_stopped_by_it():
    async def settled(scenario: Scenario) -> None:
        scenario.expect(scenario.state == {"handled": True}, "it was cancelled")

    schedule = [Fault(4.0, FaultKind.STOP_APP, broker=1, instance=1, seconds=1.0)]
    simulate(ends_at_sigterm, seed=1, schedule=schedule, duration=8, settled=settled).check()


def test_a_quiet_application_takes_few_turns_of_the_loop():
    """What a run costs, in what no other program changes; docs/evidence/simulation.md has the seconds."""

    async def consume(bootstrap_servers: str, scenario: Scenario) -> None:
        consumer = AIOKafkaConsumer(
            "orders", bootstrap_servers=bootstrap_servers, group_id="quiet", auto_offset_reset="earliest"
        )
        await consumer.start()
        async for _ in consumer:
            pass

    result = simulate(consume, seed=1, faults=(), duration=200, topics={"orders": 1}).check()
    assert result.outcome.steps / result.outcome.virtual_s < 120


@pytest.fixture(scope="module")
def searched() -> tuple[Search, list[str]]:
    """A search that finds something, and its lines of progress."""

    async def settled(scenario: Scenario) -> None:
        scenario.expect(scenario.state["starts"] == 1, "it was started again")

    lines: list[str] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("sordini.testing.simulation.search.PROGRESS_S", 0.0)
        found = search(counts_starts, range(20), settled=settled, duration=15, progress=lines.append)
    return found, lines


def test_a_search_ends_at_the_first_seed_with_findings_and_shrinks_it(searched: tuple[Search, list[str]]):
    found, _ = searched
    assert found.failure is not None
    assert found.found is not None
    assert len(found.failure.schedule) == 1
    assert found.failure.schedule[0].kind in {FaultKind.CRASH_APP, FaultKind.STOP_APP}
    assert found.runs == found.found.seed + 1
    with pytest.raises(SimulationFailed) as failed:
        found.check()
    text = str(failed.value)
    assert "it was started again" in text
    assert "simulate(..., seed=" in text
    assert " fault: " in text


def test_a_search_says_how_far_it_is_while_it_searches_and_shrinks(searched: tuple[Search, list[str]]):
    found, lines = searched
    assert found.found is not None
    seed = found.found.seed
    expected = [f"search: seed {one}; {one} of 20 seeds in " for one in range(seed + 1)]
    assert [line.startswith(start) for line, start in zip(lines, expected, strict=False)] == [True] * (seed + 1)
    assert lines[seed + 1].startswith(f"search: seed {seed} has findings, and is made smaller: it was started again; ")
    assert lines[seed + 2].startswith(f"search: attempt 1 of 40 to make seed {seed} smaller: ")
    assert lines[-1].partition(";")[0].endswith(f" smaller: {len(found.failure.schedule)} faults")


def test_the_lines_of_a_search_go_to_standard_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("sordini.testing.simulation.search.PROGRESS_S", 0.0)
    search(idle, range(2), duration=1)
    assert [line.partition(";")[0] for line in capsys.readouterr().err.splitlines()] == [
        "search: seed 0",
        "search: seed 1",
    ]


def test_a_search_ends_at_its_time_limit_in_the_middle_of_a_run():
    lines: list[str] = []
    found = search(spins, range(20), duration=100_000, limit_s=0.3, progress=lines.append)
    assert (found.runs, found.failure) == (0, None)
    assert lines[-1].startswith("search: the time limit of 0.3 s came after 0 of 20 seeds; ")
    assert found.text().endswith("; nothing found (the time limit of 0.3 s came after 0 of 20 seeds)")
    with pytest.raises(SimulationFailed, match=r"the time limit of 0\.3 s came after 0 of 20 seeds"):
        found.check()


async def spins(bootstrap_servers: str, scenario: Scenario) -> None:
    while True:  # noqa: ASYNC110 - what is tested.
        await asyncio.sleep(0.001)


def test_a_run_that_is_made_smaller_ends_at_the_limit_with_the_smallest_until_then():
    result = simulate(assert_something, seed=3, duration=20)
    assert result.shrink(end_s=0.0).plan == result.plan


def test_a_run_that_is_given_up_says_so_and_leaves_the_machine_as_it_was():
    real = (time.monotonic, threading.Thread.start, socket.getaddrinfo, dict(vars(socket.socket)))
    with pytest.raises(OutOfTime, match="the run has not ended in its time, at "):
        simulate(spins, seed=1, duration=100_000, limit_s=0.2)
    assert real == (time.monotonic, threading.Thread.start, socket.getaddrinfo, dict(vars(socket.socket)))


def test_a_search_that_finds_nothing_says_how_much_was_run():
    found = search(idle, range(2), duration=5).check()
    assert found.failure is None
    assert found.text().startswith("2 seeds, 1")
    assert found.text().endswith("nothing found")


def test_a_shrunk_run_is_repeated_from_what_is_printed():
    result = simulate(assert_something, seed=3, duration=20)
    shrunk = result.shrink()
    again = simulate(assert_something, seed=3, duration=shrunk.plan.duration, schedule=shrunk.schedule)
    assert again.digest == shrunk.digest
    assert shrunk.schedule == ()


def test_a_simulation_inside_a_running_loop_is_refused():
    async def simulated() -> None:
        with pytest.raises(SimulationNested):
            simulate(idle, seed=1)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(simulated())
    loop.close()


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"seed": "1"}, "seed='1': allowed is a whole number"),
    ({"topics": 7}, "topics=7: allowed is a text, or several in a list"),
    ({"topics": {"orders": "2"}}, r"topics\['orders'\]='2': allowed is a whole number from 1"),
    ({"brokers": "3"}, "brokers='3': allowed is a whole number from 1 to 9"),
    ({"instances": 0}, "instances=0: allowed is a whole number from 1"),
    ({"duration": "60"}, "duration='60': allowed is a number from 0"),
    ({"faults": 7}, "faults=7: allowed is a text, or several in a list"),
    ({"schedule": "crash_app"}, "schedule='crash_app': allowed is a Fault, or several in a list"),
    (
        {"schedule": [Fault(4.0, FaultKind.CRASH_BROKER, broker=7, instance=1, seconds=1.0)]},
        "broker=7: allowed is a wh",
    ),
    ({"schedule": [Fault(4.0, "meteor", broker=1, instance=1, seconds=1.0)]}, "kind='meteor': allowed is one of crash"),
    ({"config": "a=b"}, "config='a=b': allowed is a dict of values by key"),
    ({"config": {"listeners": "PLAINTEXT://:1"}}, r"config\['listeners'\]='PLAINTEXT://:1': the kit chooses ports"),
]


@pytest.mark.parametrize(("settings", "said"), WRONG, ids=[row[1] for row in WRONG])
def test_settings_that_cannot_mean_anything_are_refused(settings: dict[str, Any], said: str):
    with pytest.raises(ValueError, match=said):
        simulate(idle, **{"seed": 1, **settings})


@pytest.mark.parametrize("seeds", [200, "0-199"])
def test_seeds_are_several_numbers(seeds: Any):
    with pytest.raises(ValueError, match=r"seeds=.*: allowed is whole numbers in a list, or a range such as range"):
        search(idle, seeds)


def test_a_text_is_one_topic_one_kind_of_fault_one_value_and_a_fault_alone_a_schedule():
    async def settled(scenario: Scenario) -> None:
        await scenario.send_together("orders", "figs")
        assert [record.text for record in await scenario.read("orders")] == ["figs"]

    fault = Fault(1.0, FaultKind.PAUSE_APP, broker=1, instance=1, seconds=0.5)
    result = simulate(idle, seed=1, topics="orders", duration=2, schedule=fault, settled=settled).check()
    assert result.schedule == (fault,)
    drawn = simulate(idle, seed=1, duration=20, faults="pause_app").schedule
    assert {one.kind for one in drawn} == {FaultKind.PAUSE_APP}


def test_settings_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match="meteor"):
        simulate(idle, seed=1, faults=("meteor",))
    with pytest.raises(ValueError, match=r"no\.such\.key"):
        simulate(idle, seed=1, config={"no.such.key": "1"})
