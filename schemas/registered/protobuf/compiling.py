"""A schema of Protobuf, compiled with its imports: references by their names, and files of Google's."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from sordini.schemas.codecs import MissingLibrary, SchemaError
from sordini.schemas.protoc import compiled
from sordini.schemas.registered.types import InvalidSchema

COMPILE_SECONDS_MAX: Final = 20.0
NAME_CHARACTERS_MAX: Final = 200
ERROR_CHARACTERS_MAX: Final = 1_000


def compile_schema(text: str, referenced: Mapping[str, str]) -> tuple[Any, str]:
    """A set of descriptors, and the name of the schema's own file in it. Raises InvalidSchema."""
    name = _free_name(referenced)
    with tempfile.TemporaryDirectory(prefix="sordini-schema-") as directory:
        folder = Path(directory)
        for other, source in {**referenced, name: text}.items():
            _write(folder, other, source)
        try:
            return compiled(folder, name, COMPILE_SECONDS_MAX), name
        except MissingLibrary:
            raise
        except SchemaError as error:
            reason = str(error).replace(f"{directory}/", "")
            raise InvalidSchema(reason[:ERROR_CHARACTERS_MAX]) from None


def _free_name(referenced: Mapping[str, str]) -> str:
    """What no reference is called, so that none can import the schema itself."""
    names = ("default.proto", *(f"default{number}.proto" for number in range(len(referenced))))
    return next(name for name in names if name not in referenced)


def _write(folder: Path, name: str, text: str) -> None:
    path = PurePosixPath(name)
    is_plain = name == str(path) and not path.is_absolute() and name.isprintable()
    if not is_plain or not path.parts or ".." in path.parts or "\\" in name or len(name) > NAME_CHARACTERS_MAX:
        raise InvalidSchema(f"a reference is called {name[:NAME_CHARACTERS_MAX]!r}, which no file can be imported as")
    target = folder / path
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    except UnicodeEncodeError:
        raise InvalidSchema("half of a surrogate pair in it") from None
    except (FileExistsError, NotADirectoryError, IsADirectoryError):
        raise InvalidSchema(f"the reference {name!r} is both a file and a folder of others") from None
