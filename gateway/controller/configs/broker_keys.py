"""Lists the configuration keys of brokers that are dynamic (KIP-226), and the names of the others.

They are those of Kafka 4.4.0, read from ``KafkaConfig`` and ``DynamicBrokerConfig`` of its jars.
The controller checks values before they go into the log; brokers apply them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gateway.controller.configs.config_def import ConfigKey, ConfigType, Value
from gateway.controller.configs.topic_keys import gzip_level

BOOLEAN, STRING, INT, SHORT, LONG = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.SHORT,
    ConfigType.LONG,
)
DOUBLE, LIST, CLASS, PASSWORD = (
    ConfigType.DOUBLE,
    ConfigType.LIST,
    ConfigType.CLASS,
    ConfigType.PASSWORD,
)
_LONG_MAX: Final = str(2**63 - 1)


def _not_empty(value: Value) -> str | None:
    return None if value else "must not be empty"


_KEYS: Final = (
    # A broker also refuses less than half and more than twice the number of threads that it has
    # (``DynamicThreadPool.validateReconfiguration``). The controller does not know that number; the
    # same holds for ``num.io.threads``, ``num.recovery.threads.per.data.dir`` and
    # ``num.replica.fetchers``.
    ConfigKey("background.threads", INT, "10", low=1),
    ConfigKey("compression.gzip.level", INT, "-1", check=gzip_level),
    ConfigKey("compression.lz4.level", INT, "9", low=1, high=17),
    ConfigKey(
        "compression.type",
        STRING,
        "producer",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    ),
    ConfigKey("compression.zstd.level", INT, "3", low=-131072, high=22),
    ConfigKey("config.providers", LIST, ""),
    # KIP-1066.
    ConfigKey("cordoned.log.dirs", LIST, "", per_broker=True),
    ConfigKey("errors.deadletterqueue.auto.create.topics.enable", BOOLEAN, "false"),
    ConfigKey("errors.deadletterqueue.topic.name.prefix", STRING, "dlq."),
    ConfigKey("follower.fetch.last.tiered.offset.enable", BOOLEAN, "false"),
    ConfigKey("group.consumer.assignment.interval.ms", INT, "1000", low=0),
    ConfigKey("group.consumer.assignor.offload.enable", BOOLEAN, "true"),
    ConfigKey("group.coordinator.cached.buffer.max.bytes", INT, "1048588", low=524288),
    ConfigKey("group.share.assignment.interval.ms", INT, "1000", low=0),
    ConfigKey("group.share.assignor.offload.enable", BOOLEAN, "true"),
    ConfigKey("group.streams.assignment.interval.ms", INT, "1000", low=0),
    ConfigKey("group.streams.assignor.offload.enable", BOOLEAN, "true"),
    ConfigKey(
        "listener.security.protocol.map",
        STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        per_broker=True,
    ),
    # Per broker, because a listener is an address of one node
    # (``DynamicBrokerConfig.PerBrokerConfigs``).
    ConfigKey("listeners", LIST, "PLAINTEXT://:9092", check=_not_empty, per_broker=True),
    ConfigKey("log.cleaner.backoff.ms", LONG, "15000", low=0),
    ConfigKey("log.cleaner.dedupe.buffer.size", LONG, "134217728"),
    ConfigKey("log.cleaner.delete.retention.ms", LONG, "86400000", low=0),
    ConfigKey("log.cleaner.io.buffer.load.factor", DOUBLE, "0.9"),
    ConfigKey("log.cleaner.io.buffer.size", INT, "524288", low=0),
    # ``Double.MAX_VALUE``: no limit.
    ConfigKey("log.cleaner.io.max.bytes.per.second", DOUBLE, "1.7976931348623157E308"),
    ConfigKey("log.cleaner.max.compaction.lag.ms", LONG, _LONG_MAX, low=1),
    ConfigKey("log.cleaner.min.cleanable.ratio", DOUBLE, "0.5", low=0, high=1),
    ConfigKey("log.cleaner.min.compaction.lag.ms", LONG, "0", low=0),
    ConfigKey("log.cleaner.threads", INT, "1", low=0),
    ConfigKey("log.cleanup.policy", LIST, "delete", choices=("compact", "delete")),
    ConfigKey("log.flush.interval.messages", LONG, _LONG_MAX, low=1),
    # No default: ``log.flush.scheduler.interval.ms``, which is not dynamic, counts then.
    ConfigKey("log.flush.interval.ms", LONG, None),
    ConfigKey("log.index.interval.bytes", INT, "4096", low=0),
    ConfigKey("log.index.size.max.bytes", INT, "10485760", low=4),
    # -2 stands for ``log.retention.bytes`` (KIP-405). A broker compares the two
    # (``DynamicLogConfig.validateLogLocalRetentionBytes``); the second may be in its own file,
    # which the controller does not have.
    ConfigKey("log.local.retention.bytes", LONG, "-2", low=-2),
    ConfigKey("log.local.retention.ms", LONG, "-2", low=-2),
    ConfigKey("log.message.timestamp.after.max.ms", LONG, "3600000", low=0),
    ConfigKey("log.message.timestamp.before.max.ms", LONG, _LONG_MAX, low=0),
    ConfigKey(
        "log.message.timestamp.type", STRING, "CreateTime", choices=("CreateTime", "LogAppendTime")
    ),
    ConfigKey("log.preallocate", BOOLEAN, "false"),
    ConfigKey("log.remote.copy.lag.bytes", LONG, "-1", low=-1),
    ConfigKey("log.remote.copy.lag.ms", LONG, "0", low=-1),
    ConfigKey("log.retention.bytes", LONG, "-1"),
    # No default: ``log.retention.minutes`` and ``log.retention.hours`` count then.
    ConfigKey("log.retention.ms", LONG, None),
    ConfigKey("log.roll.jitter.ms", LONG, None),
    # No default: ``log.roll.hours`` counts then.
    ConfigKey("log.roll.ms", LONG, None),
    # 1 MiB is the least since KIP-1030.
    ConfigKey("log.segment.bytes", INT, "1073741824", low=1048576),
    ConfigKey("log.segment.delete.delay.ms", LONG, "60000", low=0),
    # With ``max.connections`` and ``num.network.threads`` one of three keys of listeners that may
    # be set for all brokers (``ClusterLevelListenerConfigs``).
    ConfigKey("max.connection.creation.rate", INT, "2147483647", low=0),
    ConfigKey("max.connections", INT, "2147483647", low=0),
    ConfigKey("max.connections.per.ip", INT, "2147483647", low=0),
    ConfigKey("max.connections.per.ip.overrides", STRING, ""),
    ConfigKey("max.decompressed.message.bytes", INT, "2147483639", low=1, high=2147483639),
    # 1 MiB, and 12 bytes for base offset and length, which a batch's own length does not count
    # (``LogConfig.DEFAULT_MAX_MESSAGE_BYTES``).
    ConfigKey("message.max.bytes", INT, "1048588", low=0),
    # A broker loads the classes before it takes the list
    # (``DynamicMetricsReporters.validateReconfiguration``); here they are names.
    ConfigKey("metric.reporters", LIST, "org.apache.kafka.common.metrics.JmxReporter"),
    ConfigKey("min.insync.replicas", INT, "1", low=1),
    ConfigKey("num.io.threads", INT, "8", low=1),
    ConfigKey("num.network.threads", INT, "3", low=1),
    # Two since KIP-1030.
    ConfigKey("num.recovery.threads.per.data.dir", INT, "2", low=1),
    ConfigKey("num.replica.fetchers", INT, "1", low=1),
    ConfigKey(
        "principal.builder.class",
        CLASS,
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        per_broker=True,
    ),
    ConfigKey("producer.id.expiration.ms", INT, "86400000", low=1),
    ConfigKey("remote.fetch.max.wait.ms", INT, "500", low=1),
    ConfigKey("remote.list.offsets.request.timeout.ms", LONG, "30000", low=1),
    ConfigKey("remote.log.index.file.cache.total.size.bytes", LONG, "1073741824", low=1),
    ConfigKey("remote.log.manager.copier.thread.pool.size", INT, "10", low=1),
    ConfigKey("remote.log.manager.copy.max.bytes.per.second", LONG, _LONG_MAX, low=1),
    ConfigKey("remote.log.manager.expiration.thread.pool.size", INT, "10", low=1),
    ConfigKey("remote.log.manager.fetch.max.bytes.per.second", LONG, _LONG_MAX, low=1),
    ConfigKey("remote.log.manager.follower.thread.pool.size", INT, "2", low=1),
    ConfigKey("remote.log.reader.threads", INT, "10", low=1),
    ConfigKey("sasl.enabled.mechanisms", LIST, "GSSAPI", per_broker=True),
    # Of one listener and mechanism: ``listener.name.NAME.MECHANISM.sasl.jaas.config``.
    ConfigKey("sasl.jaas.config", PASSWORD, None, per_broker=True),
    ConfigKey("sasl.kerberos.kinit.cmd", STRING, "/usr/bin/kinit", per_broker=True),
    ConfigKey("sasl.kerberos.min.time.before.relogin", LONG, "60000", per_broker=True),
    ConfigKey("sasl.kerberos.principal.to.local.rules", LIST, "DEFAULT", per_broker=True),
    ConfigKey("sasl.kerberos.service.name", STRING, None, per_broker=True),
    ConfigKey("sasl.kerberos.ticket.renew.jitter", DOUBLE, "0.05", per_broker=True),
    ConfigKey("sasl.kerberos.ticket.renew.window.factor", DOUBLE, "0.8", per_broker=True),
    ConfigKey("sasl.login.refresh.buffer.seconds", SHORT, "300", per_broker=True),
    ConfigKey("sasl.login.refresh.min.period.seconds", SHORT, "60", per_broker=True),
    ConfigKey("sasl.login.refresh.window.factor", DOUBLE, "0.8", per_broker=True),
    ConfigKey("sasl.login.refresh.window.jitter", DOUBLE, "0.05", per_broker=True),
    ConfigKey("sasl.mechanism.inter.broker.protocol", STRING, "GSSAPI", per_broker=True),
    ConfigKey("share.coordinator.cached.buffer.max.bytes", INT, "1048588", low=524288),
    ConfigKey("ssl.cipher.suites", LIST, "", per_broker=True),
    ConfigKey(
        "ssl.client.auth",
        STRING,
        "none",
        choices=("required", "requested", "none"),
        per_broker=True,
    ),
    ConfigKey("ssl.enabled.protocols", LIST, "TLSv1.2,TLSv1.3", per_broker=True),
    ConfigKey("ssl.endpoint.identification.algorithm", STRING, "https", per_broker=True),
    ConfigKey("ssl.engine.factory.class", CLASS, None, per_broker=True),
    ConfigKey("ssl.keymanager.algorithm", STRING, "SunX509", per_broker=True),
    ConfigKey("ssl.protocol", STRING, "TLSv1.3", per_broker=True),
    ConfigKey("ssl.provider", STRING, None, per_broker=True),
    ConfigKey("ssl.secure.random.implementation", STRING, None, per_broker=True),
    ConfigKey("ssl.trustmanager.algorithm", STRING, "PKIX", per_broker=True),
    ConfigKey("transaction.partition.verification.enable", BOOLEAN, "true"),
    ConfigKey("unclean.leader.election.enable", BOOLEAN, "false"),
)
#: The keys that a broker applies without a restart, by name.
BROKER_KEYS: Final[Mapping[str, ConfigKey]] = MappingProxyType({key.name: key for key in _KEYS})

#: Security keys that are dynamic for one listener only, with the prefix ``listener.name.NAME.``.
LISTENER_KEYS: Final = frozenset(
    (
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    )
)

_STATIC: Final = """
add.partitions.to.txn.retry.backoff.max.ms add.partitions.to.txn.retry.backoff.ms
advertised.listeners alter.config.policy.class.name alter.log.dirs.replication.quota.window.num
alter.log.dirs.replication.quota.window.size.seconds authorizer.class.name
auto.create.topics.enable auto.leader.rebalance.enable broker.heartbeat.interval.ms broker.id
broker.rack broker.session.timeout.ms client.quota.callback.class
connection.failed.authentication.delay.ms connections.max.idle.ms connections.max.reauth.ms
controlled.shutdown.enable controller.listener.names
controller.performance.always.log.threshold.ms controller.performance.sample.period.ms
controller.quorum.append.linger.ms controller.quorum.auto.join.enable
controller.quorum.bootstrap.servers controller.quorum.election.backoff.max.ms
controller.quorum.election.timeout.ms controller.quorum.fetch.max.bytes
controller.quorum.fetch.snapshot.max.bytes controller.quorum.fetch.timeout.ms
controller.quorum.request.timeout.ms controller.quorum.retry.backoff.ms controller.quorum.voters
controller.quota.window.num controller.quota.window.size.seconds controller.socket.timeout.ms
create.topic.policy.class.name default.replication.factor
delegation.token.expiry.check.interval.ms delegation.token.expiry.time.ms
delegation.token.max.lifetime.ms delegation.token.secret.key
delete.records.purgatory.purge.interval.requests delete.topic.enable early.start.listeners
fetch.max.bytes fetch.purgatory.purge.interval.requests group.consumer.assignors
group.consumer.heartbeat.interval.ms group.consumer.max.assignment.interval.ms
group.consumer.max.heartbeat.interval.ms group.consumer.max.session.timeout.ms
group.consumer.max.size group.consumer.migration.policy group.consumer.min.assignment.interval.ms
group.consumer.min.heartbeat.interval.ms group.consumer.min.session.timeout.ms
group.consumer.regex.refresh.interval.ms group.consumer.session.timeout.ms
group.coordinator.append.linger.ms group.coordinator.background.threads
group.coordinator.rebalance.protocols group.coordinator.threads group.initial.rebalance.delay.ms
group.max.session.timeout.ms group.max.size group.min.session.timeout.ms group.share.assignors
group.share.delivery.count.limit group.share.dlq.manager.class.name
group.share.heartbeat.interval.ms group.share.initialize.retry.interval.ms
group.share.max.assignment.interval.ms group.share.max.delivery.count.limit
group.share.max.heartbeat.interval.ms group.share.max.partition.max.record.locks
group.share.max.record.lock.duration.ms group.share.max.session.timeout.ms
group.share.max.share.sessions group.share.max.size group.share.min.assignment.interval.ms
group.share.min.delivery.count.limit group.share.min.heartbeat.interval.ms
group.share.min.partition.max.record.locks group.share.min.record.lock.duration.ms
group.share.min.session.timeout.ms group.share.partition.max.record.locks
group.share.persister.class.name group.share.record.lock.duration.ms
group.share.session.timeout.ms group.streams.acceptable.recovery.lag group.streams.assignors
group.streams.heartbeat.interval.ms group.streams.initial.rebalance.delay.ms
group.streams.max.assignment.interval.ms group.streams.max.heartbeat.interval.ms
group.streams.max.session.timeout.ms group.streams.max.size group.streams.max.standby.replicas
group.streams.max.warmup.replicas group.streams.min.assignment.interval.ms
group.streams.min.heartbeat.interval.ms group.streams.min.session.timeout.ms
group.streams.min.task.offset.interval.ms group.streams.num.standby.replicas
group.streams.num.warmup.replicas group.streams.rack.aware.assignment.tags
group.streams.session.timeout.ms group.streams.task.offset.interval.ms
group.streams.topology.description.plugin.class initial.broker.registration.timeout.ms
inter.broker.listener.name internal.metadata.delete.delay.millis
internal.metadata.log.segment.bytes internal.metadata.max.batch.size.in.bytes
kafka.metrics.polling.interval.secs kafka.metrics.reporters
leader.imbalance.check.interval.seconds log.cleaner.enable log.dir log.dir.failure.timeout.ms
log.dirs log.flush.offset.checkpoint.interval.ms log.flush.scheduler.interval.ms
log.flush.start.offset.checkpoint.interval.ms log.initial.task.delay.ms
log.retention.check.interval.ms log.retention.hours log.retention.minutes log.roll.hours
log.roll.jitter.hours max.incremental.fetch.session.cache.slots max.request.partition.size.limit
metadata.log.dir metadata.log.max.record.bytes.between.snapshots
metadata.log.max.snapshot.interval.ms metadata.log.segment.bytes metadata.log.segment.ms
metadata.max.idle.interval.ms metadata.max.retention.bytes metadata.max.retention.ms
metrics.num.samples metrics.recording.level metrics.sample.window.ms node.id num.partitions
num.replica.alter.log.dirs.threads offset.metadata.max.bytes offsets.commit.timeout.ms
offsets.load.buffer.size offsets.retention.check.interval.ms offsets.retention.minutes
offsets.topic.compression.codec offsets.topic.num.partitions offsets.topic.replication.factor
offsets.topic.segment.bytes process.roles producer.id.expiration.check.interval.ms
producer.purgatory.purge.interval.requests queued.max.request.bytes queued.max.requests
quota.window.num quota.window.size.seconds remote.log.index.file.cache.ttl.ms
remote.log.manager.copy.quota.window.num remote.log.manager.copy.quota.window.size.seconds
remote.log.manager.fetch.quota.window.num remote.log.manager.fetch.quota.window.size.seconds
remote.log.manager.task.interval.ms remote.log.manager.task.retry.backoff.max.ms
remote.log.manager.task.retry.backoff.ms remote.log.manager.task.retry.jitter
remote.log.manager.thread.pool.size remote.log.metadata.custom.metadata.max.bytes
remote.log.metadata.manager.class.name remote.log.metadata.manager.class.path
remote.log.metadata.manager.impl.prefix remote.log.metadata.manager.listener.name
remote.log.reader.max.pending.tasks remote.log.storage.manager.class.name
remote.log.storage.manager.class.path remote.log.storage.manager.impl.prefix
remote.log.storage.system.enable replica.fetch.backoff.ms replica.fetch.max.bytes
replica.fetch.min.bytes replica.fetch.response.max.bytes replica.fetch.wait.max.ms
replica.high.watermark.checkpoint.interval.ms replica.lag.time.max.ms replica.selector.class
replica.socket.receive.buffer.bytes replica.socket.timeout.ms replication.quota.window.num
replication.quota.window.size.seconds request.timeout.ms sasl.client.callback.handler.class
sasl.login.callback.handler.class sasl.login.class sasl.login.connect.timeout.ms
sasl.login.read.timeout.ms sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
sasl.mechanism.controller.protocol sasl.oauthbearer.allow.unverified.audience
sasl.oauthbearer.allow.unverified.issuer sasl.oauthbearer.assertion.algorithm
sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.exp.seconds
sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.jti.include
sasl.oauthbearer.assertion.claim.nbf.seconds sasl.oauthbearer.assertion.claim.sub
sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.private.key.file
sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.template.file
sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret
sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience
sasl.oauthbearer.expected.issuer sasl.oauthbearer.jwks.endpoint.refresh.ms
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope
sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
sasl.oauthbearer.token.endpoint.url sasl.server.callback.handler.class
sasl.server.max.receive.size security.inter.broker.protocol security.providers
server.max.startup.time.ms share.coordinator.append.linger.ms
share.coordinator.cold.partition.snapshot.interval.ms share.coordinator.load.buffer.size
share.coordinator.snapshot.update.records.per.snapshot
share.coordinator.state.topic.compression.codec share.coordinator.state.topic.min.isr
share.coordinator.state.topic.num.partitions share.coordinator.state.topic.prune.interval.ms
share.coordinator.state.topic.replication.factor share.coordinator.state.topic.segment.bytes
share.coordinator.threads share.coordinator.write.timeout.ms
share.fetch.purgatory.purge.interval.requests socket.connection.setup.timeout.max.ms
socket.connection.setup.timeout.ms socket.listen.backlog.size socket.receive.buffer.bytes
socket.request.max.bytes socket.send.buffer.bytes ssl.allow.dn.changes ssl.allow.san.changes
ssl.principal.mapping.rules telemetry.max.bytes
transaction.abort.timed.out.transaction.cleanup.interval.ms transaction.max.timeout.ms
transaction.remove.expired.transaction.cleanup.interval.ms transaction.state.log.load.buffer.size
transaction.state.log.min.isr transaction.state.log.num.partitions
transaction.state.log.replication.factor transaction.state.log.segment.bytes
transaction.two.phase.commit.enable transactional.id.expiration.ms
unclean.leader.election.interval.ms unstable.api.versions.enable unstable.feature.versions.enable
"""
#: The keys that a broker reads at its start only.
STATIC_BROKER_KEYS: Final = frozenset(_STATIC.split())
