"""The file of `--command-config`: a properties file as Apache Kafka's tools take it, with the stores that it names.

It is read with the rules of a broker's configuration: config providers, and the keys `ssl.*`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from sordini.broker.configuration.keys.security_keys import SecuritySettings
from sordini.broker.configuration.properties_file import decode_properties, read_properties
from sordini.broker.configuration.settings import ConfigError, settings_of
from sordini.broker.process.config_loading import resolved, without_provided
from sordini.broker.security.tls.material import client_context_of
from sordini.client.security import ClientSecurity, security_of
from sordini.storage.disk import SystemDisk

if TYPE_CHECKING:
    from sordini.client.tls.contexts import Context


def read_client_security(path: str, *, has_login: bool = True) -> ClientSecurity:
    """Read a properties file and the stores that it names; without `has_login` its name and password are not read.

    Raises ConfigError, and OSError for the file itself.
    """
    disk = SystemDisk()
    entries = resolved(read_properties(decode_properties(disk.read(path))), os.environ)

    def context_of(given: Mapping[str, str]) -> Context:
        keys = settings_of(SecuritySettings)
        values = {
            keys[key][0]: keys[key][1].rule.read(key, text)
            for key, text in given.items()
            if key in keys and key.startswith("ssl.")
        }
        return client_context_of(SecuritySettings(**values), disk.read)

    try:
        return security_of(entries, disk.read, context_of, has_login=has_login)
    except ValueError as error:
        raise without_provided(ConfigError(str(error)), entries) from None
