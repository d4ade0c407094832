"""What `make confluent-suite` says of a report."""

from __future__ import annotations

import pytest

from tests.client_suites.confluent_suite import outcomes_of, unexpected

REPORT = """\
<testsuites><testsuite>
<testcase classname="tests.integration.consumer.test_one" name="test_passes" time="1.0"><system-out>said</system-out></testcase>
<testcase classname="tests.integration.consumer.test_one" name="test_skipped"><skipped message="why" /></testcase>
<testcase classname="tests.integration.admin.test_two" name="test_fails[1]"><failure message="why">where</failure></testcase>
<testcase classname="tests.integration.admin.test_two" name="test_errs"><error message="why">where</error></testcase>
</testsuite></testsuites>
"""
FAILS = {"admin.test_two::test_fails[1]": "so it is", "admin.test_two::test_errs": "so it is, too"}


def test_each_test_of_a_report_has_its_outcome_by_its_file_and_name() -> None:
    assert outcomes_of(REPORT) == {
        "consumer.test_one::test_passes": "passed",
        "consumer.test_one::test_skipped": "skipped",
        "admin.test_two::test_fails[1]": "failure",
        "admin.test_two::test_errs": "error",
    }


def test_failures_that_have_a_reason_are_expected() -> None:
    assert unexpected(outcomes_of(REPORT), FAILS) == []


@pytest.mark.parametrize("test", FAILS)
def test_a_failure_or_an_error_without_a_reason_is_named(test: str) -> None:
    fails = {name: why for name, why in FAILS.items() if name != test}
    (sentence,) = unexpected(outcomes_of(REPORT), fails)
    assert sentence.startswith(f"{test} fails")


@pytest.mark.parametrize("test", ["consumer.test_one::test_passes", "consumer.test_one::test_skipped"])
def test_a_test_that_is_said_to_fail_and_does_not_is_named_with_the_reason(test: str) -> None:
    (sentence,) = unexpected(outcomes_of(REPORT), {**FAILS, test: "it was so once"})
    assert sentence.startswith(f"{test} does not fail")
    assert sentence.endswith("it was so once")
