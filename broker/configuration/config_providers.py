"""Values that are read from local files and variables when a configuration is loaded (KIP-297, KIP-421, KIP-632).

    config.providers=file
    config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
    config.providers.file.param.allowed.paths=/run/secrets
    ssl.keystore.password=${file:/run/secrets/tls.properties:password}

    ${file:PATH:KEY}   a key of a properties file      ${dir:DIRECTORY:NAME}   a file      ${env:NAME}   a variable

Only what is given to a process at its start is resolved: its file, its variables, its overrides, and the files of
commands. Values from the wire and from the coordination store never are (CVE-2024-31141). Nothing is readable by
default, which Apache Kafka's providers are: `allowed.paths` names the files and directories, and `allowlist.pattern`
the variables. Links are followed before that is checked. No class is loaded: three names are known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from sordini.broker.configuration.properties_file import read_properties
from sordini.broker.configuration.settings import ConfigError, ProvidedText
from sordini.system.named_tuple import NamedTuple

KEY: Final = "config.providers"
FILE, DIRECTORY, VARIABLES = (
    f"org.apache.kafka.common.config.provider.{name}"
    for name in ("FileConfigProvider", "DirectoryConfigProvider", "EnvVarConfigProvider")
)
_PARAMETERS: Final = {FILE: "allowed.paths", DIRECTORY: "allowed.paths", VARIABLES: "allowlist.pattern"}
FILE_BYTES_MAX: Final = 1024 * 1024
_REFERENCE: Final = re.compile(r"\$\{([\w.-]+):(?:([^}:]*):)?([^}]*)\}")

ReadSome = Callable[[str, int], bytes]
"""At most so many bytes of a regular file; raises OSError."""


class Provider(NamedTuple):
    """One provider: its class, and what it may read."""

    name: str
    kind: str
    allowed: str
    """Paths, comma-separated, or a pattern of names."""


class ProviderSources(NamedTuple):
    """Where values come from."""

    read: ReadSome
    environment: Mapping[str, str]


def resolve_providers(entries: Mapping[str, str], sources: ProviderSources) -> dict[str, str]:
    """The entries with their references resolved, and without the keys of providers.

    A value that has been resolved is a `ProvidedText`. Without `config.providers` nothing is a reference. Raises
    ConfigError, which shows no value that was read.
    """
    providers = _providers(entries)
    resolved = {key: text for key, text in entries.items() if key != KEY and not key.startswith(f"{KEY}.")}
    if not providers:
        return resolved
    for key, text in resolved.items():
        # One pass: what was read is no reference itself.
        changed = _REFERENCE.sub(lambda match, key=key: _value(key, match, providers, sources), text)  # type: ignore[misc]
        if changed != text or _REFERENCE.search(text):
            resolved[key] = ProvidedText(changed)
    return resolved


def _providers(entries: Mapping[str, str]) -> dict[str, Provider]:
    names = [name.strip() for name in entries.get(KEY, "").split(",") if name.strip()]
    expected = {KEY}
    found = {}
    for name in names:
        class_key = f"{KEY}.{name}.class"
        kind = entries.get(class_key, "").strip()
        if kind not in _PARAMETERS:
            raise ConfigError(f"{class_key}={kind!r} is not valid: allowed is one of {', '.join(_PARAMETERS)}")
        parameter = f"{KEY}.{name}.param.{_PARAMETERS[kind]}"
        found[name] = Provider(name, kind, entries.get(parameter, "").strip())
        expected |= {class_key, parameter}
        if kind == VARIABLES:
            _pattern(found[name])
    for key in entries:
        if key.startswith(f"{KEY}.") and key not in expected:
            raise ConfigError(
                f"{key} is not known: allowed are, for each name in {KEY}, its .class, .param.allowed.paths of files "
                "and directories, and .param.allowlist.pattern of variables"
            )
    return found


def _value(key: str, match: re.Match[str], providers: Mapping[str, Provider], sources: ProviderSources) -> str:
    name, path, item = match[1], match[2] or "", match[3]
    provider = providers.get(name)
    if provider is None:
        raise ConfigError(f"{key} refers to the provider {name!r}, which is not in {KEY} ({', '.join(providers)})")
    try:
        if provider.kind == VARIABLES:
            return _variable(provider, path, item, sources.environment)
        if provider.kind == DIRECTORY:
            if not path or not item or "/" in item or item in (".", ".."):
                raise ConfigError("allowed is a directory and the name of a file in it")
            return _read(provider, f"{path}/{item}", sources)
        return _of_properties(provider, path, item, sources)
    except ConfigError as error:
        raise ConfigError(f"{key} refers to {match[0]}: {error}") from None


def _variable(provider: Provider, path: str, name: str, environment: Mapping[str, str]) -> str:
    if path:
        raise ConfigError("a variable has a name and no path")
    # Without a pattern: that of the empty name.
    if _pattern(provider).fullmatch(name) is None:
        raise ConfigError(f"the variable is not allowed by {KEY}.{provider.name}.param.allowlist.pattern")
    if name not in environment:
        raise ConfigError("there is no such variable")
    return environment[name]


def _pattern(provider: Provider) -> re.Pattern[str]:
    try:
        return re.compile(provider.allowed)
    except re.error:
        raise ConfigError(
            f"{KEY}.{provider.name}.param.allowlist.pattern={provider.allowed!r} is no regular expression"
        ) from None


def _of_properties(provider: Provider, path: str, key: str, sources: ProviderSources) -> str:
    text = _read(provider, path, sources)
    try:
        found = read_properties(text)
    except ConfigError:
        raise ConfigError("the file has a line without a key") from None  # The line may be a secret.
    if key not in found:
        raise ConfigError("the file has no such key")
    return found[key]


def _read(provider: Provider, path: str, sources: ProviderSources) -> str:
    """The text of a file that is allowed."""
    parameter = f"{KEY}.{provider.name}.param.allowed.paths"
    if not path.startswith("/"):
        raise ConfigError("allowed is an absolute path")
    try:
        from pathlib import Path  # Late: a start without such a provider does not need it.

        real = Path(path).resolve(strict=True)
        allowed = [Path(one.strip()).resolve() for one in provider.allowed.split(",") if one.strip().startswith("/")]
        if not any(real == one or one in real.parents for one in allowed):
            raise ConfigError(f"the file is not below a path of {parameter}")
        data = sources.read(str(real), FILE_BYTES_MAX + 1)
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links.
        raise ConfigError(getattr(error, "strerror", None) or "it cannot be read") from None
    if len(data) > FILE_BYTES_MAX:
        raise ConfigError(f"the file has more than {FILE_BYTES_MAX} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ConfigError("the file is not UTF-8") from None
