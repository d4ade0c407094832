"""Names of certificates and mapping rules, beside Java and Apache Kafka."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID, ObjectIdentifier

from sordini.broker.configuration.principal_mapping import MappingError, PrincipalMapping
from sordini.broker.security.tls.distinguished_name import distinguished_name
from tests.outside.needs import kafka_jars, need_java
from tests.outside.versions import APACHE_KAFKA

PROGRAM = Path(__file__).parents[1] / "outside" / "java_names.py"
OIDS = [
    NameOID.COMMON_NAME,
    NameOID.COUNTRY_NAME,
    NameOID.LOCALITY_NAME,
    NameOID.STATE_OR_PROVINCE_NAME,
    NameOID.STREET_ADDRESS,
    NameOID.ORGANIZATION_NAME,
    NameOID.ORGANIZATIONAL_UNIT_NAME,
    NameOID.USER_ID,
    NameOID.DOMAIN_COMPONENT,
    NameOID.EMAIL_ADDRESS,
    NameOID.SERIAL_NUMBER,
    NameOID.TITLE,
    NameOID.GIVEN_NAME,
    ObjectIdentifier("1.2.3.4.5"),
]
VALUES = [
    "alice",
    " a ",
    "#x",
    "a#",
    "a,b",
    "a+b",
    'a"b',
    "a\\b",
    "a<b>c;d=e",
    "Zoë",
    "日本",
    " ",
    "a  b",
    "_x@y:z'(/)?",
    "k" * 300,
]
RULES = [
    ("DEFAULT", "CN=a"),
    ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "CN=svc,OU=ServiceUsers,O=x"),
    ("RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L", "CN=Foo,OU=Bar,O=o,L=l,ST=s,C=c"),
    ("RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,DEFAULT", "OU=x,cn=Some.Name,O=y"),
    ("RULE:^OU=x$/a/, RULE:^CN=(a|b)+$/<$1>/U ,DEFAULT", "CN=abba"),
    ("RULE:.*/x/", "CN=a"),
    ("RULE:CN=([^,]{2,4}),.*/$1$2/", "CN=bob,O=x"),
    ("RULE:CN=([^,]{2,4}),.*/$1/", "CN=b,O=x"),
    ("RULE:^CN=(\\w+)\\,.*$/\\$$1/", "CN=bob,O=x"),
    ("RULE:^CN=(?:a|b)(c)?.*$/<$1>/", "CN=b,O=x"),
    ("RULE:^CN=(.*)-(\\d+).*$/$2-$1/", "CN=host-12-34,O=x"),
    ("RULE:a*?b/x/", "aab"),
]


def encoded(name: x509.Name) -> str:
    return name.public_bytes().hex()


@pytest.fixture(scope="module")
def names() -> list[x509.Name]:
    draw = random.Random(7)
    made = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, value)]) for value in VALUES if len(value) <= 64]
    for _ in range(120):
        rdns = []
        for _ in range(draw.randint(1, 4)):
            oids = draw.sample(OIDS, draw.choice([1, 1, 1, 2]))
            rdns.append(x509.RelativeDistinguishedName([_attribute(oid, draw) for oid in oids]))
        made.append(x509.Name(rdns))
    key = ec.generate_private_key(ec.SECP256R1())
    signed = [x509.CertificateSigningRequestBuilder().subject_name(one).sign(key, hashes.SHA256()) for one in made]
    # Decoded again: the encoding sorts the attributes of one level.
    return [x509.load_der_x509_csr(one.public_bytes(Encoding.DER)).subject for one in signed]


def _attribute(oid: ObjectIdentifier, draw: random.Random) -> x509.NameAttribute[str]:
    if oid == NameOID.COUNTRY_NAME:
        return x509.NameAttribute(oid, "DE")
    if oid == NameOID.SERIAL_NUMBER:
        return x509.NameAttribute(oid, "serial 1, (2)")  # A printable string.
    ascii_only = oid in (NameOID.EMAIL_ADDRESS, NameOID.DOMAIN_COMPONENT)
    return x509.NameAttribute(
        oid, draw.choice([one for one in VALUES if len(one) <= 64 and (one.isascii() or not ascii_only)])
    )


def ours(rules: str, name: str) -> str | None:
    try:
        return PrincipalMapping(rules).apply(name)
    except MappingError:
        return None


def test_names_and_principals_are_javas(names: list[x509.Name]) -> None:
    need_java()
    task = json.dumps({"names": [encoded(name) for name in names], "rules": RULES})
    command = [sys.executable, str(PROGRAM), *map(str, sorted(kafka_jars(APACHE_KAFKA).glob("*.jar")))]
    done = subprocess.run(command, input=task, capture_output=True, text=True, check=True, timeout=60)
    answer = json.loads(done.stdout)
    for name, text in zip(names, answer["names"], strict=True):
        assert distinguished_name(name) == text, encoded(name)
    assert [ours(*rule) for rule in RULES] == answer["rules"]
