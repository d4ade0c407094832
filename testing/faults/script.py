"""The rules of a site: `kafka.on("Produce", topic="orders", times=2).fail("NOT_ENOUGH_REPLICAS")`.

Rules are tried in the order in which they were made; the first that selects a request and is not used up acts on it,
and no other. A rule is undone at the end of its `with` block, or by `undo`, and all are when the site is reset.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from sordini.protocol.errors import ErrorCode
from sordini.testing.arguments import ArgumentRefused, flag, number
from sordini.testing.faults.carrying import Release
from sordini.testing.faults.mentions import NameOf
from sordini.testing.faults.names import CodeName, code_of
from sordini.testing.faults.selection import Selection

if TYPE_CHECKING:
    from sordini.protocol.api_keys import ApiKey


REMOVED_MAX: Final = 1_000
"""Rules that were undone; the oldest are forgotten."""
DELAY_MS_MAX: Final = 86_400_000
ACTIONS: Final = "fail, delay, hold, drop_answer, drop_request, close_connection, corrupt"


class Kind(Enum):
    """What a rule does."""

    FAIL = "fails"
    DELAY = "is delayed"
    HOLD = "is held"
    DROP = "is lost"
    CLOSE = "closes its connection"
    CORRUPT = "is damaged"


class RuleBook(Protocol):
    """Where rules are put in force: the brokers' script, or that of a cluster in another process."""

    @property
    def rules(self) -> list[Rule]:
        """Those in force."""

    @property
    def removed(self) -> list[Rule]:
        """Rules that were undone since `clear`: the report of a failure names them, too."""

    def add(self, rule: Rule) -> None: ...

    def remove(self, rule: Rule) -> None:
        """Undo a rule, and let go what it holds. No error for one that is not in force."""

    def release(self, rule: Rule) -> None:
        """Let go what a rule holds, now and from now on."""

    def used(self, rule: Rule) -> int:
        """How many requests a rule has acted on."""

    def clear(self) -> None:
        """Undo all rules, and forget them."""


