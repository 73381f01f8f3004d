"""Rendered metrics: values, both text formats, and the rate of fetched records."""

from __future__ import annotations

import pytest
from prometheus_client import REGISTRY
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from gateway.ports.services import State
from gateway.server.management.metrics import RATE_WINDOW_S, Metrics, Rate
from gateway.server.management.metrics_broker import EACH_MAX
from tests.gateway.server.management.measured_server import (
    CONTROLLER,
    PROCESS,
    RAFT,
    everything,
    replicas,
    used_quotas,
    values,
)
from tests.gateway.server.watched import FakePartition, facts, quorum_status

TOPICS = "kafka_server_brokertopicmetrics_"
SESSIONS = "kafka_server_fetchsessioncache_"
CLEANER = "kafka_log_logcleanermanager_"
REPLICAS = "kafka_server_replicamanager_"
APPLIED = "kafka_server_broker_metadata_metrics_last_applied_record_"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (RAFT + "current_state{state=observer}", 1),
        (RAFT + "current_state{state=unattached}", 0),
        (RAFT + "current_leader", 2),
        (RAFT + "current_vote", -1),
        (RAFT + "current_epoch", 7),
        (RAFT + "high_watermark", 500),
        (RAFT + "log_end_offset", 504),
        (RAFT + "log_end_epoch", 7),
        (RAFT + "number_of_voters", 3),
        (RAFT + "fetch_records_rate", 0),
        ("kafka_server_metadataloader_currentcontrollerid", 2),
        ("kafka_server_metadataloader_handleloadsnapshotcount", 1),
        ("kafka_server_metadataloader_currentmetadataversion", 30),
        ("kafka_server_snapshotemitter_latestsnapshotgeneratedbytes", 777),
        ("kafka_server_snapshotemitter_latestsnapshotgeneratedagems", 30_000),
        (APPLIED + "offset", 499),
        (APPLIED + "timestamp", 1_699_999_999_750),
        (APPLIED + "lag_ms", 250),
        (CONTROLLER + "activecontrollercount", 1),
        (CONTROLLER + "activebrokercount", 2),
        (CONTROLLER + "fencedbrokercount", 1),
        (CONTROLLER + "controlledshutdownbrokercount", 1),
        (CONTROLLER + "brokerregistrationstate{broker=4}", 10),
        (CONTROLLER + "brokerregistrationstate{broker=5}", 20),
        (CONTROLLER + "brokerregistrationstate{broker=6}", 30),
        (CONTROLLER + "globaltopiccount", 1),
        (CONTROLLER + "globalpartitioncount", 2),
        (CONTROLLER + "offlinepartitionscount", 1),
        (CONTROLLER + "preferredreplicaimbalancecount", 1),
        (REPLICAS + "partitioncount{broker=4}", 1),
        (REPLICAS + "partitioncount{broker=6}", 1),
        (REPLICAS + "leadercount{broker=5}", 0),
        (REPLICAS + "leadercount{broker=6}", 1),
        (REPLICAS + "underreplicatedpartitions{broker=6}", 1),
        (REPLICAS + "underminisrpartitioncount{broker=6}", 0),
        (REPLICAS + "atminisrpartitioncount{broker=6}", 1),
        (REPLICAS + "reassigningpartitions{broker=6}", 1),
        (TOPICS + "messagesin_total{topic=}", 7),
        (TOPICS + "messagesin_total{topic=orders}", 7),
        (TOPICS + "bytesin_total{topic=orders}", 700),
        (TOPICS + "bytesout_total{topic=orders}", 300),
        (TOPICS + "replicationbytesout_total{topic=orders}", 200),
        (TOPICS + "totalproducerequests_total{topic=}", 3),
        (TOPICS + "failedproducerequests_total{topic=orders}", 1),
        (TOPICS + "totalfetchrequests_total{topic=}", 2),
        ("kafka_log_log_logendoffset{partition=0}{topic=orders}", 8),
        ("kafka_log_log_logstartoffset{partition=0}{topic=orders}", 3),
        ("kafka_log_log_size{partition=0}{topic=orders}", 500),
        (REPLICAS + "isrshrinks_total", 3),
        ("kwire_audit_waiting_entries", 12),
        (REPLICAS + "isrexpands_total", 2),
        (REPLICAS + "failedisrupdates_total", 1),
        (REPLICAS + "offlinereplicacount", 1),
        ("kafka_log_logmanager_offlinelogdirectorycount", 2),
        ("kafka_server_replicafetchermanager_maxlag", 9),
        (CLEANER + "max_dirty_percent", 75),
        (CLEANER + "time_since_last_run_ms", 3000),
        (CLEANER + "uncleanable_partitions_count", 1),
        ("kwire_transactions{state=Ongoing}", 2),
        ("kwire_transactions{state=PrepareAbort}", 1),
        ("kwire_transactions{state=Empty}", 0),
        ("kwire_transaction_markers_waiting", 4),
        ("kafka_server_produce_byte_rate{client_id=}{user=ann}", 2000),
        ("kafka_server_produce_byte_rate{client_id=app}{user=}", 500),
        ("kafka_server_fetch_throttle_time{client_id=}{user=ann}", 10_000),
        ("kafka_server_controllermutation_tokens{client_id=}{user=ann}", 11_000),
        ("kwire_throttled_requests_total{quota=request}", 1),
        ("kwire_throttle_seconds_total{quota=request}", 10),
        (SESSIONS + "numincrementalfetchsessions", 1),
        (SESSIONS + "numincrementalfetchpartitionscached", 2),
        (SESSIONS + "incrementalfetchsessionevictions_total", 1),
        (CONTROLLER + "metadataerrorcount", 2),
        (CONTROLLER + "lastappliedrecordoffset", 499),
        (CONTROLLER + "lastappliedrecordtimestamp", 1_699_999_999_750),
        (CONTROLLER + "lastappliedrecordlagms", 250),
        (CONTROLLER + "lastcommittedrecordoffset", 500),
        (CONTROLLER + "newactivecontrollerscount", 1),
        (CONTROLLER + "eventqueueoperationsstartedcount", 1),
        (CONTROLLER + "eventqueueoperationstimedoutcount", 1),
        (CONTROLLER + "timedoutbrokerheartbeatcount", 1),
        ("kafka_controller_controllereventmanager_eventqueueprocessingtimems_p99", 4),
        ("kafka_controller_controllerstats_uncleanleaderelections_total", 3),
        ("kafka_controller_controllerstats_electionfromeligibleleaderreplicas_total", 4),
        (
            "kwire_info{cluster_id=7QN8irUjSqO4QGNDS7ESyw}{node_id=5}"
            "{source=quorum}{version=1.2.3}",
            1,
        ),
        ("kwire_lag_offsets", 3),
        ("kwire_lag_ms", 400),
        ("kwire_copy_complete_seconds", 40),
        (RAFT + "election_latency_avg", 250.0),
        (RAFT + "election_latency_max", 400.0),
        (RAFT + "commit_latency_avg", 2.5),
        (RAFT + "commit_latency_max", 4.0),
        (RAFT + "append_records_total", 12),
        ("kwire_upstream_silent_seconds", 0.2),
        ("kwire_upstream_high_watermark", 503),
        ("kwire_upstream_fetches_total", 90),
        ("kwire_upstream_fetched_records_total", 450),
        ("kwire_upstream_fetched_bytes_total", 45_000),
        ("kwire_upstream_fetch_errors_total{kind=timeout}", 2),
        ("kwire_snapshot_downloads_total", 1),
        ("kwire_snapshot_download_position_bytes", 10),
        ("kwire_snapshot_download_size_bytes", 40),
        ("kwire_ready", 1),
        ("kwire_partition_state{state=ready}", 1),
        ("kwire_partition_state{state=stale}", 0),
        ("kwire_partition_log_start_offset", 10),
        ("kwire_partition_high_watermark", 500),
        ("kwire_partition_leader_epoch", 3),
        ("kwire_partition_size_bytes", 12_345),
        ("kwire_problems", 1),
        ("kwire_groups{state=Stable}", 2),
        ("kwire_group_members", 4),
        ("kwire_group_memory_bytes{kind=members}", 700),
        ("kwire_group_memory_bytes{kind=offsets}", 50),
        ("kwire_group_memory_largest_principal_bytes{kind=members}", 500),
        ("kwire_group_refusals_total{limit=groups.max}", 3),
        ("kwire_connections{listener=PLAINTEXT}", 4),
        ("kwire_connections{listener=CLIENTS}", 0),
        ("kwire_connections_accepted_total", 9),
        ("kwire_connections_refused_total", 1),
        ("kwire_connections_cut_total{reason=buffers.max.bytes}", 2),
        ("kwire_received_bytes_total", 100),
        ("kwire_sent_bytes_total", 2000),
        ("kwire_buffered_bytes", 30),
        ("kwire_parked_requests", 0),
        ("kwire_parked_fetches", 0),
        ("kwire_request_seconds_count{api=Fetch}", 2),
        ("kwire_request_seconds_sum{api=Fetch}", 7.0002),
        ("kwire_request_seconds_bucket{api=Fetch}{le=0.0001}", 0),
        ("kwire_request_seconds_bucket{api=Fetch}{le=0.00025}", 1),
        ("kwire_request_seconds_bucket{api=Fetch}{le=1.0}", 1),
        ("kwire_request_seconds_bucket{api=Fetch}{le=+Inf}", 2),
        ("kwire_request_waits_total{api=Fetch}", 1),
        ("kwire_request_wait_seconds_total{api=Fetch}", 0.5),
        ("kwire_request_errors_total{api=Fetch}{error=OFFSET_OUT_OF_RANGE}", 3),
        ("kwire_request_errors_total{api=Fetch}{error=999}", 1),
        ("kwire_bad_requests_total", 2),
        ("kwire_refused_requests_total", 0),
        ("kwire_internal_errors_total", 1),
        ("kwire_log_write_failures_total", 3),
        ("kwire_snapshot_failures_total", 4),
        ("kwire_offset_write_failures_total", 5),
        ("kwire_view_failures_total", 6),
        ("kwire_view_cache_hits_total", 11),
        ("kwire_view_cache_misses_total", 12),
        ("kwire_view_cache_entries", 13),
        ("kwire_view_cache_bytes", 14),
        ("kwire_kept_answer_bytes", 15),
    ],
)
def test_metric_has_the_value_of_its_source(name: str, value: float) -> None:
    assert values(everything())[name] == pytest.approx(value)


