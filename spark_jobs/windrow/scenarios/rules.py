"""The rules of a scenario: the content of a pipeline file in small numbers. `reading` documents the format."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from windrow.config.problems import Location
from windrow.config.yaml_file import Tree
from windrow.scenarios.fields import Fields
from windrow.scenarios.notation import COLUMNS, Times, own_column
from windrow.scenarios.scenario import Streams, Where
from windrow.semantics.clock import IdlePolicy
from windrow.semantics.intervals import is_length, on_grid
from windrow.semantics.match import Mark
from windrow.semantics.paper.landings import Rules
from windrow.semantics.records import JoinSpec, Left, Right
from windrow.semantics.waiting import Bounds

RULES = ("interval", "grace", "idle", "max_skew", "key", "canary", "waiting", "left", "right")
WAITING = ("max_rows", "max_age", "policy")
SIDE = ("name", "topic", "partitions", "out_of_orderness", "event_id", "where", "stamps", "compacted")
RIGHT = (*SIDE, "role", "before", "after", "join", "take", "silence")
CHOICES: Mapping[str, tuple[str, ...]] = {
    "role": ("label", "feature"),
    "join": ("left", "inner"),
    "take": ("all", "first", "last"),
    "silence": ("unknown", "negative"),
}


class TopicSettings(NamedTuple):
    """Settings of the topics, collected from the streams."""

    partitions: dict[str, int]
    disorder: dict[str, timedelta]
    stamped: set[str]
    compacted: set[str]


class RulesReader(Fields):
    """Reads the field `rules`."""

    def rules(self, tree: Mapping[str, Tree]) -> tuple[Rules, tuple[str, ...], Streams]:
        """The rules, the key columns, and the topics of each stream."""
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
        topics = TopicSettings({}, {}, set(), set())
        mark = Mark(((key[0], str(tree["canary"])),)) if tree.get("canary") else None
        left = Left(**self.side(left_tree, (*here, "left"), "served", key, topics), canary=mark)
        rights = []
        for n, item in enumerate(self.sequence(tree.get("right") or [{}], (*here, "right"))):
            at = (*here, "right", n)
            one = self.mapping(item, at)
            self.known(one, RIGHT, at)
            rights.append(
                Right(
                    **self.side(one, at, "labels", key, topics),
                    canary=mark,
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
        streams = tuple((side.name, side.topics) for side in sides)
        policy = policy or IdlePolicy("wait")
        stamped, compacted = frozenset(topics.stamped), frozenset(topics.compacted)
        waiting = self.waiting(self.mapping(tree.get("waiting"), (*here, "waiting")), (*here, "waiting"))
        return Rules(spec, topics.partitions, topics.disorder, policy, stamped, compacted, waiting), key, streams

    def waiting(self, tree: Mapping[str, Tree], here: Location) -> Bounds:
        """How much may wait. Bytes are left out: on paper a row has none."""
        self.known(tree, WAITING, here)
        rows = self.text(tree, "max_rows", here, "0", int, 0)
        age = self.length(tree, "max_age", here, "0")
        return Bounds(rows or None, None, age or None, self.one_of(tree, "policy", here, ("wait", "alert", "force")))

    def idle(self, text: str) -> IdlePolicy:
        """The policy of a partition that idles after this time."""
        return IdlePolicy("caught_up", self.times.length(text))

    def side(
        self,
        tree: Mapping[str, Tree],
        here: Location,
        default: str,
        key: tuple[str, ...],
        topics: TopicSettings,
    ) -> dict[str, Any]:
        """Arguments that `Left` and `Right` share. The first stream of a topic sets its partitions and disorder."""
        name = str(tree.get("name") or default)
        named = tuple(self.texts(tree.get("topic"), (*here, "topic"))) or (name,)
        for topic in named:
            topics.partitions.setdefault(topic, self.text(tree, "partitions", here, "1", int, 1))
            topics.disorder.setdefault(topic, self.length(tree, "out_of_orderness", here, "0"))
            if str(tree.get("stamps") or "producer") == "broker":
                topics.stamped.add(topic)
            if str(tree.get("compacted") or "refuse") == "accept":
                topics.compacted.add(topic)
        where = None
        if tree.get("where"):
            column, is_equal, value = (part.strip() for part in str(tree["where"]).partition("="))
            if column != "action" or not is_equal or not value:
                self.note((*here, "where"), "must be of the form: action = click")
            where = Where(column, value)
        has_id = str(tree.get("event_id") or "no") == "yes"
        return {
            "name": name,
            "topics": named,
            "key": key,
            "event_id": "id" if has_id else None,
            "where": where,
            "columns": frozenset((*key, *COLUMNS, own_column(name))),
        }
