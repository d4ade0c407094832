"""A program: the keys that a release of Apache Kafka's broker declares, as one line of JSON.

    python config_keys.py log4j.properties JAR...

    {"keys": {name: [type, default or null]}, "dynamic": [names], "per_listener": [names]}

"dynamic" are the keys that it changes while it runs, "per_listener" those among them that need a listener's name.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import jpype

FLAGS = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")


def module(name: str) -> Any:
    """The one instance of a Scala object."""
    return jpype.JClass(f"{name}$").class_.getField("MODULE$").get(None)


def definition() -> Any:
    """The ConfigDef of KafkaConfig; the field has another name and home in each release."""
    scala = module("kafka.server.KafkaConfig")
    for cls in (scala.getClass(), jpype.JClass("kafka.server.KafkaConfig").class_):
        for field in cls.getDeclaredFields():
            if str(field.getName()).endswith("configDef"):
                field.setAccessible(True)
                return field.get(scala)
    raise LookupError("KafkaConfig has no configDef")


def keys() -> dict[str, list[str | None]]:
    """Types and defaults as text. Read as fields: newer releases have methods of the same names."""
    fields = {
        name: jpype.JClass("org.apache.kafka.common.config.ConfigDef$ConfigKey").class_.getField(name)
        for name in ("name", "type", "defaultValue")
    }
    as_text = jpype.JClass("org.apache.kafka.common.config.ConfigDef").convertToString
    found: dict[str, list[str | None]] = {}
    for key in definition().configKeys().values():
        kind, default = fields["type"].get(key), fields["defaultValue"].get(key)
        text = as_text(default, kind) if key.hasDefault() and default is not None else None
        found[str(fields["name"].get(key))] = [str(kind), None if text is None else str(text)]
    return found


def names(scala: Any, method: str) -> list[str]:
    as_java = jpype.JClass("scala.jdk.javaapi.CollectionConverters").asJava
    return sorted(str(name) for name in as_java(getattr(scala, method)()))


def authorizer() -> list[str]:
    """Keys that the authorizer reads by itself."""
    scala = module("kafka.security.authorizer.AclAuthorizer")
    found = []
    for method in scala.getClass().getDeclaredMethods():
        if str(method.getName()).endswith(("Prop", "ZkMaxInFlightRequests")) and method.getParameterCount() == 0:
            method.setAccessible(True)
            found.append(str(method.invoke(scala)))
    return sorted(found)


def main() -> None:
    jpype.startJVM(*FLAGS, f"-Dlog4j.configuration=file:{sys.argv[1]}", classpath=sys.argv[2:])
    dynamic = module("kafka.server.DynamicBrokerConfig")
    answer = {
        "keys": keys(),
        "dynamic": names(dynamic, "AllDynamicConfigs"),
        "per_listener": names(dynamic, "DynamicSecurityConfigs"),
        "authorizer": authorizer(),
    }
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
