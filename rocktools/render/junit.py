"""An assessment as JUnit XML, which CI systems show: a test case for each check."""

from __future__ import annotations

from xml.etree import ElementTree

from rocktools.compare.track import Assessment, State


def render_junit(assessment: Assessment) -> str:
    """The XML. A check that warns passes, with its message as output."""
    failed = sum(check.state is State.FAIL for check in assessment.checks)
    suite = ElementTree.Element(
        "testsuite",
        name=f"rocktools track{' ' + assessment.label if assessment.label else ''}",
        tests=str(len(assessment.checks)),
        failures=str(failed),
        errors="0",
    )
    for check in assessment.checks:
        name = f"{check.name} {check.subject}".strip()
        case = ElementTree.SubElement(suite, "testcase", classname="rocktools.track", name=_xml(name))
        if check.state is State.FAIL:
            failure = ElementTree.SubElement(
                case, "failure", message=_xml(check.message), type=check.cause or check.name
            )
            failure.text = _xml(check.message)
        else:
            ElementTree.SubElement(case, "system-out").text = _xml(f"{check.state}: {check.message}")
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _xml(text: str) -> str:
    """Without what XML 1.0 cannot hold."""
    return "".join(letter if _is_xml(ord(letter)) else "?" for letter in text)


def _is_xml(code: int) -> bool:
    return code in (0x09, 0x0A) or 0x20 <= code < 0xD800 or 0xE000 <= code <= 0xFFFD or code > 0xFFFF
