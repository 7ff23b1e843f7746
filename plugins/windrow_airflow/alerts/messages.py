"""What a notifier is told of a condition, as the templates of its arguments see it: `{{ alert.title }}`.

Texts hold names, counts and instants, no payload. HTML is escaped here, because Airflow's templates escape nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape

from windrow.semantics.alerts.conditions import Condition
from windrow.semantics.alerts.register import BEGUN, Alert
from windrow.text import escaped, shown_duration, shown_instant
from windrow_airflow.pages.report_link import address

CRITICAL = {Condition.UNUSABLE, Condition.RETENTION, Condition.RECONCILE}
ERROR = {Condition.LANDING, Condition.TRAINING, Condition.BLOCKED, Condition.SILENT}


@dataclass(frozen=True)
class Message:
    """Begin or end of a condition."""

    id: str
    """16 hex digits, the same for begin and end: a key to deduplicate by"""
    pipeline: str
    condition: str
    subject: str
    event: str
    """`begun` or `ended`"""
    begun_at: datetime
    ended_at: datetime | None
    cause: str
    """what is or was the case, with figures"""
    move: str
    """the next move of a person"""
    outcome: str
    """what is the case at the end"""
    link: str
    """address of the pipeline's page"""

    @property
    def is_begin(self) -> bool:
        """Whether the condition begins."""
        return self.event == BEGUN

    @property
    def severity(self) -> str:
        """`critical`, `error` or `warning`; `info` for an end."""
        if not self.is_begin:
            return "info"
        return "critical" if self.condition in CRITICAL else "error" if self.condition in ERROR else "warning"

    @property
    def title(self) -> str:
        """One line."""
        about = f" ({self.subject})" if self.subject else ""
        end = "" if self.is_begin else ", over"
        return escaped(f"{self.pipeline}: {Condition(self.condition).words}{about}{end}")

    @property
    def text(self) -> str:
        """Cause, figures, next move and link, as lines."""
        return "\n".join([self.title, *(f"{name}: {words}" for name, words in self._parts()), self.link])

    @property
    def html(self) -> str:
        """The same as HTML."""
        parts = "".join(f"<p><b>{name}</b>: {_lines(words)}</p>" for name, words in self._parts())
        link = escape(self.link, quote=True)
        return f'<h3>{escape(self.title)}</h3>{parts}<p><a href="{link}">{link}</a></p>'

    def _parts(self) -> list[tuple[str, str]]:
        since = [("Since", shown_instant(self.begun_at.replace(microsecond=0)))]
        if self.ended_at is None or self.is_begin:
            return [("Cause", escaped(self.cause, keep="\n")), *since, ("Next", escaped(self.move, keep="\n"))]
        lasted = f"{since[0][1]}, for {shown_duration(self.ended_at - self.begun_at)}"
        now, was = escaped(self.outcome, keep="\n"), escaped(self.cause, keep="\n")
        return [("Now", now), ("Since", lasted), ("It was", was)]


def message(pipeline: str, alert: Alert, event: str) -> Message:
    """Return what is told of an event of an alert."""
    return Message(
        id=alert.id,
        pipeline=pipeline,
        condition=alert.condition,
        subject=alert.subject,
        event=event,
        begun_at=alert.begun_at,
        ended_at=alert.ended_at,
        cause=alert.cause,
        move=alert.move,
        outcome=alert.outcome,
        link=address(f"pipelines/{pipeline}"),
    )


def example(now: datetime | None = None) -> Message:
    """Return a message that tries a notifier out."""
    at = now or datetime.now(UTC)
    cause, move = "this is a test, nothing is wrong", "Nothing: the notifier works"
    return message("windrow", Alert("0" * 16, Condition.LATE, "test", at, cause, move), BEGUN)


def _lines(text: str) -> str:
    return escape(text).replace("\n", "<br>")