class Rule:
    """What is done to the requests of a selection. One of the methods chooses it; a rule without it is a mistake."""

    def __init__(
        self, script: RuleBook, selection: Selection, times: int | None = None, after: int = 0, made_at: str = ""
    ) -> None:
        """`made_at` is the place in the test's code. What is given was checked: see `validation.py`."""
        self.selection = selection
        self.times = times
        """How many requests it is for at most; None: all."""
        self.after = after
        """So many requests of the selection pass first."""
        self.kind: Kind | None = None
        self.code = ErrorCode.NONE
        self.delay_ms = 0.0
        self.is_before = False
        """Whether it acts before the request is handled: nothing is done by the broker then, or not yet."""
        self.released = Release()
        self.taken = 0
        """How many requests it is known to have acted on; `used` says it wherever the brokers are."""
        self.passed = 0
        self.mistake: Exception | None = None
        """What `when` has raised first, until `check` raises it."""
        self.made_at = made_at
        self._script = script

    @property
    def used(self) -> int:
        """How many requests it has acted on."""
        return self._script.used(self)

    def fail(self, code: CodeName) -> Self:
        """Answer with an error code; the broker does nothing. Of several topics, only the selected ones fail."""
        self.code = code_of(code)
        return self._chosen(Kind.FAIL, is_before=True)

    def delay(self, ms: float, *, before: bool = False) -> Self:
        """Send the response so much later; with `before` the request is handled so much later."""
        self.delay_ms = number("ms", ms, 0, DELAY_MS_MAX)
        return self._chosen(Kind.DELAY, is_before=before)

    def hold(self, *, before: bool = False) -> Self:
        """Keep the response until `release`; with `before` the request is handled only then."""
        return self._chosen(Kind.HOLD, is_before=before)

    def release(self) -> None:
        """Let go what `hold` keeps, now and from now on. Raises ValueError for a rule that does not hold."""
        if self.kind is not Kind.HOLD:
            raise ArgumentRefused("release", self.text(), "a rule that holds", f"nothing is held: {self.text()}")
        self._script.release(self)

    def drop_answer(self) -> Self:
        """Handle the request and never answer it. Responses behind it on its connection do not arrive either."""
        return self._chosen(Kind.DROP, is_before=False)

    def drop_request(self) -> Self:
        """Neither handle the request nor answer it."""
        return self._chosen(Kind.DROP, is_before=True)

    def close_connection(self, *, after: bool = False) -> Self:
        """Close the connection instead of handling the request; with `after` it was handled, and is not answered."""
        flag("after", after)
        return self._chosen(Kind.CLOSE, is_before=not after)

    def corrupt(self) -> Self:
        """Damage the response: two bits of its body are flipped."""
        return self._chosen(Kind.CORRUPT, is_before=False)

    def undo(self) -> None:
        """Remove the rule, and let go what it holds."""
        self._script.remove(self)

    def check(self) -> None:
        """Raise what `when` has raised, once; and ValueError for a rule that does nothing."""
        mistake, self.mistake = self.mistake, None
        if mistake is not None:
            raise mistake
        if self.kind is None:
            where = f"{self.made_at}: " if self.made_at else ""
            why = f"{where}the rule for {self.selection.text()} does nothing: choose one of {ACTIONS}"
            raise ArgumentRefused("on", self.selection.text(), ACTIONS, why)

    def __enter__(self) -> Self:
        self.check()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo()
        if error is None or isinstance(error, Exception):
            self.check()  # The block may have failed because the rule did not act.

    def text(self) -> str:
        """As it is shown: `Produce of topic orders fails with NOT_ENOUGH_REPLICAS`."""
        if self.kind is None:
            return f"{self.selection.text()}: nothing was chosen"
        said = self.kind.value
        if self.kind is Kind.FAIL:
            said += f" with {self.code.name}"
        if self.kind is Kind.DELAY:
            said += f" by {self.delay_ms:g} ms"
        if self.is_before and self.kind is not Kind.FAIL:
            said += " before it is handled"
        return f"{self.selection.text()} {said}"

    def use(self) -> str:
        """How often it was used: `used 2 of 2 times`."""
        return f"used {self.used}{'' if self.times is None else f' of {self.times}'} times"

    def _chosen(self, kind: Kind, *, is_before: bool) -> Self:
        flag("before", is_before)
        if self.kind is not None:
            raise ValueError(f"this rule {self.kind.value} already: make another one with `on`")
        self.kind, self.is_before = kind, is_before
        self._script.add(self)
        return self

    def takes(self, is_selected: Callable[[Selection], bool], body: Any) -> bool:
        """Whether it acts on a request, which is counted."""
        if (self.times is not None and self.taken >= self.times) or not is_selected(self.selection):
            return False
        if not self._holds(body):
            return False
        if self.passed < self.after:
            self.passed += 1
            return False
        self.taken += 1
        return True

    def _holds(self, body: Any) -> bool:
        """What `when` says. When it fails, the request is none of the rule's, and `check` raises it in the test."""
        when = self.selection.when
        if when is None:
            return True
        try:
            return bool(when(body))
        except Exception as error:  # noqa: BLE001 - it is the test's, and raised there.
            if self.mistake is None:
                trace = error.__traceback__
                # Its first frame is this one: what is left begins where `when` was written.
                self.mistake = error.with_traceback(None if trace is None else trace.tb_next)
            return False


class Script:
    """The rules of a site. Brokers ask it for each request, on their loop."""

    def __init__(self, on_loop: Callable[[Callable[[], None]], None]) -> None:
        """`on_loop` calls a function on the brokers' loop and waits for it."""
        self._on_loop = on_loop
        self._rules: list[Rule] = []
        self._removed: deque[Rule] = deque(maxlen=REMOVED_MAX)

    @property
    def rules(self) -> list[Rule]:
        """Those in force."""
        return list(self._rules)

    @property
    def removed(self) -> list[Rule]:
        """As `RuleBook.removed`."""
        return list(self._removed)

    def add(self, rule: Rule) -> None:
        self._on_loop(lambda: self._rules.append(rule))

    def remove(self, rule: Rule) -> None:
        def removed() -> None:
            if rule in self._rules:
                self._rules.remove(rule)
                self._removed.append(rule)
            rule.released.open()

        self._on_loop(removed)

    def release(self, rule: Rule) -> None:
        self._on_loop(rule.released.open)

    def used(self, rule: Rule) -> int:
        return rule.taken

    def clear(self) -> None:
        """Undo all rules, and forget them."""
        for rule in self.rules:
            self.remove(rule)
        self._removed.clear()

    def take(self, api: ApiKey, body: Any, client_id: str | None, broker: int, name_of: NameOf) -> Rule | None:
        """The rule that acts on a request, if one does."""
        for rule in self._rules:
            if rule.takes(lambda selection: selection.is_for(api, body, client_id, broker, name_of), body):
                return rule
        return None
