"""Read a scenario file, or raise every problem in it with its line. Every field has a default.

scenario: one sentence that says what is true
about: why, and where it comes from
unit: 1s                       unit of every number below; default 1s
start: 2026-11-01T00:00:00Z    time 0
rules:                         defaults are those of the worked vectors
  interval: 1
  grace: 10
  idle: wait                   or a number: a caught-up partition follows the host's clock after so long
  max_skew: 1000000000
  key: [key]
  waiting: {max_rows: 3, max_age: 200, policy: force}     how much may wait; default: no bound, policy wait
  canary: c                    a record whose first key column begins with this is a canary; default: none is
  left: {name: served, partitions: 1, out_of_orderness: 0, event_id: no}
  right:                       default: one label stream called labels
    - {name: labels, topic: labels, role: label, before: 0, after: 100, join: left, take: all,
       silence: unknown, where: action = click, partitions: 1, out_of_orderness: 0, event_id: no,
       stamps: producer,             or broker (LogAppendTime); a topic may be a list: [web, app]
       compacted: refuse}            or accept: the topic is compacted, which removes the events that are `lost`
history:
  - land: [served k 0, labels k 100]      one batch: see `notation` for events
    now: 120                              time of the host's clock; default: the newest time logged so far
    lag: {labels/1: 5}                    the broker holds 5 more records, which this batch does not read
    killed: yes                           it is killed after its commits, before the clock advances
    unanswered: yes                       the broker does not answer, so that nothing lands
    refused: clock                        the host's clock went back, so that nothing lands
  - replay: served k@0                    its partition is landed again from this event on
  - reconsider: 900                       at this time of the host's clock, quarantined records are judged again
  - erase: k                              the key k is erased; of two key columns: 11,2
    mode: null                            its rows stay, without payload; default: delete
  - partitions: {labels: 3}               the topic has so many partitions from now on
  - recreate: labels                      the topic is deleted and re-created, empty
  - plan: NAME                            a run records its plans now and carries them out later; `of: 0 to 1`: of
                                          these intervals only
  - publish: closed                       or drain, or the NAME of a run (again: a retry)
  - rebuild: 0 to 10                      the intervals from 0 to 10 with new pins; `run: NAME` names it
  - force: 0 to 10                        a person publishes these intervals before they close
    refused: open                         publish, rebuild, force: open, superseded, behind (a drain while records wait)
  - expect:
      watermark: 100                      or none
      frontier: -10
      holder: labels/0
      clocks: {labels/0: 100}
      rows:                               the whole training table, in row order
        k@0: positive, labels k@100       state/reason, then the matches by stream, in row order
      open: [k@50]                        left rows that are in no publication
      counts: {emitted: 1, labels.unmatched: 0}
      exceeded: [3 rows > max_rows 2]     bounds that what waits exceeds; `waiting` among the counts is its rows
      late: [late_label k@0 labels +k@90] the ledger; the end of a line may be left out
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from windrow.config.problems import Location, near_miss
from windrow.config.yaml_file import Tree, read_document, read_text
from windrow.outcomes import BadInput
from windrow.scenarios.contradictions import contradictions
from windrow.scenarios.notation import Times, read_event, read_row
from windrow.scenarios.rules import RulesReader
from windrow.scenarios.scenario import (
    Change,
    Erase,
    Expect,
    Land,
    Publish,
    Reconsider,
    RecordPlans,
    Replay,
    Scenario,
    Step,
)
from windrow.semantics.paper.landings import PartitionId
from windrow.text import parse_duration, parse_instant

START = "2026-11-01T00:00:00Z"
REFUSALS = ("open", "superseded", "behind", "clock")


class ScenarioInvalid(BadInput, ValueError):
    """A scenario file that cannot be used; one line for each problem. An edit helps, a retry does not."""


def read(path: Path) -> Scenario:
    """Read a scenario file.

    Raises:
        ScenarioInvalid: with every problem of the file.
        PipelineInvalid: the file cannot be read, or is not YAML.
    """
    document = read_document(read_text(path), path, first="scenario")
    reader = _Reader(document, Times(datetime(2026, 11, 1, tzinfo=UTC), timedelta(seconds=1)))
    scenario = reader.scenario()
    if document.problems:
        problems = sorted(document.problems, key=lambda problem: problem.line)
        raise ScenarioInvalid("\n".join(problem.at(path) for problem in problems))
    return scenario


STEPS: Mapping[str, tuple[str, ...]] = {
    "land": ("now", "lag", "unanswered", "killed", "refused"),
    "replay": (),
    "reconsider": (),
    "erase": ("mode",),
    "partitions": (),
    "recreate": (),
    "plan": ("of",),
    "publish": ("refused",),
    "rebuild": ("run", "refused"),
    "force": ("refused",),
    "expect": (),
}
TOP = ("scenario", "about", "unit", "start", "rules", "history")
EXPECT = ("watermark", "frontier", "holder", "clocks", "rows", "open", "counts", "late", "exceeded")


class _Reader(RulesReader):
    """Walks the tree of a whole file."""

    def scenario(self) -> Scenario:
        tree = self.document.tree
        self.known(tree, TOP, ())
        unit = self.text(tree, "unit", (), "1s", parse_duration, timedelta(seconds=1))
        self.times = Times(self.text(tree, "start", (), START, parse_instant, self.times.start), unit)
        rules_tree = self.mapping(tree.get("rules"), ("rules",))
        rules, key, streams = self.rules(rules_tree)
        steps = self.sequence(tree.get("history"), ("history",))
        if not steps:
            self.note(("history",), "has no steps; write at least one `land` and one `expect`")
        history = tuple(self.step(step, ("history", n)) for n, step in enumerate(steps))
        scenario = Scenario(
            path=self.document.path,
            title=str(tree.get("scenario") or self.document.path.stem),
            about=str(tree.get("about") or "").strip(),
            times=self.times,
            rules=rules,
            key=key,
            streams=streams,
            history=history,
            lines=tuple(self.document.line(("history", n)) for n in range(len(history))),
        )
        for where, message in contradictions(scenario):
            self.note(where, message)
        return scenario

    # ---- history

    def step(self, item: Tree, here: Location) -> Step:
        tree = self.mapping({item: None} if isinstance(item, str) else item, here)
        kinds = [kind for kind in STEPS if kind in tree]
        if len(kinds) != 1:
            self.note(here, f"must be one of {', '.join(STEPS)}; {near_miss(next(iter(tree), ''), STEPS, 'steps are')}")
            return Expect()
        kind = kinds[0]
        self.known(tree, (kind, *STEPS[kind]), here)
        make: Mapping[str, Callable[[Mapping[str, Tree], Location], Step]] = {
            "land": self.land,
            "replay": self.replay,
            "reconsider": self.reconsider,
            "erase": self.erase,
            "partitions": self.change,
            "recreate": self.change,
            "plan": self.plan,
            "publish": self.publish,
            "rebuild": self.rebuild,
            "force": self.force,
            "expect": self.expect,
        }
        return make[kind](tree, here)

    def land(self, tree: Mapping[str, Tree], here: Location) -> Land:
        events = []
        for n, text in enumerate(self.texts(tree.get("land"), (*here, "land"))):
            event = self.checked((*here, "land", n), partial(read_event, text, self.times))
            if event:
                events.append(event)
        now = tree.get("now")
        now_at = self.checked((*here, "now"), lambda: self.times.at(str(now))) if now is not None else None
        unseen: dict[PartitionId, int] = {}
        for name, count in self.mapping(tree.get("lag"), (*here, "lag")).items():
            topic, _, p = name.partition("/")
            number = self.checked((*here, "lag", name), partial(int, p or 0))
            lag = self.checked((*here, "lag", name), partial(int, str(count)))
            unseen[topic, number or 0] = lag or 0
        is_unanswered, is_killed = (self.is_yes(tree, name, here) for name in ("unanswered", "killed"))
        return Land(tuple(events), now_at, unseen, is_unanswered, is_killed, self.refused(tree, here))

    def is_yes(self, tree: Mapping[str, Tree], name: str, here: Location) -> bool:
        value = tree.get(name)
        if value not in (None, "yes"):
            self.note((*here, name), f"{value!r} is not yes; write yes, or leave the field out")
        return value == "yes"

    def replay(self, tree: Mapping[str, Tree], here: Location) -> Replay:
        topic, _, name = str(tree.get("replay") or "").partition(" ")
        return Replay(topic, name.strip())

    def reconsider(self, tree: Mapping[str, Tree], here: Location) -> Reconsider:
        at = self.checked((*here, "reconsider"), lambda: self.times.at(str(tree.get("reconsider"))))
        return Reconsider(at or self.times.start)

    def erase(self, tree: Mapping[str, Tree], here: Location) -> Erase:
        written = {**tree, "mode": "null"} if "mode" in tree and tree["mode"] is None else tree  # YAML's null
        mode = self.one_of(written, "mode", here, ("delete", "null"))
        return Erase(tuple(str(tree.get("erase") or "").split(",")), mode)

    def change(self, tree: Mapping[str, Tree], here: Location) -> Change:
        if "recreate" in tree:
            return Change(str(tree["recreate"]))
        counts = self.mapping(tree.get("partitions"), (*here, "partitions"))
        for topic, count in counts.items():
            if len(counts) == 1:
                return Change(topic, self.checked((*here, "partitions"), partial(int, str(count))) or 1)
        self.note((*here, "partitions"), "must name one topic and its partitions, such as {labels: 3}")
        return Change("", 1)

    def plan(self, tree: Mapping[str, Tree], here: Location) -> RecordPlans:
        of = tree.get("of")
        return RecordPlans(str(tree.get("plan")), self.range(str(of), (*here, "of")) if of is not None else None)

    def publish(self, tree: Mapping[str, Tree], here: Location) -> Publish:
        what = str(tree.get("publish") or "closed")
        run = None if what in ("closed", "drain") else what
        return Publish(run, None, is_drain=what == "drain", refused=self.refused(tree, here))

    def rebuild(self, tree: Mapping[str, Tree], here: Location) -> Publish:
        bounds = self.range(str(tree.get("rebuild")), (*here, "rebuild"))
        run = tree.get("run")
        return Publish(None if run is None else str(run), bounds, refused=self.refused(tree, here))

    def force(self, tree: Mapping[str, Tree], here: Location) -> Publish:
        bounds = self.range(str(tree.get("force")), (*here, "force"))
        return Publish(None, bounds, is_forced=True, refused=self.refused(tree, here))

    def refused(self, tree: Mapping[str, Tree], here: Location) -> str | None:
        reason = tree.get("refused")
        if reason is not None and reason not in REFUSALS:
            hint = near_miss(str(reason), REFUSALS, "reasons are")
            self.note((*here, "refused"), f"{reason!r} is not a reason; {hint}")
        return None if reason is None else str(reason)

    def range(self, text: str, here: Location) -> tuple[datetime, datetime]:
        def bounds() -> tuple[datetime, datetime]:
            begin, to, end = text.partition(" to ")
            if not to:
                raise ValueError(f"{text!r} is not a range; write: 0 to 10")
            return self.times.at(begin.strip()), self.times.at(end.strip())

        return self.checked(here, bounds) or (self.times.start, self.times.start)

    def expect(self, tree: Mapping[str, Tree], here: Location) -> Expect:
        here = (*here, "expect")
        fields = self.mapping(tree.get("expect"), here)
        self.known(fields, EXPECT, here)
        rows = None
        if "rows" in fields:
            read = [
                self.checked((*here, "rows", name), partial(read_row, name, str(text)))
                for name, text in self.mapping(fields["rows"], (*here, "rows")).items()
            ]
            rows = tuple(row for row in read if row)
        counts = {}
        for name, number in self.mapping(fields.get("counts"), (*here, "counts")).items():
            counts[name] = self.checked((*here, "counts", name), partial(int, str(number))) or 0

        def word(name: str) -> str | None:
            return None if fields.get(name) is None else str(fields[name])

        def several(name: str) -> tuple[str, ...] | None:
            return tuple(self.texts(fields[name], (*here, name))) if name in fields else None

        return Expect(
            watermark=word("watermark"),
            frontier=word("frontier"),
            holder=word("holder"),
            clocks={p: str(c) for p, c in self.mapping(fields.get("clocks"), (*here, "clocks")).items()},
            rows=rows,
            open=several("open"),
            counts=counts,
            late=several("late"),
            exceeded=several("exceeded"),
        )
