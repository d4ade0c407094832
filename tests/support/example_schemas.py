"""The schemas of the examples' events, by name."""

from __future__ import annotations

from typing import Final

from sordini.pipeline.jobs.job_file_schema import schema_of_file
from tests.outside.needs import ROOT

FOLDER: Final = ROOT / "examples" / "schemas"
EXAMPLE_SCHEMAS: Final = {path.stem: schema_of_file(path.name, FOLDER) for path in sorted(FOLDER.iterdir())}
