"""Writes a report as JUnit XML, which continuous integration servers show."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from kwire.conformance.outcome import Outcome, Report, Result

_SKIPPED = (Outcome.NOT_OFFERED, Outcome.NOT_APPLICABLE, Outcome.NOT_TRIED, Outcome.BLOCKED)


def report_junit(report: Report) -> str:
    """Return the XML: a test suite for each family, a test case for each rule.

    Rules that were not tried, or are blocked, are skipped tests. Deviations, advice and allowed
    failures pass, and say so in their output.
    """
    root = ElementTree.Element("testsuites", name=f"kwire conform {report.target}")
    for family in dict.fromkeys(result.rule.family for result in report.results):
        results = [result for result in report.results if result.rule.family == family]
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=family,
            tests=str(len(results)),
            failures=str(sum(result.outcome.is_failure for result in results)),
            errors=str(sum(result.outcome is Outcome.ERROR for result in results)),
            skipped=str(sum(result.outcome in _SKIPPED for result in results)),
            time=f"{sum(result.duration_s for result in results):.3f}",
        )
        for result in results:
            _case(suite, report, result)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ElementTree.Element, report: Report, result: Result) -> None:
    rule = result.rule
    case = ElementTree.SubElement(
        suite,
        "testcase",
        classname=f"conform.{rule.family}",
        name=rule.id,
        time=f"{result.duration_s:.3f}",
    )
    by = f" (blocked by {result.blocked_by})" if result.blocked_by else ""
    sentence = _printable(result.sentence + by)
    if result.outcome in _SKIPPED:
        ElementTree.SubElement(case, "skipped", message=sentence)
    elif result.outcome.is_failure or result.outcome is Outcome.ERROR:
        kind = "error" if result.outcome is Outcome.ERROR else "failure"
        found = ElementTree.SubElement(case, kind, message=sentence, type=result.outcome.value)
        found.text = _printable(
            f"{rule.says}\nsource: {rule.source} {rule.section}\nagain: {report.repeat(result)}"
        )
    elif sentence:
        ElementTree.SubElement(case, "system-out").text = f"{result.outcome.value}: {sentence}"


def _printable(text: str) -> str:
    """Replace characters that XML cannot hold: a server's answer may be quoted."""
    return "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text)
