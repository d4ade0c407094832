"""Laws of a registry's state: for any requests, what was answered is what a replay of the records says."""

from __future__ import annotations

import contextlib
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from sordini.registry.records import NoopKey, Record
from sordini.registry.state.deleting import delete_subject, delete_version
from sordini.registry.state.lookups import LATEST
from sordini.registry.state.names import context_of
from sordini.registry.state.refusals import Refusal
from sordini.registry.state.registering import Judged, prepare, register
from sordini.registry.state.registry_state import RegistryState, content_of
from sordini.registry.state.settings import delete_config, delete_mode, set_config, set_mode
from sordini.registry.state.submission import Submission
from sordini.schemas.registered.types import Reference
from tests.support.registries import Stored, append, compacted, replayed_state, take

SUBJECTS = ("a", "b", ":.x:a", ":.x:c")
TEXTS = ('"int"', '"long"', '"string"', '"bytes"')
subjects = st.sampled_from(SUBJECTS)
versions = st.one_of(st.just(LATEST), st.integers(1, 4))
references = st.tuples(st.sampled_from("mn"), st.sampled_from("ab"), versions).map(lambda parts: Reference(*parts))


def registration(parts: tuple[str, str, list[Reference], bool]) -> Submission:
    subject, text, referred, has_owner = parts
    metadata = {"properties": {"owner": "ann"}} if has_owner else None
    return Submission(subject, text, references=tuple(referred), metadata=metadata)


def imported(parts: tuple[str, str, int, int | None]) -> Submission:
    subject, text, number, version = parts
    return Submission(subject, text, id=number, version=version)


registrations = st.tuples(subjects, st.sampled_from(TEXTS), st.lists(references, max_size=1), st.booleans()).map(
    registration
)
imports = st.tuples(subjects, st.sampled_from(TEXTS), st.integers(1, 9), st.one_of(st.none(), st.integers(1, 4))).map(
    imported
)
requests = st.one_of(
    st.tuples(st.just("register"), registrations),
    st.tuples(st.just("register"), registrations),
    st.tuples(st.just("register"), imports),
    st.tuples(st.just("delete version"), st.tuples(subjects, versions, st.booleans())),
    st.tuples(st.just("delete subject"), st.tuples(subjects, st.booleans())),
    st.tuples(
        st.just("mode"), st.tuples(st.one_of(st.none(), subjects), st.sampled_from(("READONLY", "IMPORT", None)))
    ),
    st.tuples(st.just("config"), st.tuples(st.one_of(st.none(), subjects), st.sampled_from(("NONE", "FULL", None)))),
    st.tuples(st.just("take over"), st.none()),
)


class World:
    """A state with the log of all that was decided, and the answers to registrations."""

    def __init__(self) -> None:
        self.state = RegistryState()
        self.log: list[Stored] = []
        self.given: dict[tuple[str, int], Any] = {}
        """The content of each id that was ever answered."""

    def run(self, kind: str, about: Any) -> None:
        with contextlib.suppress(Refusal):
            self._run(kind, about)

    def _run(self, kind: str, about: Any) -> None:
        state = self.state
        match kind:
            case "register":
                prepared = prepare(state, about)
                record = take(state, register(state, prepared, Judged(about.text, ())), self.log)
                key = context_of(record.subject), record.id
                assert self.given.setdefault(key, content_of(record)) == content_of(record)
                assert state.record(record.subject, record.version) == record
            case "delete version":
                subject, version, permanent = about
                take(state, delete_version(state, subject, version, permanent=permanent), self.log)
            case "delete subject":
                subject, permanent = about
                take(state, delete_subject(state, subject, permanent=permanent), self.log)
            case "mode":
                subject, name = about
                decision = delete_mode(state, subject) if name is None else set_mode(state, subject, name, force=True)
                take(state, decision, self.log)
            case "config":
                subject, name = about
                changed = {"compatibility": name}
                decision = delete_config(state, subject) if name is None else set_config(state, subject, changed)
                take(state, decision, self.log)
            case "take over":
                # Another writer begins with a NOOP without a value.
                append(state, Record(NoopKey(), None), self.log)


