"""override: publish a blocked interval because a person decides so; who and why stand in its publication for good.

A balance that does not add up is not a matter of opinion, and cannot be overridden.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windrow.jobs.decision import decision
from windrow.jobs.options import IntervalStart, PipelineName, Reason, Who
from windrow.jobs.publish import brief
from windrow.jobs.run import BadRequest, context, job
from windrow.jobs.train import override


def execute(pipeline: PipelineName, interval: IntervalStart, reason: Reason, who: Who) -> Mapping[str, Any]:
    """Publish the interval's blocked candidate, and return the publication with who decided and why."""
    if not who:  # a form is sent by somebody: the user of this process is not who decides
        raise BadRequest("an override needs the name of who decides: it is recorded with the publication")
    decided = decision("an override", reason, who)
    row = override(context(pipeline), interval, decided.who, decided.reason)
    shown = {name: row[name] for name in ("overridden_by", "override_reason", "report")}
    return {"publications": [{**brief(row), **shown}], "report": row["report"]}


main = job(execute)
