"""The messages of clients are those that the clients print: two faults in each run, all with SORDINI_DOCTOR=all.

Each client is run into the fault as a program of its own, for some seconds.
"""

from __future__ import annotations

import os
import re

import pytest

from sordini.doctor.faults import Fault
from sordini.doctor.knowledge.client_messages import MESSAGES
from tests.doctor.collect import collected
from tests.doctor.planted import PLANTED, World, plant
from tests.support.parts import PART, part_of

PART_OF_A_RUN = os.environ.get("SORDINI_DOCTOR") or (PART if PART.isdigit() else "")
CHOSEN = part_of(list(MESSAGES), 2, PART_OF_A_RUN)
STANDS_FOR = {"HOST": r"[\w.:-]+", "PORT": r"\d+", "ID": r"-?\d+", "...": ".*"}


def pattern(message: str) -> str:
    """The message with what it stands for."""
    parts = re.split(r"\b(HOST|PORT|ID)\b|(\.\.\.)", message)
    return "".join(STANDS_FOR.get(part, re.escape(part)) for part in parts if part)


@pytest.mark.slow
@pytest.mark.parametrize("fault", CHOSEN, ids=lambda fault: fault.value)
def test_a_client_prints_what_is_said_of_it(fault: Fault, world: World) -> None:
    printed = dict.fromkeys(MESSAGES[fault], "")
    for name in PLANTED:
        if name.partition(":")[0] == fault.value:
            with plant(name, world) as case:
                for client, text in collected(case, list(printed)).items():
                    printed[client] += text
    for client, messages in MESSAGES[fault].items():
        missing = [message for message in messages if not re.search(pattern(message), printed[client])]
        assert not missing, f"{client} prints:\n{printed[client]}"


def test_messages_are_of_faults_that_are_planted() -> None:
    assert {fault.value for fault in MESSAGES} <= set(PLANTED)


def test_a_pattern_stands_for_hosts_ports_and_left_out_text() -> None:
    said = (
        "%3|1|FAIL| kafka-1.example:9092/7: Failed to resolve 'kafka-1.example:9092': Name (after 7ms in state CONNECT)"
    )
    assert re.search(pattern("HOST:PORT/ID: Failed to resolve 'HOST:PORT': Name (... in state CONNECT)"), said)
    assert not re.search(pattern("Failed to resolve 'HOST:PORT': Nobody"), said)
