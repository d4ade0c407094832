"""A program: the commands that standard input names, one JSON array of arguments on each line, in one process.

A line `== [arguments]` on standard output goes before each, and `-- status` behind it.
"""

from __future__ import annotations

import json
import sys

from sordini.cli.__main__ import main


def run() -> None:
    for line in json.loads(sys.argv[1]):
        sys.stdout.write(f"== {json.dumps(line)}\n")
        sys.stdout.flush()
        status: object = 0
        try:
            main(line, prog_name="sordini")
        except SystemExit as ended:
            status = ended.code
        sys.stdout.write(f"-- {status}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    run()
