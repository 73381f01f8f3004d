"""Shows copies of a metadata log, the verdict on them and a rescue as text. It reads no copy, and
makes no JSON: ``rescue_json`` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.rescue_json import role_in
from gateway.cli.state import path_text
from gateway.log.metadata.releases import release_of
from gateway.rescue.copies import Copy
from gateway.rescue.verdict import Beside, Judgement
from gateway.rescue.write import journal_of
from kwire.metadata_log.at import time_text
from kwire.printable import printable

if TYPE_CHECKING:
    from gateway.cli.rescue_write import Job


def print_copies(copies: Sequence[Copy], verdict: Judgement) -> None:
    """Print a table with a line for each copy, and what else is known of each below it."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold")
    for name in ("copy", "node", "role", "epoch", "start", "end", "last record", "state"):
        table.add_column(name, overflow="fold")
    for one in copies:
        table.add_row(*map(printable, _row(one, role_in(one, copies, verdict))))
    Console(markup=False, highlight=False).print(table)
    for one in copies:
        click.echo()
        for line in _copy_lines(one):
            click.echo(printable(line))
    click.echo()


def _row(copy: Copy, role: str) -> list[str]:
    node = copy.identity.node_id
    return [
        copy.where,
        "" if node is None else str(node),
        role,
        "" if copy.is_empty else str(copy.end.epoch),
        str(copy.start_offset),
        str(copy.end.end_offset),
        "" if copy.last_timestamp is None else time_text(copy.last_timestamp),
        "whole" if copy.is_whole else "damaged",
    ]


def _copy_lines(copy: Copy) -> Iterator[str]:
    who, contents, election = copy.identity, copy.contents, copy.election
    yield f"{copy.where}:"
    yield f"  cluster {who.cluster_id or 'unknown'}, directory {who.directory_id or 'unknown'}"
    level = release_of(contents.metadata_version) if contents else "unknown"
    yield f"  metadata.version {level}, kraft.version {copy.kraft_version}{_voters(copy)}"
    if copy.snapshot is not None:
        yield f"  newest whole snapshot {copy.snapshot.file_name}"
    if election is not None:
        yield (
            f"  quorum-state: epoch {election.epoch}, leader {_id(election.leader_id)}, vote"
            f" {_id(election.voted_id)} (version {election.version})"
        )
    for one in copy.damage:
        yield f"  DAMAGED: {one}"
    for note in copy.notes:
        yield f"  note: {note}"


def _voters(copy: Copy) -> str:
    voters = copy.newest_voters
    if voters is None:
        return ""
    named = ", ".join(f"{one.id}@{_endpoints(one.endpoints)}" for one in voters)
    return f", voters {named} (record at offset {copy.voters[-1][0]})"


def _endpoints(endpoints: Any) -> str:
    return "+".join(str(at) for at in endpoints.values()) or "?"


def _id(node_id: int) -> str:
    return "none" if node_id < 0 else str(node_id)


def verdict_text(verdict: Judgement) -> str:
    """Return the verdict in sentences."""
    lines = [f"objection: {one}" for one in verdict.objections]
    if verdict.best is None:
        return printable_lines([*lines, f"verdict: {verdict.reason}"])
    best, loss = verdict.best, verdict.loss
    lines.append(f"best copy: {best.where}: {verdict.reason}")
    if not best.is_whole:
        lines.append(
            f"  it is damaged: everything behind offset {best.end.end_offset} is lost if there is"
            " no other copy"
        )
    if loss is not None:
        lines += _loss_lines(verdict, loss.is_excluded)
    lines.append(_epoch_line(verdict))
    lines += [_beside_line(one) for one in verdict.beside]
    return printable_lines(lines)


def printable_lines(lines: Sequence[str]) -> str:
    """Return the lines as one text, with characters escaped that a terminal would interpret."""
    return "\n".join(map(printable, lines))


def _loss_lines(verdict: Judgement, is_excluded: bool) -> Iterator[str]:
    loss, best = verdict.loss, verdict.best
    assert loss is not None and best is not None
    if is_excluded:
        yield f"loss: excluded: {loss.reason}"
        return
    since = (
        "" if best.last_timestamp is None else f" (its last is of {time_text(best.last_timestamp)})"
    )
    yield f"loss: cannot be excluded: {loss.reason}"
    yield f"  records from offset {loss.from_offset} on may be missing{since}"
    if loss.certain_offset < loss.from_offset:
        yield (
            f"  only its records below offset {loss.certain_offset} are sure to be committed: its"
            " last ones may not be, and others be missing in their place"
        )


def _epoch_line(verdict: Judgement) -> str:
    if verdict.new_epoch is None:
        return f"epoch: the highest seen is {verdict.epoch_seen}: there is no epoch above it to use"
    return f"epoch: {verdict.epoch_seen} is the highest seen, a rescue uses {verdict.new_epoch}"


def _beside_line(one: Beside) -> str:
    parts = one.comparison.parts_at
    history = "" if parts is None else f"parts at offset {parts}; "
    return f"{one.copy.where} ({one.role}): {history}{one.advice}"


def _changes(job: Job) -> Iterator[str]:
    if job.dropped:
        kinds = ", ".join(f"{count} {name}" for name, count in sorted(job.dropped.items()))
        yield f"  dropped records: {kinds}"
    if not job.changes:
        yield "  the state of the cluster does not change"
    for one in job.changes:
        yield f"  the state changes: {one.change} {path_text(one.place)}"


def job_lines(job: Job, is_written: bool) -> Iterator[str]:
    """Yield what a rescue does or did, why, and what is to be done next."""
    if job.is_done:
        yield "done already: each directory has these voters at its end; nothing was changed"
        for one in job.targets:
            if one.copy.election is not None:
                journal = journal_of(Path(one.where), one.copy.election.epoch)
                yield f"  what was done, and the steps that follow: {journal}"
        return
    if job.plan is None:
        yield "refused, and nothing was changed:"
        yield from (f"  * {one}" for one in job.refusals)
        return
    plan, source = job.plan, job.source
    yield "written:" if is_written else "would write (add --yes):"
    yield f"  from {source.where}, {job.verdict.reason}"
    yield (
        f"  epoch {plan.epoch}: {job.verdict.epoch_seen} is the highest that a copy has seen; the"
        " first leader gets the one after it"
    )
    if job.asked.snapshot:
        yield f"  a snapshot of the state before offset {plan.end_offset}, in place of the log"
    elif plan.is_static:
        yield "  no record: kraft.version is 0, so that the configuration names the voters"
    else:
        named = ", ".join(f"{one.id}@{_endpoints(one.endpoints)}" for one in plan.voters)
        size = len(plan.batch)
        yield f"  one record at offset {plan.end_offset - 1}, {size} bytes: voters {named}"
    yield from _changes(job)
    loss = job.verdict.loss
    if loss is not None and loss.is_excluded:
        yield f"  nothing {'else ' if job.dropped else ''}can be missing: {loss.reason}"
    elif loss is not None:
        yield f"  ACCEPTED: records from offset {loss.from_offset} on may be missing: {loss.reason}"
    for one in job.targets:
        kind = "new directory" if one.is_new else "directory"
        yield f"  {kind} {one.where} of node {one.voter_id}"
    yield "then:"
    yield from (f"  {number}. {one}" for number, one in enumerate(job.steps(), 1))
