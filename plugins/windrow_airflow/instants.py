"""Instants between Airflow and Windrow: Airflow's are pendulum's, whose differences are not `timedelta`s."""

from __future__ import annotations

from datetime import UTC, datetime


def plain(at: datetime) -> datetime:
    """The same instant as a standard datetime in UTC."""
    at = at.astimezone(UTC)
    return datetime(at.year, at.month, at.day, at.hour, at.minute, at.second, at.microsecond, tzinfo=UTC)


def argument(at: datetime) -> str:
    """An instant as the jobs' arguments spell it."""
    return f"{plain(at):%Y-%m-%dT%H:%M:%SZ}"
