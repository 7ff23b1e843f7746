"""Every scenario file holds on paper, and a scenario that is wrong says so in a way that helps."""

from __future__ import annotations

from pathlib import Path

import pytest

from windrow.config import PipelineInvalid, parse
from windrow.scenarios import Rehearsal, ScenarioInvalid, read, run_file
from windrow.scenarios.kafka import pipeline_file, why_only_on_paper
from windrow.semantics.ledger import apply

HERE = Path(__file__).parent
FILES = sorted(HERE.rglob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=[p.stem for p in FILES])
def test_a_scenario_holds_on_paper(path: Path) -> None:
    report = run_file(path)
    assert report.is_as_expected, f"\n{report}"


GOOD = """\
scenario: A label at the end of the window joins
rules: {interval: 10}
history:
  - land: [served k 0, labels k 100, labels k 101, served z 120, labels z 120]
  - publish: closed
  - expect:
      rows:
        k@0: positive, labels k@100
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "one.yaml"
    path.write_text(text)
    return path


def test_expected_and_found_stand_side_by_side_on_a_timeline(tmp_path: Path) -> None:
    wrong = GOOD.replace("positive, labels k@100", "positive, labels k@100 k@101")
    report = run_file(written(tmp_path, wrong))
    lines = str(report).splitlines()
    (at,) = [n for n, line in enumerate(lines) if "one.yaml:6: rows" in line]
    ruler, window, expected, found = lines[at + 1 : at + 5]
    assert window.startswith("k@0 labels")
    assert expected.strip().startswith("expected")
    assert expected.endswith("positive, labels k@100 k@101")
    assert found.strip().startswith("found")
    assert found.endswith("positive, labels k@100")
    assert (expected.count("◆"), found.count("◆")) == (2, 1)
    assert window.index("●") == ruler.index("0"), "the left row stands under its time"
    assert window.index("┤") == found.index("◆"), "100 is the window's end"


WRONG = {
    "a row too many": (
        "        k@0: positive, labels k@100",
        "        k@0: positive, labels k@100\n        z@120: negative",
    ),
    "a row too few": ("      rows:\n        k@0: positive, labels k@100", "      rows: {}"),
    "another state": ("positive, labels k@100", "negative, labels k@100"),
    "another watermark": ("      rows:", "      watermark: 119\n      rows:"),
    "another count": ("      rows:", "      counts: {emitted: 2}\n      rows:"),
    "a ledger line": ("      rows:", "      late: [late_left k@0]\n      rows:"),
    "a row left open": ("      rows:", "      open: [k@0, z@120]\n      rows:"),
    "a clock": ("      rows:", "      clocks: {labels/0: 1}\n      rows:"),
    "a holder": ("      rows:", "      holder: labels/1\n      rows:"),
    "a refusal that did not come": ("publish: closed", "publish: closed\n    refused: superseded"),
    "a refusal for another reason": (
        "publish: closed",
        "publish: closed\n  - rebuild: 0 to 500\n    refused: superseded",
    ),
}


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
def test_a_wrong_expectation_is_found(tmp_path: Path, change: tuple[str, str]) -> None:
    assert run_file(written(tmp_path, GOOD)).is_as_expected
    old, new = change
    text = (
        GOOD.replace(old, new) if old in GOOD else GOOD.replace("  - expect:\n", "  - expect:\n      watermark: 119\n")
    )
    assert text != GOOD
    assert not run_file(written(tmp_path, text)).is_as_expected


INVALID = {
    "an unknown step": ("publish: closed", "publsh: closed", "one.yaml:5: history[1]: must be one of land"),
    "an unknown field": ("rules: {interval: 10}", "rules: {intervall: 10}", "did you mean 'interval'"),
    "a time that is none": ("served k 0", "served k soon", "'soon' is not a time"),
    "an event without a time": ("served k 0", "served k", "is not an event; write topic, key and time"),
    "an unknown topic": ("labels k 101", "lables k 101", "'lables' is not a topic; did you mean 'labels'"),
    "a partition that is not there": ("labels k 101", "labels k 101 p3", "has 1 partition,"),
    "two events of one name": ("labels k 101", "labels k 100", "name this one: … as NAME"),
    "a row of no event": ("k@0: positive", "k@7: positive", "k@7 is not an event before this step"),
    "a match of no stream": ("positive, labels", "positive, clicks", "clicks is not a stream"),
    "an interval off the day": ("interval: 10", "interval: 7", "does not divide 24 hours"),
    "an unknown word of an event": ("labels k 101", "labels k 101 late", "'late' in 'labels k 101 late' is not known"),
    "an unknown refusal": (
        "publish: closed",
        "publish: closed\n    refused: late",
        "'late' is not a reason; reasons are",
    ),
    "a change of no topic": ("publish: closed", "recreate: lables", "'lables' is not a topic; did you mean 'labels'"),
    "a change without a number": ("publish: closed", "partitions: {}", "such as {labels: 3}"),
    "no history": (GOOD[GOOD.index("history") :], "", "has no steps"),
}


@pytest.mark.parametrize("change", INVALID.values(), ids=INVALID)
def test_a_file_that_cannot_be_used_says_what_would_be_right(tmp_path: Path, change: tuple[str, str, str]) -> None:
    old, new, message = change
    assert old in GOOD
    with pytest.raises((ScenarioInvalid, PipelineInvalid)) as wrong:
        run_file(written(tmp_path, GOOD.replace(old, new)))
    assert message in str(wrong.value)
    assert "one.yaml" in str(wrong.value)


@pytest.mark.parametrize("path", FILES, ids=[p.stem for p in FILES])
def test_the_published_rows_with_the_ledger_in_them_are_a_rebuild(path: Path) -> None:
    rehearsal = Rehearsal(read(path))
    rehearsal.run()
    for interval, lines in rehearsal.model.late().items():
        publication = rehearsal.model.standing[interval]
        assert apply(publication.joined.rows, lines) == rehearsal.model.rebuilt(publication).rows


REAL = [path for path in FILES if not why_only_on_paper(read(path))]


@pytest.mark.parametrize("path", REAL, ids=[p.stem for p in REAL])
def test_a_scenario_is_a_pipeline_file_that_means_the_same(path: Path) -> None:
    scenario = read(path)
    spec, rules = scenario.rules.spec, scenario.rules
    pipeline = parse(pipeline_file(rules, "paper"))
    assert (pipeline.start, pipeline.interval, pipeline.grace) == (spec.start, spec.interval, spec.grace)
    assert (pipeline.after, pipeline.max_skew, pipeline.idle.mode) == (spec.after, spec.max_skew, rules.idle.mode)
    for ours, theirs in zip(pipeline.right, spec.right, strict=True):
        assert (ours.name, ours.topics, ours.key) == (theirs.name, theirs.topics, theirs.key)
        assert (ours.window.before, ours.window.after) == (theirs.before, theirs.after)
        assert (ours.role, ours.join, ours.take, ours.silence) == (
            theirs.role,
            theirs.join,
            theirs.take,
            theirs.silence,
        )
        assert ours.event_id == theirs.event_id


def test_every_worked_vector_and_every_publication_has_a_scenario() -> None:
    names = {p.stem.split("_")[0] for p in FILES}
    assert {f"{n:02d}" for n in range(1, 24)} <= names
    assert {"twitter", "adform", "suppress"} <= names
