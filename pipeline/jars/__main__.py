"""`python -m sordini.pipeline.jars FOLDER`: bring the locked jars, and print what `spark.jars` takes."""

from __future__ import annotations

import sys
from pathlib import Path

from sordini.pipeline.errors import PipelineError
from sordini.pipeline.jars.fetching import fetch, repository


def main(arguments: list[str]) -> None:
    if len(arguments) != 1:
        sys.exit("usage: python -m sordini.pipeline.jars FOLDER")
    try:
        paths = fetch(Path(arguments[0]), repository())
    except PipelineError as wrong:
        sys.exit(str(wrong))
    sys.stdout.write(",".join(str(path.resolve()) for path in paths) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
