"""What clients of a secured broker need: their files, and in words how each kind connects. Pure."""

from __future__ import annotations

import json
from typing import Final

from sordini.broker.process.secure_start.secure_keys import FIRST_USER, MECHANISM, PROTOCOL, jaas_line

PROPERTIES, KCAT, SPARK = "client.properties", "kcat.config", "spark.json"

_WORDS: Final = """\
This broker is secured: clients need TLS, a user and a password. The user {user} may do everything. What clients need is
in {directory}, which only you can read. Anyone with a copy of `password` can log in as {user}:

  ca.pem              the certificate that clients trust
  client.properties   for Apache Kafka's tools, and for sordini
  kcat.config         for kcat
  spark.json          for Spark
  password            of the user {user}

sordini        export SORDINI_BOOTSTRAP={bootstrap} SORDINI_COMMAND_CONFIG={directory}/client.properties
               sordini topics create orders
Java tools     kafka-topics.sh --bootstrap-server {bootstrap} --command-config {directory}/client.properties --list
kcat           kcat -F {directory}/kcat.config -L
kafka-python   KafkaProducer(
                   bootstrap_servers="{bootstrap}", security_protocol="SASL_SSL",
                   ssl_cafile="{directory}/ca.pem", sasl_mechanism="{mechanism}",
                   sasl_plain_username="{user}", sasl_plain_password=open("{directory}/password").read())
Spark          spark.read.format("sordini").options(**json.load(open("{directory}/spark.json")))
                   .option("subscribe", "orders").load()        with its own source: format("kafka")

Other users, who may do less:  sordini users set alice;  sordini acls add --topic orders --producer --allow User:alice

"""


def client_files(bootstrap: str, directory: str, password: str) -> dict[str, str]:
    """The texts of the files by their names. `bootstrap` is host and port, `directory` an absolute path."""
    java = {
        "security.protocol": PROTOCOL,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": f"{directory}/ca.pem",
        "sasl.mechanism": MECHANISM,
        "sasl.jaas.config": jaas_line(password),
    }
    librdkafka = {
        "bootstrap.servers": bootstrap,
        "security.protocol": PROTOCOL,
        "ssl.ca.location": f"{directory}/ca.pem",
        "sasl.mechanism": MECHANISM,
        "sasl.username": FIRST_USER,
        "sasl.password": password,
    }
    spark = {f"kafka.{key}": value for key, value in {"bootstrap.servers": bootstrap, **java}.items()}
    return {
        PROPERTIES: _lines(java),
        KCAT: _lines(librdkafka),
        SPARK: json.dumps(spark, indent=2) + "\n",
    }


def instructions(bootstrap: str, directory: str) -> str:
    """How clients connect; it has no password."""
    return _WORDS.format(bootstrap=bootstrap, directory=directory, user=FIRST_USER, mechanism=MECHANISM)


def _lines(entries: dict[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in entries.items())
