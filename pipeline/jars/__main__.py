"""`python -m sordini.pipeline.jars FOLDER`: as `sordini pipeline jars FOLDER`."""

from __future__ import annotations

from sordini.pipeline.cli.jars import jars

if __name__ == "__main__":
    jars()
