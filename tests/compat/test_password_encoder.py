"""Passwords in the coordination store, beside Apache Kafka's own encoder."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sordini.broker.configuration.config import build_config
from sordini.broker.configuration.password_encoder import PasswordEncoder
from tests.outside.needs import kafka_jars, need_java

JAVA = """
import sys
import jpype
jars, secret, mine, factory = sys.argv[1:]
jpype.startJVM(classpath=[jars + "/*"])
Password = jpype.JClass("org.apache.kafka.common.config.types.Password")
PasswordEncoder = jpype.JClass("org.apache.kafka.security.PasswordEncoder")
encoder = PasswordEncoder.encrypting(Password(secret), factory or None, "AES/CBC/PKCS5Padding", 128, 4096)
print(encoder.decode(mine).value())
print(encoder.encode(Password("theirs-\\u20ac")))
"""


@pytest.mark.parametrize("factory", ["", "PBKDF2WithHmacSHA1", "PBKDF2WithHmacSHA256"])
def test_apache_kafka_reads_what_is_written_here_and_the_reverse(factory: str) -> None:
    need_java()
    keys = {"password.encoder.keyfactory.algorithm": factory} if factory else {}
    ours = PasswordEncoder(build_config({"password.encoder.secret": "a sécret", **keys})[0])
    words = [sys.executable, "-c", JAVA, str(kafka_jars()), "a sécret", ours.encode("ours-€"), factory]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    read, written = done.stdout.splitlines()[-2:]
    assert read == "ours-€"
    assert ours.decode(written) == "theirs-€"