def test_current_state_of_a_node_without_a_leader_is_unattached() -> None:
    told = values(facts(quorum=quorum_status(role="unattached", leader_id=-1)))
    assert (
        told[RAFT + "current_state{state=observer}"],
        told[RAFT + "current_state{state=unattached}"],
    ) == (0, 1)


def test_server_without_a_quorum_has_no_metrics_of_one() -> None:
    told = values(facts(FakePartition(newest_ms=None)))
    assert not [
        name
        for name in told
        if name.startswith(
            (RAFT, "kwire_lag", "kwire_copy", "kwire_upstream", "kwire_snapshot_download")
        )
    ]
    assert APPLIED + "lag_ms" not in told
    assert told["kwire_partition_high_watermark"] == 500


def test_broker_with_many_topics_and_partitions_shows_the_sum_alone() -> None:
    told = values(facts(replicas=replicas(partitions=EACH_MAX + 1, topics=EACH_MAX + 1)))
    shown = [name for name in told if name.startswith((TOPICS, "kafka_log_log_"))]
    assert shown and all(name.endswith("_total{topic=}") for name in shown)


def test_quota_of_many_clients_shows_none_of_them() -> None:
    quotas = used_quotas()
    quotas.fetch.limits.set((("client-id", None),), 5)
    for number in range(EACH_MAX):
        quotas.fetch.record("bob", f"c{number}", 1, quotas.now_ms())
    told = values(facts(quotas=quotas))
    assert not [name for name in told if name.startswith("kafka_server_fetch_")]
    assert told["kwire_throttled_requests_total{quota=fetch}"] == 1


