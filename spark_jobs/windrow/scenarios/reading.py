"""A scenario file as a `Scenario`, or every problem in it with its line. What is not written has a default.

scenario: one sentence that says what is true
about: why, and where it comes from
unit: 1s                       every number below counts these; default 1s
start: 2026-11-01T00:00:00Z    time 0
rules:                         defaults: those of the worked vectors
  interval: 1
  grace: 10
  idle: wait                   or a number: a caught-up partition follows the host's clock after so long
  max_skew: 1000000000
  key: [key]
  left: {name: served, partitions: 1, out_of_orderness: 0, event_id: no}
  right:                       default: one label stream called labels
    - {name: labels, topic: labels, role: label, before: 0, after: 100, join: left, take: all,
       silence: unknown, where: action = click, partitions: 1, out_of_orderness: 0, event_id: no,
       stamps: producer}             or broker (LogAppendTime); a topic may be a list: [web, app]
history:
  - land: [served k 0, labels k 100]      one batch: see `notation` for events
    now: 120                              the host's clock; default: the newest time logged so far
    lag: {labels/1: 5}                    the broker holds 5 more, which this batch does not take
    killed: yes                           after its commits, before the clock
    unanswered: yes                       the broker does not answer, so nothing lands
  - replay: served k@0                    its partition is landed again from this event on
  - partitions: {labels: 3}               the topic has so many from now on
  - recreate: labels                      it is deleted and made again, empty
  - plan: NAME                            a run records its plans now and carries them out later
  - publish: closed                       or drain, or the NAME of a run (again: a retry)
  - rebuild: 0 to 10                      the intervals from 0 to 10 with new pins; `run: NAME` names it
  - force: 0 to 10                        a person publishes these intervals before they close
    refused: open                         of publish and rebuild: open, superseded, behind (a drain while records wait)
  - expect:
      watermark: 100                      none, where there is none
      frontier: -10
      holder: labels/0
      clocks: {labels/0: 100}
      rows:                               the whole training table, in served order
        k@0: positive, labels k@100       state/reason, then by stream the matches in order
      open: [k@50]                        left rows that are in no publication
      counts: {emitted: 1, labels.unmatched: 0}
      late: [late_label k@0 labels +k@90] the ledger; the end of a line may be left out
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from windrow.config.problems import Location, near_miss
from windrow.config.yaml_file import Tree, read_document, read_text
from windrow.outcomes import BadInput
from windrow.scenarios.notation import Event, Times, read_event, read_row
from windrow.scenarios.rules import RulesReader
from windrow.scenarios.scenario import Change, Expect, Land, Plan, Publish, Replay, Scenario, Step
from windrow.semantics.paper.landings import Place
from windrow.text import parse_duration, parse_instant

START = "2026-11-01T00:00:00Z"


REFUSALS = ("open", "superseded", "behind")


class ScenarioInvalid(BadInput, ValueError):
    """A scenario file that cannot be used; one line for each problem. An edit helps."""


def read(path: Path) -> Scenario:
    """Raises ScenarioInvalid, or PipelineInvalid where the file is no YAML at all."""
    document = read_document(read_text(path), path, first="scenario")
    reader = _Reader(document, Times(datetime(2026, 11, 1, tzinfo=UTC), timedelta(seconds=1)))
    scenario = reader.scenario()
    if document.problems:
        problems = sorted(document.problems, key=lambda problem: problem.line)
        raise ScenarioInvalid("\n".join(problem.at(path) for problem in problems))
    return scenario


STEPS: Mapping[str, tuple[str, ...]] = {
    "land": ("now", "lag", "unanswered", "killed"),
    "replay": (),
    "partitions": (),
    "recreate": (),
    "plan": ("of",),
    "publish": ("refused",),
    "rebuild": ("run", "refused"),
    "force": (),
    "expect": (),
}
TOP = ("scenario", "about", "unit", "start", "rules", "history")
EXPECT = ("watermark", "frontier", "holder", "clocks", "rows", "open", "counts", "late")


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
        self.fits(scenario)
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
        unseen: dict[Place, int] = {}
        for place, count in self.mapping(tree.get("lag"), (*here, "lag")).items():
            topic, _, p = place.partition("/")
            number = self.checked((*here, "lag", place), partial(int, p or 0))
            lag = self.checked((*here, "lag", place), partial(int, str(count)))
            unseen[topic, number or 0] = lag or 0
        said = {name: str(tree.get(name)) == "yes" for name in ("unanswered", "killed")}
        return Land(tuple(events), now_at, unseen, said["unanswered"], said["killed"])

    def replay(self, tree: Mapping[str, Tree], here: Location) -> Replay:
        topic, _, name = str(tree.get("replay") or "").partition(" ")
        return Replay(topic, name.strip())

    def change(self, tree: Mapping[str, Tree], here: Location) -> Change:
        if "recreate" in tree:
            return Change(str(tree["recreate"]))
        said = self.mapping(tree.get("partitions"), (*here, "partitions"))
        for topic, count in said.items():
            if len(said) == 1:
                return Change(topic, self.checked((*here, "partitions"), partial(int, str(count))) or 1)
        self.note((*here, "partitions"), "must name one topic and its partitions, such as {labels: 3}")
        return Change("", 1)

    def plan(self, tree: Mapping[str, Tree], here: Location) -> Plan:
        of = tree.get("of")
        return Plan(str(tree.get("plan")), self.range(str(of), (*here, "of")) if of is not None else None)

    def publish(self, tree: Mapping[str, Tree], here: Location) -> Publish:
        what = str(tree.get("publish") or "closed")
        run = None if what in ("closed", "drain") else what
        return Publish(run, None, is_drain=what == "drain", refused=self.refused(tree, here))

    def rebuild(self, tree: Mapping[str, Tree], here: Location) -> Publish:
        bounds = self.range(str(tree.get("rebuild")), (*here, "rebuild"))
        run = tree.get("run")
        return Publish(None if run is None else str(run), bounds, refused=self.refused(tree, here))

    def force(self, tree: Mapping[str, Tree], here: Location) -> Publish:
        return Publish(None, self.range(str(tree.get("force")), (*here, "force")), is_forced=True)

    def refused(self, tree: Mapping[str, Tree], here: Location) -> str | None:
        said = tree.get("refused")
        if said is not None and said not in REFUSALS:
            self.note((*here, "refused"), f"{said!r} is no reason; {near_miss(str(said), REFUSALS, 'reasons are')}")
        return None if said is None else str(said)

    def range(self, text: str, here: Location) -> tuple[datetime, datetime]:
        def bounds() -> tuple[datetime, datetime]:
            begin, to, end = text.partition(" to ")
            if not to:
                raise ValueError(f"{text!r} is no range; write: 0 to 10")
            return self.times.at(begin.strip()), self.times.at(end.strip())

        return self.checked(here, bounds) or (self.times.start, self.times.start)

    def expect(self, tree: Mapping[str, Tree], here: Location) -> Expect:
        here = (*here, "expect")
        said = self.mapping(tree.get("expect"), here)
        self.known(said, EXPECT, here)
        rows = None
        if "rows" in said:
            read = [
                self.checked((*here, "rows", name), partial(read_row, name, str(text)))
                for name, text in self.mapping(said["rows"], (*here, "rows")).items()
            ]
            rows = tuple(row for row in read if row)
        counts = {}
        for name, number in self.mapping(said.get("counts"), (*here, "counts")).items():
            counts[name] = self.checked((*here, "counts", name), partial(int, str(number))) or 0

        def word(name: str) -> str | None:
            return None if said.get(name) is None else str(said[name])

        def several(name: str) -> tuple[str, ...] | None:
            return tuple(self.texts(said[name], (*here, name))) if name in said else None

        return Expect(
            watermark=word("watermark"),
            frontier=word("frontier"),
            holder=word("holder"),
            clocks={p: str(c) for p, c in self.mapping(said.get("clocks"), (*here, "clocks")).items()},
            rows=rows,
            open=several("open"),
            counts=counts,
            late=several("late"),
        )

    # ---- whether the parts fit

    def fits(self, scenario: Scenario) -> None:
        names: Counter[tuple[str, str]] = Counter()
        streams = {stream for stream, _ in scenario.streams}
        counts = dict(scenario.rules.partitions)
        for n, step in enumerate(scenario.history):
            here: Location = ("history", n)
            if isinstance(step, Land):
                for m, event in enumerate(step.events):
                    self.event_fits(scenario, counts, event, (*here, "land", m), names)
            if isinstance(step, Change):
                if step.topic not in counts:
                    self.note(here, f"{step.topic!r} is no topic; {near_miss(step.topic, counts, 'topics are')}")
                counts[step.topic] = step.partitions or counts.get(step.topic, 1)
            if isinstance(step, Replay) and (step.topic, step.name) not in names:
                self.note((*here, "replay"), f"{step.topic} {step.name} is no event before this step")
            if isinstance(step, Expect):
                known = {name for _, name in names}
                for row in step.rows or ():
                    at = (*here, "expect", "rows", row.name)
                    for name in (row.name, *(name for _, met in row.matches for name in met)):
                        if name not in known:
                            self.note(at, f"{name} is no event before this step; {near_miss(name, known, 'events')}")
                    for stream, _ in row.matches:
                        if stream not in streams:
                            self.note(at, f"{stream} is no stream; {near_miss(stream, streams, 'streams are')}")

    def event_fits(
        self,
        scenario: Scenario,
        partitions: Mapping[str, int],
        event: Event,
        at: Location,
        names: Counter[tuple[str, str]],
    ) -> None:
        if event.topic not in partitions:
            self.note(at, f"{event.topic!r} is no topic; {near_miss(event.topic, partitions, 'topics are')}")
        elif event.partition >= partitions[event.topic]:
            self.note(at, f"{event.topic} has {partitions[event.topic]} partitions, numbered from p0")
        if len(event.key) != len(scenario.key):
            self.note(at, f"the key has {len(event.key)} columns, the rules say {', '.join(scenario.key)}")
        names[event.topic, event.name] += 1
        if names[event.topic, event.name] > 1:
            self.note(at, f"two events of {event.topic} are called {event.name}; name this one: … as NAME")
