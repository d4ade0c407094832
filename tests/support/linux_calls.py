"""A mark for tests of a call that only Linux has: with SORDINI_PORTABLE=1 it is not used (`make portable`)."""

from __future__ import annotations

import pytest

from sordini.system.linux import SWITCH, USES_LINUX_CALLS

needs_linux_calls = pytest.mark.skipif(not USES_LINUX_CALLS, reason=f"only Linux has the call, and {SWITCH} is set")
