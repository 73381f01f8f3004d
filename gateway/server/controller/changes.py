"""Which of the proposals that were committed are changes that a client asked for: told to the
server's log, and to the account.

Knows how a change stands in the log, and nothing of what it is about, nor of who leads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gateway.controller.apis import admin_api
from gateway.server.logs import escape
from gateway.views.audit import Change

if TYPE_CHECKING:
    from gateway.server.controller.audit_log_writer import AuditLogWriter
    from gateway.server.controller.proposals import Proposal
    from gateway.server.logs import Reports
    from kwire.message import Message

#: Changes of unknown fate that are remembered, in case that they come to be committed.
_UNDECIDED_MAX: Final = 10_000


class Changes:
    """Those of one node."""

    def __init__(
        self,
        node_id: int,
        reports: Reports,
        audit: AuditLogWriter | None,
        epoch_at: Callable[[int], int],
    ) -> None:
        """``audit``: who keeps an account, if anybody does. ``epoch_at``: in which epoch what is
        committed at an offset was written, -1 where nobody knows.
        """
        self._node_id = node_id
        self._reports = reports
        self._audit = audit
        self._epoch_at = epoch_at
        self._undecided: list[Change] = []  # appended by this node, and not committed while it led

    def committed(
        self,
        proposals: Iterable[Proposal],
        epoch: int,
        high_watermark: int,
        now_ms: int,
        then: Callable[[], None],
    ) -> None:
        """These were, of the leader of ``epoch``; ``then`` is called when it is written down who
        asked, mostly at once.
        """
        changes = self._decided(high_watermark, now_ms) if self._undecided else []
        changes += [
            change for one in proposals if (change := self._change(one, epoch, now_ms)) is not None
        ]
        for change in changes:
            self._tell_of(change)
        if changes and self._audit is not None:
            self._audit.record(changes, then)
        else:
            then()

    def left(self, proposals: Iterable[Proposal], epoch: int) -> None:
        """The leader of ``epoch`` leads no longer, and has not seen these committed: some may be
        yet.
        """
        appended = [one for one in proposals if one.end_offset is not None]
        self._undecided += [
            change for one in appended if (change := self._change(one, epoch, 0)) is not None
        ]
        del self._undecided[:-_UNDECIDED_MAX]

    def _decided(self, high_watermark: int, now_ms: int) -> list[Change]:
        """What this node appended in an earlier office, and another leader has committed: nobody
        else knows who asked for it.

        An epoch has one leader, so that its records stand where they were appended, or are gone.
        """
        decided = [change for change in self._undecided if change.last_offset < high_watermark]
        self._undecided = [
            change for change in self._undecided if change.last_offset >= high_watermark
        ]
        return [
            replace(one, time_ms=now_ms)
            for one in decided
            if self._epoch_at(one.last_offset) == one.leader_epoch
        ]

    def _change(self, proposal: Proposal, epoch: int, now_ms: int) -> Change | None:
        """What somebody asked for, and where it stands in the log; None for what nobody is told of."""
        assert proposal.end_offset is not None, "it was appended"
        queued = proposal.change
        if queued is None or not _is_audited(queued.request):
            return None
        first, last = proposal.end_offset - proposal.records, proposal.end_offset - 1
        return Change(
            queued.request,
            queued.version,
            queued.requester,
            self._node_id,
            epoch,
            first,
            last,
            now_ms,
        )

    def _tell_of(self, change: Change) -> None:
        requester = change.requester
        self._reports.audit(
            "metadata changed",
            api=change.api,
            principal=escape(requester.principal),
            host=requester.host,
            client_id=escape(requester.client_id),
            offset=change.offset,
            last_offset=change.last_offset,
        )


def _is_audited(request: Message) -> bool:
    assert request.API_KEY is not None, "only requests are carried out"
    return admin_api(request.API_KEY).is_audited