def shown(state: RegistryState) -> Any:
    """All that requests can see."""
    return {
        "records": list(state.records()),
        "configs": state.configs,
        "modes": state.modes,
        "contexts": state.contexts,
        "by id": {
            (context, number): state.of_id(context, number) for context in state.contexts for number in range(15)
        },
        "ids": [
            (record.subject, state.id_of(context_of(record.subject), content_of(record))) for record in state.records()
        ],
        "guids": [state.of_guid(record.guid or "") for record in state.records()],
        "referrers": [state.referrers(record.subject, record.version) for record in state.records()],
    }


@given(st.lists(requests, max_size=25))
def test_replaying_the_records_gives_the_same_state(wanted: list[tuple[str, Any]]) -> None:
    world = World()
    for kind, about in wanted:
        world.run(kind, about)
    replayed = replayed_state(world.log)
    assert shown(replayed) == shown(world.state)
    assert replayed.highest_ids == world.state.highest_ids
    assert replayed.malformed == 0


@given(st.lists(requests, max_size=25))
def test_compaction_changes_nothing_that_can_be_seen(wanted: list[tuple[str, Any]]) -> None:
    world = World()
    for kind, about in wanted:
        world.run(kind, about)
    assert shown(replayed_state(compacted(world.log))) == shown(world.state)


AFTER_REMOVAL = [
    ("register", Submission("a", '"int"')),
    ("register", Submission("b", '"long"')),
    ("delete subject", ("b", False)),
    ("delete subject", ("b", True)),
    ("take over", None),
]
AFTER_REPLACEMENT = [
    ("register", Submission("a", '"int"')),
    ("register", Submission("b", '"long"')),
    ("delete subject", ("b", False)),
    ("mode", ("b", "IMPORT")),
    ("register", Submission("b", '"int"', id=1, version=1)),
]


@example(AFTER_REMOVAL, "a")
@example(AFTER_REPLACEMENT, "a")
@given(st.lists(requests, max_size=25), st.sampled_from(SUBJECTS))
def test_an_id_is_not_given_again_after_compaction_and_a_restart(wanted: list[tuple[str, Any]], subject: str) -> None:
    world = World()
    for kind, about in wanted:
        world.run(kind, about)
    context = context_of(subject)
    restarted = replayed_state(compacted(world.log))
    given_before = [number for other, number in world.given if other == context]
    assert restarted.next_id(context) > max(given_before, default=0)


@given(st.lists(requests, max_size=25))
def test_the_same_content_in_the_same_context_has_one_id_and_an_id_one_content(
    wanted: list[tuple[str, Any]],
) -> None:
    world = World()
    for kind, about in wanted:
        world.run(kind, about)
    for context in world.state.contexts:
        contents = {}
        for record in world.state.records():
            if context_of(record.subject) == context:
                assert contents.setdefault(record.id, content_of(record)) == content_of(record)
                known = world.state.id_of(context, content_of(record))
                assert known is not None
                assert next(content_of(one) for one in world.state.of_id(context, known)) == content_of(record)


@given(st.lists(requests, max_size=25), registrations)
def test_registering_again_returns_the_same_and_writes_nothing(
    wanted: list[tuple[str, Any]], submission: Submission
) -> None:
    world = World()
    for kind, about in wanted:
        world.run(kind, about)
    if any(reference.version == LATEST for reference in submission.references):
        return  # It may refer to its own subject, and to another version each time.
    try:
        first = take(world.state, register(world.state, prepare(world.state, submission), Judged(submission.text, ())))
    except Refusal:
        return
    again = register(world.state, prepare(world.state, submission), Judged(submission.text, ()))
    assert again.records == ()
    assert again.answer.id == first.id


@given(st.lists(requests, max_size=25), subjects, versions)
def test_a_version_that_others_refer_to_is_not_deleted(
    wanted: list[tuple[str, Any]], subject: str, version: int
) -> None:
    world = World()
    for kind, about in wanted:
        world.run(kind, about)
    try:
        decision = delete_version(world.state, subject, version, permanent=False)
    except Refusal:
        return
    assert world.state.referrers(subject, decision.answer) == []


@given(st.lists(requests, max_size=25), subjects, st.integers(1, 4))
def test_only_what_was_deleted_softly_is_deleted_for_good(
    wanted: list[tuple[str, Any]], subject: str, version: int
) -> None:
    world = World()
    for kind, about in wanted:
        world.run(kind, about)
    record = world.state.record(subject, version)
    try:
        delete_version(world.state, subject, version, permanent=True)
    except Refusal:
        return
    assert record is not None
    assert record.deleted
