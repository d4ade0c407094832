"""From the keys of ZooKeeper's protection to how it is reached: reads the stores and the password that they name.

Every error names the key and the file, and no secret.
"""

from __future__ import annotations

import os
import re
import stat
from typing import Final

from sordini.broker.configuration.keys.security_keys import SecuritySettings
from sordini.broker.configuration.keys.zookeeper_keys import ZooKeeperSettings, store_kind
from sordini.broker.configuration.settings import ConfigError
from sordini.broker.security.tls.material import client_context_of
from sordini.coordination_store.zookeeper_access import DigestLogin, ZooKeeperAccess
from sordini.storage.disk import Disk

PASSWORD_BYTES_MAX: Final = 1024
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_KEY: Final = re.compile(r"(?<![\w.])ssl\.(key\.password|[a-z.]+)")


def access_of(settings: ZooKeeperSettings, disk: Disk, root: str = "") -> ZooKeeperAccess:
    """Read the files that the keys name; `root` is that of `ZooKeeperAccess`. Raises ConfigError."""
    context = None
    if settings.zookeeper_ssl_client_enable:
        try:
            context = client_context_of(_as_of_listener(settings), disk.read)
        except ConfigError as error:
            raise ConfigError(_KEY.sub(_of_zookeeper, str(error))) from None
    return ZooKeeperAccess(context, _login(settings, disk), settings.zookeeper_set_acl, root)


def _as_of_listener(settings: ZooKeeperSettings) -> SecuritySettings:
    """The same settings as those of a listener, whose stores are read."""
    keys, trust = settings.zookeeper_ssl_keystore_location, settings.zookeeper_ssl_truststore_location
    return SecuritySettings(
        ssl_enabled_protocols=settings.zookeeper_ssl_enabled_protocols or settings.zookeeper_ssl_protocol,
        ssl_cipher_suites=settings.zookeeper_ssl_cipher_suites,
        ssl_endpoint_identification_algorithm=settings.zookeeper_ssl_endpoint_identification_algorithm,
        ssl_keystore_type="PEM" if keys is None else store_kind("keystore", keys, settings.zookeeper_ssl_keystore_type),
        ssl_keystore_location=keys,
        ssl_keystore_password=settings.zookeeper_ssl_keystore_password,
        ssl_key_password=settings.zookeeper_ssl_keystore_password,
        ssl_truststore_type="PEM"
        if trust is None
        else store_kind("truststore", trust, settings.zookeeper_ssl_truststore_type),
        ssl_truststore_location=trust,
        ssl_truststore_password=settings.zookeeper_ssl_truststore_password,
    )


def _of_zookeeper(match: re.Match[str]) -> str:
    """The key of ZooKeeper's for that of a listener; it has no key of its own for the password of a private key."""
    return "zookeeper.ssl." + ("keystore.password" if match[1] == "key.password" else match[1])


def _login(settings: ZooKeeperSettings, disk: Disk) -> DigestLogin | None:
    user, path = settings.zookeeper_auth_user, settings.zookeeper_auth_password_file
    if user is None or path is None:
        return None
    key = f"sordini.zookeeper.auth.password.file={path!r}"
    try:
        file = disk.open(path, writable=False)
        try:
            mode, data = os.fstat(file.fileno()).st_mode, file.read_at(0, PASSWORD_BYTES_MAX + 1)
        finally:
            file.close()
    except OSError as error:
        raise ConfigError(f"{key}: {error.strerror}") from None
    if mode & _OTHERS:
        raise ConfigError(
            f"{key} may be read or written by others (mode {stat.S_IMODE(mode):o}); allowed is 600 or less: chmod 600"
        )
    try:
        password = data.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        password = ""
    if not password or len(data) > PASSWORD_BYTES_MAX or "\n" in password:
        raise ConfigError(f"{key} is not valid: allowed is one line of UTF-8 with up to {PASSWORD_BYTES_MAX} bytes")
    return DigestLogin(user, password)
