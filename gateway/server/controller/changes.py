"""Reports each committed proposal that a client requested: to the server's log and the audit log.

The audit entry is written before the response is sent. This module knows the offsets of a change in
the metadata log; ``gateway.controller.apis`` knows which requests are changes, and
``audit_log_writer`` writes the entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gateway.controller.apis import admin_api
from gateway.server.logging.logs import escape
from gateway.views.audit import Change

if TYPE_CHECKING:
    from gateway.server.controller.audit_log_writer import AuditLogWriter
    from gateway.server.controller.proposals import Proposal
    from gateway.server.logging.logs import Reports
    from kwire.message import Message

#: Maximum number of changes that are remembered because another leader may commit them.
_UNDECIDED_MAX: Final = 10_000


class Changes:
    """Reports the changes that this node has carried out as leader."""

    def __init__(
        self,
        node_id: int,
        reports: Reports,
        audit: AuditLogWriter | None,
        epoch_at: Callable[[int], int],
    ) -> None:
        """``audit``: the writer of the audit log, if there is one. ``epoch_at`` returns the epoch
        of the committed record at an offset, -1 if it is not known.
        """
        self._node_id = node_id
        self._reports = reports
        self._audit = audit
        self._epoch_at = epoch_at
        # Appended by this node, and not committed while it led.
        self._undecided: list[Change] = []

    def committed(
        self,
        proposals: Iterable[Proposal],
        epoch: int,
        high_watermark: int,
        now_ms: int,
        on_written: Callable[[], None],
    ) -> None:
        """Report ``proposals``, which are committed; this node leads ``epoch``.

        ``on_written`` is called when the audit entries are written, usually before this returns.
        """
        changes = self._decided(high_watermark, now_ms) if self._undecided else []
        changes += [
            change for one in proposals if (change := self._change(one, epoch, now_ms)) is not None
        ]
        for change in changes:
            self._report(change)
        if changes and self._audit is not None:
            self._audit.record(changes, on_written)
        else:
            on_written()

    def on_leadership_lost(self, proposals: Iterable[Proposal], epoch: int) -> None:
        """This node leads ``epoch`` no longer. The next leader may still commit ``proposals``."""
        appended = [one for one in proposals if one.end_offset is not None]
        self._undecided += [
            change for one in appended if (change := self._change(one, epoch, 0)) is not None
        ]
        del self._undecided[:-_UNDECIDED_MAX]

    def _decided(self, high_watermark: int, now_ms: int) -> list[Change]:
        """Changes that this node appended in an earlier epoch and a later leader has committed.

        The later leader cannot report them: only this node knows their requesters. A record of that
        epoch at the change's offset is the change itself, because an epoch has one leader.
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
        """The change that a proposal carries out; None if no client requested one."""
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

    def _report(self, change: Change) -> None:
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
