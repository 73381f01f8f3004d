"""``python -m tools.check``: runs every check of the project, the cheapest first, and prints a line
with the time of each.

CI and developers run the same list; interoperability tests, which need Java and real clients, come
after it in ``make test``.
"""

from __future__ import annotations

import sys
import time

import click

from tools.check.steps import STEPS, Failed, Step


@click.command(epilog="Examples: python -m tools.check --fix; python -m tools.check lint types")
@click.option(
    "--fix",
    is_flag=True,
    help="Rewrite what can be rewritten: generated files, formatting, simple lint.",
)
@click.option("--list", "list_only", is_flag=True, help="Name the steps and stop.")
@click.argument("names", nargs=-1, metavar="[STEP]...")
def main(fix: bool, list_only: bool, names: tuple[str, ...]) -> None:
    """Run all steps, or the named ones; every failure is printed, and the exit status is 1 if there
    was one.
    """
    unknown = set(names) - {step.name for step in STEPS}
    if unknown:
        raise click.UsageError(
            f"no step {', '.join(sorted(unknown))}; there are: {', '.join(s.name for s in STEPS)}"
        )
    steps = [step for step in STEPS if not names or step.name in names]
    if list_only:
        for step in steps:
            click.echo(f"{step.name:<10} {step.title}")
        return
    began = time.monotonic()
    failed = [
        step.name
        for number, step in enumerate(steps, 1)
        if not _run(step, f"{number}/{len(steps)}", fix)
    ]
    verdict = f"failed: {', '.join(failed)}" if failed else f"all {len(steps)} steps passed"
    click.echo(f"{verdict}, {time.monotonic() - began:.1f} s")
    sys.exit(1 if failed else 0)


def _run(step: Step, number: str, fix: bool) -> bool:
    click.echo(f"{number} {step.title} ... ", nl=step.talks)
    began = time.monotonic()
    try:
        detail, ok = step.run(fix), True
    except Failed as failure:
        detail, ok = str(failure), False
    took = f"{time.monotonic() - began:.1f} s"
    if ok:
        click.echo(f"{'  ' if step.talks else ''}ok, {took}{f' ({detail})' if detail else ''}")
    else:
        click.echo(f"{'  ' if step.talks else ''}FAILED, {took}\n{detail}")
    return ok


if __name__ == "__main__":
    main()
