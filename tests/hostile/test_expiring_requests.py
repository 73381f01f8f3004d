"""Many long requests whose timeouts end at the same moment, before the controller has decided."""

from __future__ import annotations

import threading
import time

from tests.gateway.controller.cluster import create
from tests.hostile.bystander import assert_others_undisturbed, attacked_quorum
from tools.wire_client import WireClient

TOPICS, CONNECTIONS = 9_000, 40
#: Time from the first request to the moment at which all of them expire, s. An idle machine decides
#: on half of the requests in 4 s.
EXPIRE_S = 2.5


def test_requests_that_expire_together_disturb_no_other_client() -> None:
    topics = [{"name": f"t{number}"} for number in range(TOPICS)]
    with attacked_quorum() as cluster:
        address = cluster.wait_for_leader().broker_address
        expired: list[int] = []

        def ask(expires_at: float) -> None:
            with WireClient(address, timeout_s=60) as client:
                left_ms = max(1, int(1000 * (expires_at - time.monotonic())))
                request = create(*topics, validate_only=True, timeout_ms=left_ms)
                answer = client.call(request, 7)
                expired.append(sum(topic.error_code == 7 for topic in answer.topics))

        def attack() -> None:
            expired.clear()
            expires_at = time.monotonic() + EXPIRE_S
            threads = [threading.Thread(target=ask, args=(expires_at,)) for _ in range(CONNECTIONS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert expired.count(TOPICS) >= CONNECTIONS // 2, "too few requests expired"

        assert_others_undisturbed(cluster, attack, memory_mib=256)
