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
       silence: unknown, where: action = click, partitions: 1, out_of_orderness: 0, event_id: no}
history:
  - land: [served k 0, labels k 100]      one batch: see `notation` for events
    now: 120                              the host's clock; default: the newest time logged so far
    lag: {labels p1: 5}                   the broker holds 5 more, which this batch does not take
    killed: yes                           after its commits, before the clock
  - replay: served k@0                    its partition is landed again from this event on
  - plan: NAME                            a run records its plans now and carries them out later
  - publish: closed                       or drain, or the NAME of a run (again: a retry)
  - rebuild: 0 to 10                      the intervals from 0 to 10 with new pins; `run: NAME` names it
    refused: open                         of publish or rebuild: it must be refused, with these words
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
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from windrow.config import parse_duration, parse_instant
from windrow.config.problems import Location, near_miss
from windrow.config.yaml_file import Document, Tree, read_document, read_text
from windrow.scenarios.notation import Event, Times, read_event, read_row
from windrow.scenarios.scenario import Expect, Land, Plan, Publish, Replay, Scenario, Step, Where
from windrow.semantics.clock import IdlePolicy
from windrow.semantics.history import JoinSpec, Left, Right
from windrow.semantics.intervals import is_length, on_grid
from windrow.semantics.model import Place, Rules

START = "2026-11-01T00:00:00Z"
T = TypeVar("T")


class ScenarioInvalid(ValueError):
    """A scenario file that cannot be used; one line for each problem. An edit helps."""


def read(path: Path) -> Scenario:
    """Raises ScenarioInvalid, or PipelineInvalid where the file is no YAML at all."""
    document = read_document(read_text(path), path)
    reader = _Reader(document)
    scenario = reader.scenario()
    if document.problems:
        problems = sorted(document.problems, key=lambda problem: problem.line)
        raise ScenarioInvalid("\n".join(problem.at(path) for problem in problems))
    return scenario


STEPS: Mapping[str, tuple[str, ...]] = {
    "land": ("now", "lag", "unreachable", "killed"),
    "replay": (),
    "plan": ("of",),
    "publish": ("refused",),
    "rebuild": ("run", "refused"),
    "expect": (),
}
TOP = ("scenario", "about", "unit", "start", "rules", "history")
RULES = ("interval", "grace", "idle", "max_skew", "key", "left", "right")
SIDE = ("name", "topic", "partitions", "out_of_orderness", "event_id", "where")
RIGHT = (*SIDE, "role", "before", "after", "join", "take", "silence")
EXPECT = ("watermark", "frontier", "holder", "clocks", "rows", "open", "counts", "late")


