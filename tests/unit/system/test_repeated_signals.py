"""Which signals are one request to stop."""

from __future__ import annotations

import pytest

from sordini.system.processes import SIGNALS_TOGETHER_MS, is_repeated


@pytest.mark.parametrize(
    ("later_ms", "repeats"), [(0, True), (SIGNALS_TOGETHER_MS - 1, True), (SIGNALS_TOGETHER_MS, False), (60_000, False)]
)
def test_a_signal_shortly_after_the_first_repeats_it(later_ms: int, repeats: bool) -> None:
    assert is_repeated(1_000_000, 1_000_000 + later_ms) is repeats
