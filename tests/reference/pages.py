"""Which pages are written from the code, and what writes each."""

from collections.abc import Callable
from pathlib import Path

from tests.reference import commands, configuration, doctor_page, security_rules

ROOT = Path(__file__).parents[2]

PAGES: dict[str, Callable[[], str]] = {
    "config/server.properties": configuration.properties,
    "docs/configuration.md": configuration.page,
    "docs/commands.md": commands.page,
    "docs/doctor.md": doctor_page.page,
    "docs/security.md": security_rules.page,
}
"""By the path below the repository; one function without arguments each, which gives the whole text."""
