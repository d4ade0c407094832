"""A certificate's subject as text, in the form of RFC 2253 as Java writes it: principals and ACLs have this form.

    CN=alice,OU=Users,O=Example\\, Inc,C=DE

The most specific name is first. Attributes that RFC 2253 does not name are `OID=#hex` of the value's DER encoding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cryptography import x509

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_ESCAPED: Final = frozenset(',+"\\<>;=#')


def distinguished_name(name: x509.Name) -> str:
    """The text of a subject; empty for one without attributes."""
    return ",".join("+".join(map(_attribute, rdn)) for rdn in reversed(list(name.rdns)))


def _attribute(attribute: x509.NameAttribute[str | bytes]) -> str:
    oid = attribute.oid.dotted_string
    keyword = _KEYWORDS.get(oid)
    if keyword is None or isinstance(attribute.value, bytes):
        return f"{keyword or oid}=#{_der(attribute).hex()}"
    return f"{keyword}={_escaped(attribute.value)}"


def _escaped(value: str) -> str:
    text = "".join("\\" + one if one in _ESCAPED else "\\00" if one == "\0" else one for one in value)
    # Spaces at either end.
    inner = text.strip(" ")
    leading = len(text) - len(text.lstrip(" ")) if inner else len(text)
    trailing = len(text) - len(text.rstrip(" ")) if inner else 0
    return "\\ " * leading + inner + "\\ " * trailing


def _der(attribute: x509.NameAttribute[str | bytes]) -> bytes:
    value = attribute.value if isinstance(attribute.value, bytes) else attribute.value.encode()
    tag = attribute._type  # noqa: SLF001 - the only place that has the encoding.
    size = len(value)
    length = (
        bytes([size]) if size < 128 else bytes([0x81, size]) if size < 256 else bytes([0x82, *size.to_bytes(2, "big")])
    )
    return bytes([tag.value]) + length + value
