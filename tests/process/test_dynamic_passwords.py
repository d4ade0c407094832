"""A key store with a password, set while a broker runs."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.outside.ports import free_port
from tests.outside.processes import SordiniProcess
from tests.support.certificates import PASSWORD, Authority

PREFIX = "listener.name.ssl.ssl.keystore."
WAIT_S_MAX = 20


def set_keys(broker: SordiniProcess, keys: dict[str, str]) -> None:
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    entries = [ConfigEntry(key, text, incremental_operation=AlterConfigOpType.SET) for key, text in keys.items()]
    asked = ConfigResource(ResourceType.BROKER, "1", incremental_configs=entries)
    (future,) = client.incremental_alter_configs([asked]).values()
    future.result(WAIT_S_MAX)


def served_serial(port: int) -> int:
    context = ssl._create_unverified_context()
    with socket.create_connection(("127.0.0.1", port), WAIT_S_MAX) as plain, context.wrap_socket(plain) as secured:
        encoded = secured.getpeercert(binary_form=True)
    assert encoded is not None
    from cryptography import x509

    return x509.load_der_x509_certificate(encoded).serial_number


def test_a_key_store_and_its_password_are_replaced_at_run_time_and_kept_encrypted(
    tmp_path: Path,
) -> None:
    authority, port = Authority(), free_port()
    first, second = (authority.issue("broker", serial_number=number) for number in (1001, 1002))
    listeners = {
        "broker.id": 1,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": first.pem_file(tmp_path / "first.pem"),
    }
    new = {
        f"{PREFIX}type": "PKCS12",
        f"{PREFIX}location": str(second.pkcs12_file(tmp_path / "second.p12")),
        f"{PREFIX}password": PASSWORD,
    }
    for secret in ("", "encoder-secret-3"):
        directory = tmp_path / (secret or "without")
        broker = SordiniProcess(directory, {**listeners, "password.encoder.secret": secret})
        broker.overrides["listeners"] = f"PLAINTEXT://{broker.bootstrap},SSL://127.0.0.1:{port}"
        with broker:
            check(broker, port, new, secret)


def check(broker: SordiniProcess, port: int, new: dict[str, str], secret: str) -> None:
    assert served_serial(port) == 1001
    if secret:
        set_keys(broker, new)
        assert served_serial(port) == 1002
        with pytest.raises(KafkaException, match="password is another one"):
            set_keys(broker, {f"{PREFIX}password": "wrong-password"})
        broker.restart()
        assert served_serial(port) == 1002
        stored = b"".join(path.read_bytes() for path in broker.data_directory.glob("coordination.sqlite*"))
        assert b"encryptedPassword:" in stored
        for hidden in (PASSWORD, secret, "wrong-password"):
            assert hidden.encode() not in stored
            assert hidden not in broker.output()
    else:
        with pytest.raises(KafkaException, match=r"password\.encoder\.secret is not set"):
            set_keys(broker, new)
        assert served_serial(port) == 1001


@pytest.mark.slow
def test_a_secret_is_replaced_by_a_restart_with_the_former_one(tmp_path: Path) -> None:
    authority, port = Authority(), free_port()
    first, second = (authority.issue("broker", serial_number=number) for number in (1001, 1002))
    overrides = {
        "broker.id": 1,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": first.pem_file(tmp_path / "first.pem"),
        "password.encoder.secret": "encoder-secret-3",
    }
    broker = SordiniProcess(tmp_path / "broker", overrides)
    broker.overrides["listeners"] = f"PLAINTEXT://{broker.bootstrap},SSL://127.0.0.1:{port}"
    with broker:
        new = {"type": "PKCS12", "location": str(second.pkcs12_file(tmp_path / "second.p12")), "password": PASSWORD}
        set_keys(broker, {PREFIX + key: text for key, text in new.items()})
        broker.overrides |= {"password.encoder.secret": "secret-4", "password.encoder.old.secret": "encoder-secret-3"}
        for is_written in (True, False):
            broker.restart()
            assert ("passwords encrypted again" in broker.output()) == is_written
            assert served_serial(port) == 1002
        del broker.overrides["password.encoder.old.secret"]
        broker.restart()
        assert "setting ignored" not in broker.output()
        assert served_serial(port) == 1002
        broker.overrides |= {"password.encoder.secret": "secret-5", "password.encoder.old.secret": "encoder-secret-3"}
        broker.stop()
        broker.launch()
        assert broker.wait_for_exit(20) == 1
        said = broker.output()
        assert f"{PREFIX}password reason='it cannot be decrypted with password.encoder.secret, nor with " in said
        assert "its password is another one" in said, "the listener has no certificate without it"
