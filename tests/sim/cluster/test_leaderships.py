"""Which brokers were superseded when, of one partition."""

from __future__ import annotations

from sordini.protocol.types import BrokerId
from tests.sim.cluster.leaderships import Leaderships

ONE, TWO = BrokerId(1), BrokerId(2)


def _of_two_terms() -> Leaderships:
    """Broker 1 leads; at 5 broker 2 is elected, and has the command at 6."""
    leaderships = Leaderships()
    leaderships.elected(0.0, 0, ONE)
    leaderships.learned(1.0, ONE, 0, is_leader=True)
    leaderships.elected(5.0, 1, TWO)
    leaderships.learned(6.0, TWO, 1, is_leader=True)
    return leaderships


def test_a_leader_is_superseded_from_the_election_of_another_on():
    leaderships = _of_two_terms()
    assert [leaderships.is_superseded(at, ONE) for at in (1.0, 4.9, 5.0, 7.0)] == [False, False, True, True]
    assert not leaderships.is_superseded(7.0, TWO)


def test_a_leader_that_is_elected_again_is_superseded_until_it_has_the_command_if_another_was_elected_between():
    leaderships = _of_two_terms()
    leaderships.elected(7.0, 2, ONE)
    leaderships.learned(8.0, ONE, 2, is_leader=True)
    assert leaderships.is_superseded(7.5, ONE)
    assert not leaderships.is_superseded(8.0, ONE)


def test_a_leader_whose_own_epoch_was_raised_is_not_superseded():
    leaderships = Leaderships()
    leaderships.learned(1.0, ONE, 0, is_leader=True)
    leaderships.elected(2.0, 1, ONE)
    assert not leaderships.is_superseded(3.0, ONE)


def test_a_leader_is_superseded_where_none_is_elected():
    leaderships = Leaderships()
    leaderships.learned(1.0, ONE, 0, is_leader=True)
    leaderships.elected(2.0, 1, None)
    assert leaderships.is_superseded(3.0, ONE)


def test_two_brokers_lead_until_the_former_one_has_learned_of_its_successor():
    leaderships = _of_two_terms()
    assert not leaderships.had_superseded(2.0, 4.9)
    assert leaderships.had_superseded(5.5, 7.0)
    leaderships.learned(8.0, ONE, 1, is_leader=False)
    assert leaderships.had_superseded(7.5, 9.0)
    assert not leaderships.had_superseded(8.5, 9.0)


def test_a_process_that_starts_again_leads_nothing():
    leaderships = _of_two_terms()
    leaderships.started(8.0, ONE)
    assert not leaderships.had_superseded(8.5, 9.0)
