"""The reader of `events.yaml` passes over nothing."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cases.check import UnknownWord, find_case, load_case
from tests.cases.play_steps import Script, Verb, read_script


def script(tmp_path: Path, *steps: dict[str, Any], expect: str = "{}") -> Script:
    """A case file with these steps, read."""
    events = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "events"},
        "data": {"events.yaml": yaml.safe_dump(list(steps))},
    }
    path = tmp_path / "C99-test.yaml"
    header = ["# case: C99   type: (b)", "# kind: test", "# source: none", f"# expect: {expect}", "---"]
    path.write_text("\n".join(header) + "\n" + yaml.safe_dump(events))
    return read_script(load_case(path))


@pytest.mark.parametrize("case_id", ["C28", "C30", "C41"])
def test_the_cases_in_force_are_read_whole(case_id: str) -> None:
    """Every step of a case that is in force has a verb or an expectation."""
    read = read_script(find_case(case_id))
    assert read.steps
    assert all(step.verb or step.expectations for step in read.steps)


def test_a_message_is_a_verb(tmp_path: Path) -> None:
    """Messages need no `do`."""
    (step,) = script(tmp_path, {"t": 0, "message": {"id": "m-1", "seq": 1}}).steps
    assert step.verb is Verb.MESSAGE


def test_stages_of_the_header_are_told_apart(tmp_path: Path) -> None:
    """`final` and `step1` wait for their moment, other words hold once the objects are loaded, prose is left out."""
    read = script(tmp_path, expect="{final: {bound: [a]}, step1: {reserved: 0}, unbound: [a], never: pigs fly}")
    assert read.final == {"bound": ["a"]}
    assert read.after_change == {1: {"reserved": 0}}
    assert read.at_once == {"unbound": ["a"]}


@pytest.mark.parametrize(
    ("step", "name"),
    [
        ({"do": "explode"}, "explode"),
        ({"do": "delete", "obj": "Pod/a", "gently": True}, "gently"),
        ({"expect": {"happy": True}}, "happy"),
        ({"expect": {}, "hold": "breath"}, "breath"),
        ({"cur": 0, "want": 1}, "want"),
    ],
)
def test_an_unknown_word_fails_with_its_name(tmp_path: Path, step: dict[str, Any], name: str) -> None:
    """The error names step and word, so that the interpreter can be taught."""
    with pytest.raises(UnknownWord, match=f"C99 step 1.*{name}"):
        script(tmp_path, step)


@pytest.mark.parametrize("header", ["{final: {happy: true}}", "{happy: true}", "{final: soon}"])
def test_an_unknown_word_of_the_header_fails(tmp_path: Path, header: str) -> None:
    """What a case expects as a whole is read as strictly as its steps."""
    with pytest.raises(UnknownWord, match="C99"):
        script(tmp_path, expect=header)
