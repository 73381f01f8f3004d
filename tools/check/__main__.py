"""``python -m tools.check``: runs every check of the project, the cheapest first, and prints a line
with the time of each.

CI and developers run the same list; interoperability tests, which need Java and real clients, come
after it in ``make test``. Steps that measure, as ``waits`` does, run only where they are named.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import click

from tools.check.steps import STEPS, Failed, Step
from tools.process import run_behind_others


@click.command(epilog="Examples: python -m tools.check --fix; python -m tools.check lint types")
@click.option(
    "--fix",
    is_flag=True,
    help="Rewrite what can be rewritten: generated files, formatting, simple lint.",
)
@click.option("--list", "list_only", is_flag=True, help="Name the steps and stop.")
@click.argument("names", nargs=-1, metavar="[STEP]...")
def main(fix: bool, list_only: bool, names: tuple[str, ...]) -> None:
    """Run all steps that can block a change, or the named ones; every failure is printed, and the
    exit status is 1 if there was one.
    """
    unknown = set(names) - {step.name for step in STEPS}
    if unknown:
        raise click.UsageError(
            f"no step {', '.join(sorted(unknown))}; there are: {', '.join(s.name for s in STEPS)}"
        )
    if list_only:
        for step in STEPS:
            when = " (only where it is named)" if step.on_demand else ""
            click.echo(f"{step.name:<10} {step.title}{when}")
        return
    steps = [step for step in STEPS if (step.name in names if names else not step.on_demand)]
    began = time.monotonic()
    failed = _failed(steps, fix)
    verdict = f"failed: {', '.join(failed)}" if failed else f"all {len(steps)} steps passed"
    click.echo(f"{verdict}, {time.monotonic() - began:.1f} s")
    sys.exit(1 if failed else 0)


def _failed(steps: Sequence[Step], fix: bool) -> list[str]:
    """Run the steps, and return the names of those that failed."""
    numbered = [(step, f"{number}/{len(steps)}") for number, step in enumerate(steps, 1)]
    first = [one for one in numbered if not (one[0].talks or one[0].beside)]
    beside = [one for one in numbered if one[0].beside]
    last = [one for one in numbered if one[0].talks]
    done = {step.name: _run(step, at, fix) for step, at in first}
    with ThreadPoolExecutor(1, initializer=run_behind_others) as pool:
        running = [pool.submit(_run, step, at, fix, whole_line=True) for step, at in beside]
        done |= {step.name: _run(step, at, fix) for step, at in last}
        done |= {step.name: one.result() for (step, _), one in zip(beside, running, strict=True)}
    return [step.name for step in steps if not done[step.name]]


def _run(step: Step, number: str, fix: bool, *, whole_line: bool = False) -> bool:
    """Run a step, and print its line: at once, or, as a ``whole_line``, when it has ended."""
    heading = f"{number} {step.title} ... "
    if not whole_line:
        click.echo(heading, nl=step.talks)
    began = time.monotonic()
    try:
        detail, ok = step.run(fix), True
    except Failed as failure:
        detail, ok = str(failure), False
    took = f"{time.monotonic() - began:.1f} s"
    before = f"\n{heading}" if whole_line else "  " if step.talks else ""
    told = f"ok, {took}{f' ({detail})' if detail else ''}" if ok else f"FAILED, {took}\n{detail}"
    click.echo(f"{before}{told}")
    return ok


if __name__ == "__main__":
    main()
