"""Apache Kafka 3.9.1's defaults of the keys in `protection_keys.TABLE`; the other keys there have none.

Lists are appended to these defaults, and DescribeConfigs returns them as synonyms. None is in force here.
"""

DEFAULTS = {
    "alter.log.dirs.replication.quota.window.num": "11",
    "alter.log.dirs.replication.quota.window.size.seconds": "1",
    "delegation.token.expiry.check.interval.ms": "3600000",
    "delegation.token.expiry.time.ms": "86400000",
    "delegation.token.max.lifetime.ms": "604800000",
    "principal.builder.class": "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
    "quota.consumer.default": "9223372036854775807",
    "quota.producer.default": "9223372036854775807",
    "sasl.kerberos.kinit.cmd": "/usr/bin/kinit",
    "sasl.kerberos.min.time.before.relogin": "60000",
    "sasl.kerberos.principal.to.local.rules": "DEFAULT",
    "sasl.kerberos.ticket.renew.jitter": "0.05",
    "sasl.kerberos.ticket.renew.window.factor": "0.8",
    "sasl.login.refresh.buffer.seconds": "300",
    "sasl.login.refresh.min.period.seconds": "60",
    "sasl.login.refresh.window.factor": "0.8",
    "sasl.login.refresh.window.jitter": "0.05",
    "sasl.login.retry.backoff.max.ms": "10000",
    "sasl.login.retry.backoff.ms": "100",
    "sasl.mechanism.controller.protocol": "GSSAPI",
    "ssl.keymanager.algorithm": "SunX509",
    "ssl.protocol": "TLSv1.3",
    "ssl.trustmanager.algorithm": "PKIX",
    "zookeeper.ssl.crl.enable": "false",
    "zookeeper.ssl.ocsp.enable": "false",
}
