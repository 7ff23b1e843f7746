"""Airflow's instants as standard ones: Airflow's are pendulum's, whose differences are not `timedelta`s."""

from __future__ import annotations

from datetime import UTC, datetime

from windrow.text import short_instant_text


def plain(at: datetime) -> datetime:
    """The same instant as a standard datetime in UTC."""
    at = at.astimezone(UTC)
    return datetime(at.year, at.month, at.day, at.hour, at.minute, at.second, at.microsecond, tzinfo=UTC)


def argument(at: datetime) -> str:
    """An instant as an argument of a job."""
    return short_instant_text(plain(at))
