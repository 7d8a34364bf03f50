"""junit.xml: as expected passes, not as expected fails, an infrastructure error is an error."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from runner.application.report import INFRASTRUCTURE, BatchReport, TaskReport

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 §2.2 has no place for, not even escaped."""


def render_junit(report: BatchReport) -> bytes:
    """Return the report as JUnit XML; a task that has not ended is skipped."""
    suite = ET.Element("testsuite", name=report.batch.spec.name)
    kinds = [_add_case(suite, report.batch.spec.name, task) for task in report.tasks]
    seconds = sum(task.clocks.running_milliseconds for task in report.tasks) / 1000
    suite.set("tests", str(len(kinds)))
    suite.set("failures", str(kinds.count("failure")))
    suite.set("errors", str(kinds.count("error")))
    suite.set("skipped", str(kinds.count("skipped")))
    suite.set("time", f"{seconds:.3f}")
    suite.set("timestamp", report.batch.created_at.strftime("%Y-%m-%dT%H:%M:%S"))
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    text: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _add_case(suite: ET.Element, batch: str, task: TaskReport) -> str:
    case = ET.SubElement(suite, "testcase", classname=batch, name=task.task.spec.name)
    case.set("time", f"{task.clocks.running_milliseconds / 1000:.3f}")
    kind = _kind(task)
    if kind:
        told = task.outcome.value if task.outcome else f"not ended: {task.state.value}"
        element = ET.SubElement(case, kind, message=_clean(f"{told}: {task.run.reason}"))
        if kind != "skipped":
            element.set("type", told)
            wanted = ", ".join(one.value for one in task.task.spec.expect)
            element.text = _clean(f"expected {wanted}; {task.run.reason}")
    return kind


def _kind(task: TaskReport) -> str:
    if task.outcome is None:
        return "skipped"
    if task.expected:
        return ""
    return "error" if task.outcome in INFRASTRUCTURE else "failure"


def _clean(text: str) -> str:
    return _NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", text)
