"""A program: Java's text of encoded names, and what Apache Kafka's mapping rules make of names. Jars are arguments.

Standard input is JSON: {"names": [hex of DER], "rules": [[rules, name]]}; so is the output, null for what is refused.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import jpype


def main() -> None:
    jpype.startJVM("-Xmx128m", "-XX:TieredStopAtLevel=1", classpath=sys.argv[1:])
    principal = jpype.JClass("javax.security.auth.x500.X500Principal")
    mapper = jpype.JClass("org.apache.kafka.common.security.ssl.SslPrincipalMapper")
    task: dict[str, Any] = json.load(sys.stdin)

    def mapped(rules: str, name: str) -> str | None:
        try:
            return str(mapper.fromRules(rules).getName(name))
        except jpype.JException:
            return None

    json.dump(
        {
            "names": [str(principal(jpype.JArray(jpype.JByte)(bytes.fromhex(one))).getName()) for one in task["names"]],
            "rules": [mapped(rules, name) for rules, name in task["rules"]],
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main()
