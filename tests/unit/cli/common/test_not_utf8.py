"""Files that are not UTF-8, given to commands: the line is named, and no more of it is shown than one byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from sordini.admin.failure import Failure
from sordini.broker.configuration.properties_file import decode_properties
from sordini.broker.configuration.settings import ConfigError
from sordini.broker.process.config_loading import read_entries
from sordini.cli.common.input_files import read_text
from sordini.cli.common.security_file import read_client_security
from sordini.cli.common.settings_tree import SettingsFileError, read_tree

LATIN = "# one\nkey=1\n# caf\xe9 secret\n".encode("latin-1")
NAMED = "line 3 is not UTF-8: it has the byte 0xe9"


def test_every_reader_of_a_file_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "latin.properties"
    path.write_bytes(LATIN)
    said = []
    for read, error in (
        (lambda: read_entries(str(path), (), {}), ConfigError),
        (lambda: read_client_security(str(path)), ConfigError),
        (lambda: read_text(str(path)), Failure),
        (lambda: read_tree(path), SettingsFileError),
    ):
        with pytest.raises(error) as refused:
            read()
        said.append(str(refused.value))
    assert [text.endswith(NAMED) for text in said] == [True] * 4, said
    assert "secret" not in "".join(said)


def test_a_file_of_an_editor_of_windows_is_read() -> None:
    assert decode_properties(b"\xef\xbb\xbfnode.id=1\r\n") == "node.id=1\r\n"
    with pytest.raises(ConfigError, match="the file is UTF-16: save it as UTF-8"):
        decode_properties("a=1".encode("utf-16"))
