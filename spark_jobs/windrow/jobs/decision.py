"""Who decides, and why. Both are recorded for good with the result, so neither may be empty."""

from __future__ import annotations

import getpass

from windrow.io.registers import plans
from windrow.jobs.run import BadRequest

LONGEST = 1_000
"""Characters of a reason or a name."""


def decision(what: str, reason: str, who: str | None = None) -> plans.Request:
    """Return the reason and the name that are recorded; without a name it is the user of this process.

    Args:
        what: what is decided, for the message: "an override".
        reason: why, as the person wrote it.
        who: who decides; None or empty for the user of this process.
    Raises:
        BadRequest: the reason is empty, or one of the two is longer than `LONGEST` or not a single line.
    """
    reason, who = reason.strip(), (who or "").strip() or getpass.getuser()
    if not _is_line(reason):
        raise BadRequest(f"{what} needs a reason, in one line of at most {LONGEST} characters: --reason 'why'")
    if not _is_line(who):
        raise BadRequest(f"--who is a name, in one line of at most {LONGEST} characters")
    return plans.Request(reason, who)


def noted(why: str, who: str | None = None) -> tuple[str, str | None]:
    """Return the name, and the reason if there is one, of what needs none; without a name it is this process's user.

    Raises:
        BadRequest: one of the two is longer than `LONGEST` or not a single line.
    """
    why, who = why.strip(), (who or "").strip() or getpass.getuser()
    if why and not _is_line(why):
        raise BadRequest(f"--why is one line of at most {LONGEST} characters")
    if not _is_line(who):
        raise BadRequest(f"--who is a name, in one line of at most {LONGEST} characters")
    return who, why or None


def _is_line(text: str) -> bool:
    return bool(text) and text.isprintable() and len(text) <= LONGEST
