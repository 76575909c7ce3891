"""A verdict as JUnit XML, which CI systems show: one test case per cell and per place."""

from __future__ import annotations

import re
from collections import defaultdict
from xml.etree import ElementTree

from jobs.findings import REGRESSIONS, Finding, NightVerdict
from jobs.message import Message, plain

# What an engine's log may hold and XML may not, not even escaped.
_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(verdict: NightVerdict) -> str:
    """The XML: a regression is a failure, a failed cell an error, what is not compared skipped."""
    findings: defaultdict[str, list[Finding]] = defaultdict(list)
    for finding in verdict.findings:
        findings[finding.about].append(finding)
    left_out = {one.label: one.reason for one in verdict.left_out}
    suite = ElementTree.Element("testsuite", name=verdict.suite, timestamp=verdict.at)
    for name in dict.fromkeys([*verdict.cells, *left_out, *findings]):
        case = ElementTree.SubElement(suite, "testcase", classname=verdict.suite, name=name)
        _outcome(case, findings[name], left_out.get(name))
    for kind in ("failure", "error", "skipped"):
        count = sum(case.find(kind) is not None for case in suite)
        suite.set({"failure": "failures", "error": "errors"}.get(kind, kind), str(count))
    return _text(suite)


def without_verdict(message: Message) -> str:
    """The XML of a night that has no verdict: one error, which is its message."""
    suite = ElementTree.Element("testsuite", name="nightly", failures="0", errors="1", skipped="0")
    case = ElementTree.SubElement(suite, "testcase", classname="nightly", name="the night")
    error = ElementTree.SubElement(case, "error", message=message.title, type="no verdict")
    error.text = plain(message)
    return _text(suite)


def _text(suite: ElementTree.Element) -> str:
    suite.set("tests", str(len(suite)))
    ElementTree.indent(suite)
    text = ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)
    return _NOT_XML.sub("?", text) + "\n"


def _outcome(case: ElementTree.Element, findings: list[Finding], left_out: str | None) -> None:
    """The worst of what is said about one cell; the rest is its output."""
    bad = [one for one in findings if one.kind in REGRESSIONS]
    failed = [one for one in findings if one.kind == "failed"]
    skipped = [one for one in findings if one.kind in ("no baseline", "not comparable")]
    told = [one for one in findings if one not in (*bad, *failed, *skipped)]
    for tag, found in (("failure", bad), ("error", failed), ("skipped", skipped)):
        if found:
            element = ElementTree.SubElement(
                case, tag, message=found[0].sentence, type=found[0].kind
            )
            element.text = "\n".join(one.sentence for one in found)
            break
    else:
        if left_out is not None:
            ElementTree.SubElement(case, "skipped", message=left_out)
    if told:
        output = ElementTree.SubElement(case, "system-out")
        output.text = "\n".join(f"{one.kind}: {one.sentence}" for one in told)
