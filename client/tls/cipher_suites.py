"""Names of cipher suites: Java's (and the standard's) and OpenSSL's, for TLS 1.2; those of TLS 1.3 have one name.

    TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256     ECDHE-RSA-AES128-GCM-SHA256
    TLS_RSA_WITH_AES_256_CBC_SHA              AES256-SHA

Pure.
"""

from __future__ import annotations

import re

TLS13_SUITES = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})
OPENSSL_NAME = r"[A-Z0-9]+(-[A-Z0-9]+)+"
_JAVA_NAME = r"(?:TLS|SSL)_([A-Z0-9_]+?)_WITH_([A-Z0-9_]+)"
_CIPHER_SIZES = r"\b(AES|CAMELLIA|ARIA)_(128|256)"


def openssl_name(name: str) -> str:
    """OpenSSL's name of a suite of TLS 1.2, given by either name."""
    java = re.fullmatch(_JAVA_NAME, name)
    if java is None:
        return name
    exchange, cipher = java.groups()
    cipher = re.sub(_CIPHER_SIZES, r"\1\2", cipher).replace("_CBC", "")
    cipher = cipher.replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    prefix = "" if exchange == "RSA" else exchange.replace("_", "-") + "-"
    return prefix + cipher.replace("_", "-")