class _Reader:
    """Walks the tree; a problem is noted with its line and a harmless value goes on, so that all are found."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.times = Times(datetime(2026, 11, 1, tzinfo=UTC), timedelta(seconds=1))

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

    # ---- rules

    def rules(self, tree: Mapping[str, Tree]) -> tuple[Rules, tuple[str, ...], tuple[tuple[str, str], ...]]:
        here: Location = ("rules",)
        self.known(tree, RULES, here)
        interval = self.length(tree, "interval", here, "1")
        if not is_length(interval):
            self.note((*here, "interval"), f"{interval} does not divide 24 hours")
            interval = timedelta(seconds=1)
        if not on_grid(self.times.start, interval):
            self.note(("start",), f"is not on the UTC grid of {interval} intervals")
            self.times = Times(datetime(2026, 11, 1, tzinfo=UTC), self.times.unit)
        key = tuple(self.texts(tree.get("key"), (*here, "key"))) or ("key",)
        left_tree = self.mapping(tree.get("left"), (*here, "left"))
        self.known(left_tree, SIDE, (*here, "left"))
        partitions: dict[str, int] = {}
        disorder: dict[str, timedelta] = {}
        left = Left(**self.side(left_tree, (*here, "left"), "served", key, partitions, disorder))
        rights = []
        for n, item in enumerate(self.sequence(tree.get("right") or [{}], (*here, "right"))):
            at = (*here, "right", n)
            one = self.mapping(item, at)
            self.known(one, RIGHT, at)
            rights.append(
                Right(
                    **self.side(one, at, "labels", key, partitions, disorder),
                    before=self.length(one, "before", at, "0"),
                    after=self.length(one, "after", at, "100"),
                    **{name: self.one_of(one, name, at, choices) for name, choices in CHOICES.items()},
                )
            )
        idle = str(tree.get("idle") or "wait")
        policy = IdlePolicy("wait") if idle == "wait" else self.checked((*here, "idle"), lambda: self.idle(idle))
        spec = JoinSpec(
            left=left,
            right=tuple(rights),
            start=self.times.start,
            interval=interval,
            grace=self.length(tree, "grace", here, "10"),
            max_skew=self.length(tree, "max_skew", here, "0"),
        )
        sides: tuple[Left | Right, ...] = (left, *rights)
        streams = tuple((side.name, side.topics[0]) for side in sides)
        return Rules(spec, partitions, disorder, policy or IdlePolicy("wait")), key, streams

    def idle(self, text: str) -> IdlePolicy:
        return IdlePolicy("caught_up", self.times.length(text))

    def side(
        self,
        tree: Mapping[str, Tree],
        here: Location,
        default: str,
        key: tuple[str, ...],
        partitions: dict[str, int],
        disorder: dict[str, timedelta],
    ) -> dict[str, Any]:
        """What left and right streams share. The first stream that names a topic says its partitions."""
        name = str(tree.get("name") or default)
        topic = str(tree.get("topic") or name)
        count = self.text(tree, "partitions", here, "1", int, 1)
        partitions.setdefault(topic, count)
        disorder.setdefault(topic, self.length(tree, "out_of_orderness", here, "0"))
        where = None
        if tree.get("where"):
            column, is_equal, value = (part.strip() for part in str(tree["where"]).partition("="))
            if column != "action" or not is_equal or not value:
                self.note((*here, "where"), "must be of the form: action = click")
            where = Where(column, value)
        has_id = str(tree.get("event_id") or "no") == "yes"
        return {"name": name, "topics": (topic,), "key": key, "event_id": "id" if has_id else None, "where": where}

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
            "plan": self.plan,
            "publish": self.publish,
            "rebuild": self.rebuild,
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
        gone = frozenset(self.texts(tree.get("unreachable"), (*here, "unreachable")))
        return Land(tuple(events), now_at, unseen, gone, str(tree.get("killed")) == "yes")

    def replay(self, tree: Mapping[str, Tree], here: Location) -> Replay:
        topic, _, name = str(tree.get("replay") or "").partition(" ")
        return Replay(topic, name.strip())

    def plan(self, tree: Mapping[str, Tree], here: Location) -> Plan:
        of = tree.get("of")
        return Plan(str(tree.get("plan")), self.range(str(of), (*here, "of")) if of is not None else None)

    def publish(self, tree: Mapping[str, Tree], here: Location) -> Publish:
        what, refused = str(tree.get("publish") or "closed"), tree.get("refused")
        run = None if what in ("closed", "drain") else what
        return Publish(run, None, what == "drain", None if refused is None else str(refused))

    def rebuild(self, tree: Mapping[str, Tree], here: Location) -> Publish:
        bounds = self.range(str(tree.get("rebuild")), (*here, "rebuild"))
        run, refused = tree.get("run"), tree.get("refused")
        return Publish(
            None if run is None else str(run), bounds, refused=None if refused is None else str(refused), is_drain=False
        )

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
        for n, step in enumerate(scenario.history):
            here: Location = ("history", n)
            if isinstance(step, Land):
                for m, event in enumerate(step.events):
                    self.event_fits(scenario, event, (*here, "land", m), names)
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

    def event_fits(self, scenario: Scenario, event: Event, at: Location, names: Counter[tuple[str, str]]) -> None:
        partitions = scenario.rules.partitions
        if event.topic not in partitions:
            self.note(at, f"{event.topic!r} is no topic; {near_miss(event.topic, partitions, 'topics are')}")
        elif event.partition >= partitions[event.topic]:
            self.note(at, f"{event.topic} has {partitions[event.topic]} partitions, numbered from p0")
        if len(event.key) != len(scenario.key):
            self.note(at, f"the key has {len(event.key)} columns, the rules say {', '.join(scenario.key)}")
        names[event.topic, event.name] += 1
        if names[event.topic, event.name] > 1:
            self.note(at, f"two events of {event.topic} are called {event.name}; name this one: … as NAME")

    # ---- small readings

    def note(self, where: Location, message: str) -> None:
        self.document.problems.append(self.document.problem(where, message))

    def known(self, tree: Mapping[str, Tree], fields: Iterable[str], where: Location) -> None:
        fields = tuple(fields)
        for name in tree:
            if name not in fields:
                self.note((*where, name), f"is no field; {near_miss(name, fields, 'fields are')}")

    def checked(self, where: Location, make: Callable[[], T]) -> T | None:
        try:
            return make()
        except (ValueError, OverflowError) as wrong:
            self.note(where, str(wrong))
            return None

    def text(
        self, tree: Mapping[str, Tree], name: str, here: Location, default: str, make: Callable[[str], T], otherwise: T
    ) -> T:
        value = self.checked((*here, name), lambda: make(str(tree.get(name) or default)))
        return otherwise if value is None else value

    def length(self, tree: Mapping[str, Tree], name: str, here: Location, default: str) -> timedelta:
        return self.text(tree, name, here, default, self.times.length, timedelta(0))

    def one_of(self, tree: Mapping[str, Tree], name: str, here: Location, choices: tuple[str, ...]) -> Any:
        value = str(tree.get(name) or choices[0])
        if value not in choices:
            self.note((*here, name), f"{value!r} is not {' or '.join(choices)}")
            return choices[0]
        return value

    def mapping(self, tree: Tree, where: Location) -> dict[str, Tree]:
        if tree is None or isinstance(tree, dict):
            return tree or {}
        self.note(where, "must be a mapping of fields")
        return {}

    def sequence(self, tree: Tree, where: Location) -> list[Tree]:
        if tree is None or isinstance(tree, list):
            return tree or []
        self.note(where, "must be a list")
        return []

    def texts(self, tree: Tree, where: Location) -> list[str]:
        items = [tree] if isinstance(tree, str) else self.sequence(tree, where)
        return [str(item) for item in items]


CHOICES: Mapping[str, tuple[str, ...]] = {
    "role": ("label", "feature"),
    "join": ("left", "inner"),
    "take": ("all", "first", "last"),
    "silence": ("unknown", "negative"),
}
