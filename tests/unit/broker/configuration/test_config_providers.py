"""Values from local files and variables: what may be read, and that it is shown nowhere."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sordini.broker.configuration.config import SETTINGS, build_config
from sordini.broker.configuration.config_providers import DIRECTORY, FILE, FILE_BYTES_MAX, VARIABLES
from sordini.broker.configuration.dynamic import ConfigSource, DynamicConfig
from sordini.broker.configuration.edits import Edit, Operation, edit_broker, edit_topic
from sordini.broker.configuration.settings import ConfigError, Password, ProvidedText
from sordini.broker.process.config_loading import load_config, resolved

SECRET = "hush-hush"
Value = Callable[[str], str]


def given(tmp_path: Path, **others: str) -> dict[str, str]:
    """The three providers, which read below `tmp_path` and variables that begin with APP_."""
    return {
        "config.providers": "file, dir,env",
        "config.providers.file.class": FILE,
        "config.providers.file.param.allowed.paths": f"/nowhere,{tmp_path}",
        "config.providers.dir.class": DIRECTORY,
        "config.providers.dir.param.allowed.paths": str(tmp_path),
        "config.providers.env.class": VARIABLES,
        "config.providers.env.param.allowlist.pattern": "APP_.*",
        **{key.replace("_", "."): text for key, text in others.items()},
    }


def value(entries: dict[str, str], text: str, environment: dict[str, str] | None = None) -> str:
    return resolved({**entries, "key": text}, environment or {})["key"]


def test_a_reference_is_a_key_of_a_file_a_file_of_a_directory_or_a_variable(tmp_path: Path) -> None:
    (tmp_path / "secrets.properties").write_text(f"# comment\npassword={SECRET}\na:b=c\n")
    (tmp_path / "user").write_text("alice\n")
    entries = given(tmp_path)
    assert value(entries, f"${{file:{tmp_path}/secrets.properties:password}}") == SECRET
    assert value(entries, f"${{dir:{tmp_path}:user}}") == "alice\n"
    assert value(entries, "${env:APP_X}", {"APP_X": "7"}) == "7"
    both = f"u=${{dir:{tmp_path}:user}} p=${{env:APP_X}};"
    assert value(entries, both, {"APP_X": "7"}) == "u=alice\n p=7;"
    found = resolved({**entries, "a": "plain", "b": "${env:APP_X}"}, {"APP_X": "plain"})
    assert found == {"a": "plain", "b": "plain"}, "the keys of providers are not the broker's"
    assert [isinstance(one, ProvidedText) for one in found.values()] == [False, True]


def test_without_providers_nothing_is_a_reference(tmp_path: Path) -> None:
    text = f"${{file:{tmp_path}/x:y}}"
    assert resolved({"key": text}, {}) == {"key": text}


def test_what_was_read_is_no_reference_itself(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("${env:APP_X}")
    assert value(given(tmp_path), f"${{dir:{tmp_path}:x}}", {"APP_X": SECRET}) == "${env:APP_X}"


def refusal(entries: dict[str, str], text: str, environment: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as refused:
        value(entries, text, environment)
    assert SECRET not in str(refused.value)
    assert str(refused.value).startswith("key refers to ")
    return str(refused.value)


def test_nothing_is_readable_by_default(tmp_path: Path) -> None:
    (tmp_path / "x").write_text(f"k={SECRET}")
    entries = given(tmp_path)
    for parameter in [key for key in entries if ".param." in key]:
        for other in ({parameter: ""}, {parameter: " , "} if "paths" in parameter else {}):
            closed = {key: text for key, text in entries.items() if key != parameter} | other
            if "env" in parameter:
                assert parameter in refusal(closed, "${env:APP_X}", {"APP_X": SECRET})
            else:
                name = parameter.split(".")[2]
                text = f"${{file:{tmp_path}/x:k}}" if name == "file" else f"${{dir:{tmp_path}:x}}"
                assert f"the file is not below a path of {parameter}" in refusal(closed, text)


def test_links_are_followed_before_it_is_checked_where_they_lead(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "x").write_text(f"k={SECRET}")
    (inside / "x").write_text("k=v")
    (inside / "link").symlink_to(outside / "x")
    (inside / "folder").symlink_to(outside)
    (outside / "back").symlink_to(inside / "x")
    (inside / "loop").symlink_to(inside / "loop")
    entries = given(inside)
    for path in (f"{inside}/link", f"{inside}/folder/x", f"{inside}/../outside/x", f"{outside}/x", f"{inside}-else"):
        assert "is not below" in refusal(entries, f"${{file:{path}:k}}") or not Path(path).exists()
    assert "is not below" in refusal(entries, f"${{dir:{inside}:link}}")
    assert value(entries, f"${{file:{outside}/back:k}}") == "v"
    refusal(entries, f"${{file:{inside}/loop:k}}")
    entries["config.providers.file.param.allowed.paths"] = str(inside / "x")
    assert value(entries, f"${{file:{inside}/x:k}}") == "v"


def test_a_path_that_only_begins_like_an_allowed_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "ab").write_text(f"k={SECRET}")
    assert "is not below" in refusal(given(tmp_path / "a"), f"${{file:{tmp_path}/ab:k}}")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x"])
def test_a_file_of_a_directory_is_named_without_its_path(name: str, tmp_path: Path) -> None:
    assert "the name of a file in it" in refusal(given(tmp_path), f"${{dir:{tmp_path}:{name}}}")


def test_what_cannot_be_read_refuses_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"k=" + bytes(FILE_BYTES_MAX))
    (tmp_path / "binary").write_bytes(b"k=\xff")
    (tmp_path / "broken").write_text(f"={SECRET}\n")
    (tmp_path / "x").write_text("k=v")
    os.mkfifo(tmp_path / "pipe")
    entries = given(tmp_path)
    for name, words in (
        ("large", f"more than {FILE_BYTES_MAX} bytes"),
        ("binary", "not UTF-8"),
        ("broken", "a line without a key"),
        ("none", "No such file"),
        ("pipe", "no regular file"),
        ("x", "no such key"),
    ):
        assert words in refusal(entries, f"${{file:{tmp_path}/{name}:other}}")
    assert "absolute path" in refusal(entries, "${file:x:k}")
    assert "not allowed by" in refusal(entries, "${env:HOME}", {"HOME": SECRET})
    assert "not allowed by" in refusal(entries, "${env:MY_APP_X}", {"MY_APP_X": SECRET})
    assert "no such variable" in refusal(entries, "${env:APP_Y}")
    assert "a name and no path" in refusal(entries, "${env:/x:APP_Y}")
    assert "which is not in config.providers (file, dir, env)" in refusal(entries, "${vault:x:y}")


def test_only_three_classes_are_known_and_none_is_loaded(tmp_path: Path) -> None:
    for entries in (
        {"config.providers": "x"},
        {"config.providers": "x", "config.providers.x.class": "com.example.VaultConfigProvider"},
        {"config.providers.file.class": FILE},
        given(tmp_path) | {"config.providers.file.param.allowed.path": "/"},
        given(tmp_path) | {"config.providers.env.param.allowed.paths": "/"},
        given(tmp_path) | {"config.providers.env.param.allowlist.pattern": "("},
    ):
        with pytest.raises(
            ConfigError, match=r"^config\.providers\.\S+ (is not known|is no regular)|allowed is one of"
        ):
            resolved(entries, {})


def refusal_of(entries: dict[str, str]) -> str:
    """The text of the error that a configuration makes; empty for a valid one."""
    try:
        load_config(entries)
    except ConfigError as refused:
        return str(refused)
    return ""


@pytest.mark.parametrize("key", [key for key, (_, one) in SETTINGS.items() if one.rule.kind.name != "STRING"])
def test_no_error_shows_a_value_that_was_read(key: str) -> None:
    for text in (SECRET, f"PLAINTEXT://{SECRET}:1", f"{SECRET},{SECRET}"):
        assert SECRET not in refusal_of({key: ProvidedText(text)})


@pytest.mark.parametrize("key", ["listeners", "zookeeper.set.acl", "quota.producer.default", "log.cleanup.policy"])
def test_an_error_names_the_key_of_a_value_that_was_read(key: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{key}=\(hidden\)"):
        load_config({key: ProvidedText(SECRET)})
    with pytest.raises(ConfigError, match=r"^broker.id=\(hidden\) is not valid"):
        load_config({"broker.id": ProvidedText("1001")})


def test_values_of_the_wire_and_of_the_store_are_no_references(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("k=1000")
    text = f"${{file:{tmp_path}/x:k}}"
    static, _ = build_config(resolved({**given(tmp_path), "log.retention.ms": text}, {}))
    assert static.log_retention_ms == 1000
    dynamic = DynamicConfig(static)
    for source in (ConfigSource.DYNAMIC_BROKER, ConfigSource.DYNAMIC_DEFAULT_BROKER):
        ignored = dynamic.set_layer(source, {"log.retention.ms": text, "message.max.bytes": text})
        assert {entry.key for entry in ignored} == {"log.retention.ms", "message.max.bytes"}
    assert dynamic.config.log_retention_ms == 1000
    assert edit_broker({}, [Edit("nobodys.entry", Operation.SET, text)], is_default=True) == {"nobodys.entry": text}
    for edit in (edit_topic, lambda entries, edits: edit_broker(entries, edits, is_default=True)):
        with pytest.raises(Exception, match=r"is not valid: allowed is"):
            edit({}, [Edit("min.insync.replicas", Operation.SET, text)])


def test_a_password_that_was_read_is_a_password() -> None:
    config = load_config({"ssl.keystore.password": ProvidedText(SECRET)}).config
    assert config.ssl_keystore_password == Password(SECRET)
    assert config.provided_keys == {"ssl.keystore.password"}
    assert SECRET not in repr(config)
