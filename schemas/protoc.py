"""Google's compiler of .proto files.

It writes its errors to standard error, so it is in a process of its own. A process that does nothing else, and whose
end harms nothing, calls `compile_here()`: no process is started for each schema then, and none is left behind when that
process is killed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from sordini.schemas.codecs import MissingLibrary, SchemaError
from sordini.system.named_tuple import NamedTuple

_NOISE = re.compile(r".*RuntimeWarning|WARNING: All log messages|[IW]\d{4} ")
"""Of the interpreter, and of the compiler's library for logs."""
_STANDARD_ERROR: Final = 2


def compiled(folder: Path, file_name: str, seconds_max: float) -> Any:
    """The descriptors (`FileDescriptorSet`) of a file in `folder` and of all that it imports from there.

    Google's own files are found without being there. Raises SchemaError, whose text is the compiler's.
    """
    try:
        from grpc_tools import protoc as _  # noqa: F401 - only whether it is there.
    except ImportError:
        raise MissingLibrary("a .proto file", "grpcio-tools") from None
    import grpc_tools
    from google.protobuf import descriptor_pb2

    includes = Path(grpc_tools.__file__).parent / "_proto"
    with tempfile.TemporaryDirectory(prefix="sordini-protoc-") as directory:
        target = Path(directory) / "descriptors"
        arguments = [f"-I{folder}", f"-I{includes}", "--include_imports", f"--descriptor_set_out={target}", file_name]
        done = _run(arguments, seconds_max)
        if done.returncode:
            errors = done.stderr.decode(errors="replace").splitlines()
            lines = [line for line in errors if not _NOISE.match(line)]
            raise SchemaError("; ".join(lines) or "the compiler failed")
        read = descriptor_pb2.FileDescriptorSet()
        read.ParseFromString(target.read_bytes())
        return read


class _Done(NamedTuple):
    returncode: int
    stderr: bytes


def _in_a_process(arguments: Sequence[str], seconds_max: float) -> _Done:
    command = [sys.executable, "-m", "grpc_tools.protoc", *arguments]
    try:
        done = subprocess.run(  # noqa: S603 - our own interpreter, and a file's name as an argument.
            command, capture_output=True, timeout=seconds_max, check=False
        )
    except subprocess.TimeoutExpired:
        raise SchemaError(f"the compiler took longer than {seconds_max} s") from None
    return _Done(done.returncode, done.stderr)


def _here(arguments: Sequence[str], seconds_max: float) -> _Done:
    """Its time is limited by those who kill this process."""
    del seconds_max
    from grpc_tools import protoc

    kept = os.dup(_STANDARD_ERROR)
    with tempfile.TemporaryFile() as errors:
        os.dup2(errors.fileno(), _STANDARD_ERROR)
        try:
            code = protoc.main(["protoc", *arguments])
        finally:
            os.dup2(kept, _STANDARD_ERROR)
            os.close(kept)
        errors.seek(0)
        return _Done(code, errors.read())


_run: Callable[[Sequence[str], float], _Done] = _in_a_process


def compile_here() -> None:
    """Compile in this process from now on; meanwhile its standard error is the compiler's alone."""
    global _run  # noqa: PLW0603 - what a process is, is decided once, at its start.
    _run = _here
