"""The unit tests that find the seeded bugs which no schedule finds: another core makes up for the
fault, or the simulation's clients do not do what the bug is about.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from gateway.broker.replica.followed import CutTo
from kwire.protocol import ErrorCode
from tests.gateway.broker.produce import test_producer_state as producer_state
from tests.gateway.broker.produce import test_transactions as transactions
from tests.gateway.broker.replica import test_fetcher as fetcher
from tests.gateway.broker.replica import test_leader as leader
from tests.gateway.controller import test_alter_isr as alter_isr
from tests.gateway.controller import test_broker_heartbeat as heartbeat
from tests.gateway.controller import test_leader_election as leader_election
from tests.gateway.handlers.apis import test_fetch as fetch
from tests.gateway.server.broker import test_alter_partition_manager as alter_partition_manager
from tests.gateway.sources import test_follower_appends as follower_appends


class UnitTest(NamedTuple):
    """``test`` fails with ``arguments`` where the bug is; ``writes``: it gets a directory, too."""

    test: Callable[..., object]
    arguments: tuple[Any, ...] = ()
    writes: bool = False

    def run(self, directory: Path) -> None:
        """Raises AssertionError, or Failed of pytest."""
        if self.writes:
            directory.mkdir()
        try:
            self.test(*([directory] if self.writes else []), *self.arguments)
        except ExceptionGroup as group:  # of a nursery
            failures, _ = group.split(AssertionError)
            raise (failures or group).exceptions[0] from group

    def __str__(self) -> str:
        return f"`{self.test.__module__.replace('.', '/')}.py`: {self.test.__name__}"


UNIT_TESTS: Final = {
    "unfenced_brokers_take_no_leadership": UnitTest(
        leader_election.test_last_isr_member_leads_when_it_returns
    ),
    "broker_epochs_of_the_isr_are_not_compared": UnitTest(
        alter_isr.test_alter_isr_changes_the_isr_as_kip_497_says
    ),
    "partition_epochs_are_not_compared": UnitTest(
        alter_isr.test_alter_isr_changes_the_isr_as_kip_497_says
    ),
    "shutdown_before_leaders_have_moved": UnitTest(
        heartbeat.test_broker_with_leaderships_waits_until_the_others_have_read_the_move
    ),
    "keeps_what_may_be_of_another_history": UnitTest(
        fetcher.test_log_of_which_the_leader_has_deleted_all_that_may_agree_begins_anew, (4,)
    ),
    "out_of_range_starts_anew": UnitTest(
        fetcher.test_position_outside_of_the_leaders_log, ((0, 6), CutTo)
    ),
    "new_offsets_are_not_sent": UnitTest(
        fetcher.test_request_in_a_session_names_only_partitions_that_moved
    ),
    "fetches_without_its_broker_epoch": UnitTest(
        fetcher.test_first_request_names_every_partition_with_its_position_and_the_broker
    ),
    "joins_without_broker_epochs": UnitTest(
        leader.test_follower_with_the_high_watermark_and_the_start_of_the_epoch_joins
    ),
    "older_records_count": UnitTest(leader.test_record_behind_the_answer_counts_for_nothing),
    "refused_proposals_stay": UnitTest(
        leader.test_high_watermark_waits_for_a_replica_that_is_about_to_join
    ),
    "fetches_of_replaced_brokers_count": UnitTest(
        leader.test_broker_that_may_not_be_elected_does_not_join, ("restarted",)
    ),
    "sequences_are_not_compared": UnitTest(
        producer_state.test_gap_in_the_sequence_is_refused, (5,)
    ),
    "old_epochs_are_taken": UnitTest(
        producer_state.test_older_epoch_is_refused_and_a_newer_one_begins_with_0
    ),
    "any_marker_is_taken": UnitTest(
        transactions.test_a_marker_of_an_older_producer_or_coordinator_is_refused
    ),
    "a_broker_that_leads_is_truncated": UnitTest(
        follower_appends.test_step_that_waited_is_not_carried_out_by_a_leader, writes=True
    ),
    "lost_answers_end_proposals": UnitTest(
        alter_partition_manager.test_request_that_failed_as_a_whole_is_made_again,
        (ErrorCode.STALE_BROKER_EPOCH,),
        writes=True,
    ),
    "followers_of_any_epoch": UnitTest(
        fetch.test_response_to_an_old_epoch_names_the_leader_from_version_16_on
    ),
}
