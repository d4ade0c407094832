"""confluent-kafka's own integration tests, by both group protocols, against one broker: `make confluent-suite`.

    python -m tests.client_suites.confluent_suite [--apache] [ARGUMENT OF PYTEST...]

`python3 scripts/outside.py confluent-suite` fetches them, and makes the environment in which they run: the wheel of the
same release. With `--apache` the broker is Apache Kafka 4.4.0, the judge. The run fails if a test fails that is not named in
FAILS, or if one that is named there passes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from scripts.client_suites import CONFLUENT_SUITE
from tests.outside.java import KRaftProcess
from tests.outside.processes import BrokerProcess, SordiniProcess
from tests.outside.versions import CONFLUENT_SUITE_COMMIT

FOLDERS: Final = ("consumer", "producer", "admin", "serialization")
"""Those of other subjects are left out: share groups, logins, and a registry of schemas."""
LEFT_OUT: Final[Mapping[str, str]] = {
    "admin/test_describe_operations.py::test_describe_operations": "it downloads an Apache Kafka of its own, with logins",
}
"""Why a test is not run."""
PROTOCOLS: Final = ("consumer", "classic")
SECONDS_MAX: Final = 1_800
TEST_SECONDS_MAX: Final = 300
FAILS: Final[Mapping[str, Mapping[str, str]]] = {
    "sordini": {
        "admin.test_incremental_alter_configs::test_incremental_alter_configs": "of a new topic it expects "
        "min.insync.replicas among the topic's own settings, which is so in clusters with eligible leader replicas "
        "(KIP-966); those are KRaft's",
    },
    "apache": {},
}
"""By the broker and the test: why it does not pass."""
FAILURES: Final = ("failure", "error")
"""What a report has of a test that does not pass."""


def main(arguments: Sequence[str]) -> None:
    python = CONFLUENT_SUITE / "environment" / "venv" / "bin" / "python"
    source = CONFLUENT_SUITE / CONFLUENT_SUITE_COMMIT
    if not (python.exists() and source.exists()):
        sys.exit("the suite is not here: `python3 scripts/outside.py confluent-suite` fetches it")
    kind = "apache" if arguments[:1] == ["--apache"] else "sordini"
    options = [argument for argument in arguments if argument != "--apache"]
    wrong = []
    with tempfile.TemporaryDirectory() as folder, _broker(kind, Path(folder)) as broker:
        for protocol in PROTOCOLS:
            environment = {**os.environ, "BROKERS": broker.bootstrap, "TEST_CONSUMER_GROUP_PROTOCOL": protocol}
            report = Path(folder) / f"{protocol}.xml"
            _run([str(python), "-m", "pytest", f"--junitxml={report}", *_options(options)], source, environment)
            outcomes = outcomes_of(report.read_text(encoding="utf-8"))
            if not outcomes:
                sys.exit(f"no test was run by the {protocol} protocol")
            counted = ", ".join(f"{count} {outcome}" for outcome, count in Counter(outcomes.values()).most_common())
            sys.stdout.write(f"{protocol}: {counted}\n")
            wrong += [f"{protocol}: {sentence}" for sentence in unexpected(outcomes, FAILS[kind])]
    sys.exit("\n".join(["unexpected outcomes:", *wrong]) if wrong else 0)


def _broker(kind: str, folder: Path) -> BrokerProcess:
    """Its groups wait for no second member, and it has access control entries, as the suite's own cluster has."""
    settings: dict[str, object] = {
        "group.initial.rebalance.delay.ms": 0,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    process = KRaftProcess if kind == "apache" else SordiniProcess
    return process(folder / "broker", settings)


def _options(options: Sequence[str]) -> list[str]:
    """The folders, unless tests are named."""
    left_out = [f"--deselect=tests/integration/{test}" for test in LEFT_OUT]
    shape = ["-p", "no:cacheprovider", "-q", f"--timeout={TEST_SECONDS_MAX}", *left_out]
    named = any("tests/" in option for option in options)
    return [*shape, *options, *([] if named else [f"tests/integration/{folder}" for folder in FOLDERS])]


def _run(command: Sequence[str], source: Path, environment: Mapping[str, str]) -> None:
    """Its status says only that some test failed, which the report says as well."""
    try:
        subprocess.run(command, cwd=source, env=environment, timeout=SECONDS_MAX, check=False)
    except subprocess.TimeoutExpired:
        sys.exit(f"the suite did not end in {SECONDS_MAX} s")


def outcomes_of(report: str) -> dict[str, str]:
    """The outcome of each test of a report of JUnit's kind, by its file and name."""
    return {
        f"{case.attrib['classname'].removeprefix('tests.integration.')}::{case.attrib['name']}": _outcome(case)
        for case in ET.fromstring(report).iter("testcase")
    }


def _outcome(case: ET.Element) -> str:
    """As JUnit calls it; a test that passed has no part that says so."""
    return next((part.tag for part in case if part.tag in (*FAILURES, "skipped")), "passed")


def unexpected(outcomes: Mapping[str, str], fails: Mapping[str, str]) -> list[str]:
    """What to say of tests that fail and should not, or should and do not."""
    found = []
    for test, outcome in outcomes.items():
        if outcome in FAILURES and test not in fails:
            found.append(f"{test} fails ({outcome})")
        elif outcome not in FAILURES and test in fails:
            found.append(f"{test} does not fail ({outcome}), and is said to: {fails[test]}")
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
