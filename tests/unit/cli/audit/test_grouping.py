"""Many findings on one screen, and the summary for whoever decides."""

from services.cli.audit.checks import CHECKS
from services.cli.audit.findings import Finding, Gap, Report, Severity
from services.cli.audit.grouping import Bundle, Rest, Topic, bundled, shortened, summarised


def finding(subject: str, *, check: str = "node-old-runtime", found: str = "old", grave: bool = False) -> Finding:
    """Return a finding."""
    return Finding(
        check=check,
        severity=Severity.ERROR if grave else Severity.WARNING,
        subject=subject,
        field="f",
        found=found,
        fix="upgrade",
    )


def report(*findings: Finding, gaps: tuple[Gap, ...] = ()) -> Report:
    """Return a report of these findings."""
    return Report(origin="o", server_version="", target="1.37", findings=findings, gaps=gaps, passed=())


def test_equal_findings_are_one_line_with_the_first_objects() -> None:
    """Five thousand nodes with one problem are one thing to read."""
    (found,) = bundled([finding(f"node/{number:04}") for number in range(5000)])
    assert len(found.subjects) == 5000
    assert found.shown_subjects == "node/0000, node/0001, node/0002 and 4997 more"


def test_findings_that_differ_stay_apart_up_to_a_screen() -> None:
    """The largest bundles of a check are shown; what is left out is counted, and nothing is lost."""
    findings = [finding(f"node/{number}", found=f"kernel {number % 40}") for number in range(100)]
    shown = list(shortened(findings, most=5))
    bundles = [one for one in shown if isinstance(one, Bundle)]
    (rest,) = [one for one in shown if isinstance(one, Rest)]
    assert len(bundles) == 5
    assert all(len(one.subjects) == 3 for one in bundles)
    assert rest.findings + sum(len(one.subjects) for one in bundles) == 100


def test_severities_of_one_check_are_not_mixed() -> None:
    """An error is never hidden behind warnings of the same check."""
    shown = list(shortened([finding("a", grave=True), *(finding(f"b-{n}", found=str(n)) for n in range(9))], most=5))
    assert [one.first.subject for one in shown if isinstance(one, Bundle) and one.first.severity is Severity.ERROR] == [
        "a"
    ]


def test_the_summary_says_what_has_to_be_done_before() -> None:
    """Titles with numbers of objects: errors, then warnings, then what nobody could look at."""
    gap = Gap(source="nodes", problem="403", fix="", checks=("node-kubelet-skew",))
    found = summarised(
        report(
            finding("c", check="dra-double-allocation", grave=True),
            finding("a"),
            finding("b"),
            finding("b", found="again"),
            gaps=(gap,),
        ),
        CHECKS,
    )
    assert found.before == (Topic(check="dra-double-allocation", title="Devices allocated twice", objects=1),)
    assert found.later == (Topic(check="node-old-runtime", title="Container runtimes out of support", objects=2),)
    assert [one.check for one in found.unknown] == ["node-kubelet-skew"]