def test_server_that_is_no_broker_has_no_metrics_of_topics() -> None:
    others = ("kwire_transaction", REPLICAS + "isr", REPLICAS + "offline")
    told = values(facts())
    assert not [name for name in told if name.startswith((TOPICS, "kafka_log_", *others))]


def test_unknown_value_is_not_shown() -> None:
    told = values(facts(quorum=quorum_status(leader_high_watermark=-1, voters=[])))
    assert "kwire_lag_offsets" not in told
    assert RAFT + "number_of_voters" not in told
    assert "kwire_snapshot_download_position_bytes" not in told


def test_ready_is_0_while_the_log_is_loading() -> None:
    assert values(facts(FakePartition(State.LOADING)))["kwire_ready"] == 0


def test_value_is_read_at_each_request() -> None:
    partition = FakePartition()
    told = facts(partition)
    metrics = Metrics(told)
    assert values(told, metrics)["kwire_partition_high_watermark"] == 500
    partition.high_watermark = 501
    assert values(told, metrics)["kwire_partition_high_watermark"] == 501


@pytest.mark.parametrize(
    ("accept", "openmetrics"),
    [
        ("", False),
        ("*/*", False),
        ("text/plain;version=0.0.4;q=0.5,*/*;q=0.1", False),
        ("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5", True),
        ("Application/OpenMetrics-Text; version=9; escaping=\x00\xff", True),
        (",;,;;=", False),
    ],
)
def test_accept_header_chooses_the_format(accept: str, openmetrics: bool) -> None:
    content_type, text = Metrics(everything()).render(accept)
    assert content_type.startswith(
        "application/openmetrics-text; version=1.0.0"
        if openmetrics
        else "text/plain; version=0.0.4"
    )
    families = list((parse_openmetrics if openmetrics else parse_text)(text.decode()))
    assert {"kwire_ready", RAFT + "current_leader"} <= {family.name for family in families}
    assert text.endswith(b"# EOF\n") is openmetrics


