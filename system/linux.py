"""Whether the calls that only Linux has are used. The modules beside this one have each of them with its portable way.

The decision is made once, when this module is imported. `SORDINI_PORTABLE=1` in the environment forces the portable
ways, so that tests run over them where the others exist. It is a switch for tests: it makes nothing better or safer.

`tests/test_tidy.py` has the names of such calls, and refuses them elsewhere.
"""

from __future__ import annotations

import os
import sys
from typing import Final

SWITCH: Final = "SORDINI_PORTABLE"

USES_LINUX_CALLS: Final = sys.platform.startswith("linux") and os.environ.get(SWITCH, "") in ("", "0")
