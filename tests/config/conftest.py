"""One valid pipeline file with fixed line numbers; each case changes a few lines of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from windrow.config import Pipeline, PipelineInvalid, Problem, check

FEED = """\
name: feed
start: 2026-11-01T00:00:00Z
interval: 10m
left:
  name: served
  topic: feed.served
  columns:
    request_id: string
    user_id: bigint
    item_id: bigint
    served_at: timestamp
    features: array<float>
  key: [user_id, item_id]
  event_time: served_at
  event_id: request_id
  out_of_orderness: 30s
right:
  - name: clicks
    role: label
    topic: feed.engagements
    where: "action = 'click'"
    columns:
      event_id: string
      user_id: bigint
      item_id: bigint
      action: string
      engaged_at: timestamp
    key: [user_id, item_id]
    event_time: engaged_at
    event_id: event_id
    out_of_orderness: 1m
    window: {before: 0s, after: 30m}
grace: 1m
idle: {mode: caught_up, after: 5m}
max_skew: 10m
labels:
  clicked: "size(clicks) > 0"
expectations: training_rows
"""

LIKES = """\
  - name: likes
    role: label
    topic: feed.engagements
    columns: {event_id: string, user_id: bigint, item_id: bigint, action: string, engaged_at: timestamp}
    key: [user_id, item_id]
    event_time: engaged_at
    event_id: event_id
    out_of_orderness: 1m
    window: {after: 30m}
"""
"""A second right stream on the topic of the first, inserted before `grace`: its first line is 33."""


class Files:
    """A folder of pipeline files and a folder of suites."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.suites = folder / "suites"
        self.suites.mkdir()
        (self.suites / "training_rows.yaml").touch()

    def write(self, *changes: tuple[str, str], name: str = "feed.yaml", text: str = FEED) -> Path:
        """The valid file with each `old` replaced by `new`; the test fails if an `old` is not in it."""
        for old, new in changes:
            assert old in text, f"the file has no {old!r}"
            text = text.replace(old, new, 1)
        path = self.folder / name
        path.write_text(text)
        return path

    def load(self, *changes: tuple[str, str]) -> Pipeline:
        return check(self.write(*changes), self.suites)[0]

    def warnings(self, *changes: tuple[str, str]) -> list[Problem]:
        return check(self.write(*changes), self.suites)[1]

    def problems(self, *changes: tuple[str, str]) -> list[str]:
        """Each problem as `line: field: message`."""
        path = self.write(*changes)
        with pytest.raises(PipelineInvalid) as wrong:
            check(path, self.suites)
        return [line.removeprefix(f"{path}:") for line in str(wrong.value).splitlines()]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.fixture(scope="session")
def likes() -> tuple[str, str]:
    return "grace: 1m", LIKES + "grace: 1m"