def test_both_formats_have_the_same_metrics() -> None:
    _, text = Metrics(everything()).render("application/openmetrics-text")
    told = {
        sample.name
        for family in parse_openmetrics(text.decode())  # type: ignore[no-untyped-call]
        for sample in family.samples
        if not sample.labels
    }
    plain = {name for name in values(everything()) if "{" not in name}
    assert {name for name in told if not name.startswith(PROCESS)} == {
        name for name in plain if not name.startswith(PROCESS)
    }


def test_two_servers_in_one_process_share_no_registry() -> None:
    before = {family.name for family in REGISTRY.collect()}
    one, other = FakePartition(high_watermark=1), FakePartition(high_watermark=2)
    metrics = [(told, Metrics(told)) for told in (facts(one), facts(other))]
    assert [values(*pair)["kwire_partition_high_watermark"] for pair in metrics] == [1, 2]
    assert {family.name for family in REGISTRY.collect()} == before


def test_metrics_of_forwarded_requests() -> None:
    told = values(everything())
    manager = "kafka_server_forwardingmanager_"
    assert {
        name: told[manager + name]
        for name in ("queuelength", "queuetimems_p99", "queuetimems_p999")
    } == {
        "queuelength": 3,
        "queuetimems_p99": pytest.approx(99),
        "queuetimems_p999": pytest.approx(100),
    }
    assert told[f"{manager}remotetimems_p99"] == pytest.approx(990)
    assert told["kwire_num_client_forwarding_to_controller"] == 2
    assert told["kwire_num_messages_redirected_total"] == 8
    assert told["kwire_request_forwarding_to_controller_authorization_fail_total"] == 1


def rates(*pairs: tuple[float, float]) -> list[float]:
    rate = Rate()
    return [rate.per_second(number, at_s) for at_s, number in pairs]


def test_rate_is_the_mean_over_the_window() -> None:
    assert rates((100, 50), (115, 200), (130, 500), (145, 500))[1:] == pytest.approx([10, 15, 10])


def test_rate_forgets_values_before_the_window() -> None:
    assert rates((0, 0), (1000, 1000), (1000 + RATE_WINDOW_S, 1000))[-1] == 0


def test_rate_does_not_depend_on_the_number_of_scrapers() -> None:
    often = Rate()
    told = [often.per_second(10 * step / 100, step / 100) for step in range(6001)]
    assert told[-1] == pytest.approx(10)
    assert len(often._looks) < 40


def test_rate_is_0_without_two_values_and_time_between_them() -> None:
    assert rates((5, 100), (5, 200)) == [0, 0]
