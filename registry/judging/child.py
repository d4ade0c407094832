"""The child process that parses and compares schemas: a line of JSON in, a line of JSON out (`wire.py`).

While it has nothing to do it loads the libraries of all kinds of schemas, since the first schema of a kind would wait
for them.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import signal
import sys
import traceback
from typing import Any, Final

from sordini.registry.judging.wire import judged_as_wire, task_from_wire
from sordini.registry.schema_rules import judge
from sordini.schemas.codecs import SchemaError
from sordini.schemas.protoc import compile_here
from sordini.schemas.unused_libraries import leave_out_unused
from sordini.system.processes import limit_address_space

LIBRARIES: Final = (
    "sordini.schemas.registered.avro.parsed",
    "sordini.schemas.registered.json.parsed",
    "sordini.schemas.registered.protobuf.parsed",
    "grpc_tools.protoc",
)
MEMORY_BYTES_MAX: Final = 1024 * 1024 * 1024
"""Of address space."""


def answer(line: bytes) -> dict[str, Any]:
    """What comes of one schema."""
    try:
        return judged_as_wire(judge(task_from_wire(json.loads(line))))
    except SchemaError as error:
        return {"invalid": f"Invalid schema: {error}"}
    except (MemoryError, RecursionError):
        return {"invalid": "Invalid schema: it is beyond the limits of depth and memory"}
    except Exception:  # noqa: BLE001 - sent to the registry, which reports it.
        return {"bug": traceback.format_exc(limit=-3)}


def load_libraries() -> None:
    """Those that are installed, until there is something to do."""
    for name in LIBRARIES:
        if select.select([sys.stdin], [], [], 0)[0]:
            return
        with contextlib.suppress(ImportError, SchemaError):
            importlib.import_module(name)


def main() -> None:
    # Ctrl-C at the terminal reaches this process, too; the registry handles it and ends its children.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    limit_address_space(MEMORY_BYTES_MAX)
    compile_here()
    leave_out_unused()
    # What libraries print must not be between the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    load_libraries()
    for line in sys.stdin.buffer:
        answers.write(json.dumps(answer(line)).encode() + b"\n")
        answers.flush()


if __name__ == "__main__":
    main()
