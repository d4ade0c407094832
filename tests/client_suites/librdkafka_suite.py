"""librdkafka's own tests of consumers and groups, by both group protocols, against one broker: `make librdkafka-suite`.

    python -m tests.client_suites.librdkafka_suite [TEST...]

`python3 scripts/outside.py librdkafka-suite` fetches and builds them. Each test is a process of its own, so that its
outcome is its own. The run fails if a test fails that is not named in MAY_FAIL.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from scripts.client_suites import LIBRDKAFKA_SUITE
from tests.outside.processes import SordiniProcess
from tests.outside.versions import LIBRDKAFKA_COMMIT

MEMBERS = (18, 33, 45, 49, 50, 51, 56, 89, 102, 112, 113, 116, 122, 132, 153)
COMMITS = (29, 30, 31, 34, 99, 118, 130, 140)
RECORDS = (22, 26, 41, 61, 93, 129, 137)
TESTS = [f"{number:04}" for number in (*MEMBERS, *COMMITS, *RECORDS)]
"""By the number in their name. Those of other subjects are left out: some need three brokers, logins or share groups."""
FIRST_MEMBER = (
    "it takes for granted that the member that subscribed first joins first; else the other one's commit as it revokes is "
    "one of a member, which is accepted"
)
MAY_FAIL = {
    ("consumer", "0045"): "as at Apache Kafka 4.4.0: a member that unsubscribes while it gives partitions up, and "
    "subscribes before the answer to its leave, sends no heartbeat any more",
    ("consumer", "0118"): FIRST_MEMBER,
    ("classic", "0118"): FIRST_MEMBER,
}
SETTINGS: dict[str, object] = {
    "num.partitions": 4,
    "group.consumer.min.session.timeout.ms": 6_000,
    "group.consumer.session.timeout.ms": 6_000,
}
"""Sessions of consumer groups are as short as the tests set them for classic groups, else 0113 fails with Apache Kafka
4.4.0, too. Their heartbeats stay as rare as by default: some tests count on that.
"""
WITHOUT_DELAY = {"group.initial.rebalance.delay.ms": 0}
"""A classic group waits for no second member; 0113 by the classic protocol counts on both joining the first generation."""
WITH_DELAY = {("classic", "0113")}
TEST_S_MAX = 1_200
"""0113 takes eleven minutes."""


def main(arguments: list[str]) -> None:
    source = LIBRDKAFKA_SUITE / LIBRDKAFKA_COMMIT
    if not (source / "tests" / "test-runner").exists():
        sys.exit("the suite is not here: `python3 scripts/outside.py librdkafka-suite` fetches it")
    wrong = []
    with (
        tempfile.TemporaryDirectory() as folder,
        SordiniProcess(Path(folder) / "broker", {**SETTINGS, **WITHOUT_DELAY}) as broker,
        SordiniProcess(Path(folder) / "with-delay", SETTINGS) as with_delay,
    ):
        for protocol in ("consumer", "classic"):
            for test in arguments or TESTS:
                asked = with_delay if (protocol, test) in WITH_DELAY else broker
                (Path(folder) / "test.conf").write_text(f"bootstrap.servers={asked.bootstrap}\n", encoding="utf-8")
                outcome = _outcome(source, Path(folder), protocol, test)
                expected = MAY_FAIL.get((protocol, test))
                sys.stdout.write(
                    f"{protocol:8} {test} {outcome}{f': {expected}' if expected and outcome != 'passes' else ''}\n"
                )
                sys.stdout.flush()
                if outcome != "passes" and expected is None:
                    wrong.append(f"{protocol} {test}")
    sys.exit(f"{len(wrong)} unexpected outcomes: {', '.join(wrong)}" if wrong else 0)


def _outcome(source: Path, folder: Path, protocol: str, test: str) -> str:
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": os.pathsep.join([str(source / "src"), str(source / "src-cpp")]),
        "TEST_CONSUMER_GROUP_PROTOCOL": protocol,
        "TEST_KAFKA_VERSION": "4.0.0",
        "TESTS": test,
        # Time limits that leave room for a few heartbeats; tests of classic groups count on those of a run by hand.
        **({"CI": "true"} if protocol == "consumer" else {}),
    }
    runner = str(source / "tests" / "test-runner")
    with (folder / f"{protocol}-{test}.log").open("wb") as log:
        try:
            done = subprocess.run(
                [runner, "-p1"], cwd=folder, env=environment, stdout=log, stderr=log, timeout=TEST_S_MAX, check=False
            )
        except subprocess.TimeoutExpired:
            return f"did not end in {TEST_S_MAX} s"
    return "passes" if done.returncode == 0 else f"fails, with status {done.returncode}"


if __name__ == "__main__":
    main(sys.argv[1:])
