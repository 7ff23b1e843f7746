"""The platform without the `windrow` command: for `make setup` and for containers.

python -m windrow.platform setup [SET …]  jars, Spark configuration, class-data archive; also these sets of jars
python -m windrow.platform where          what starts a job here, as a line of JSON (see `jobs_side`)
python -m windrow.platform run PART       kafka or airflow in the foreground, until a signal or its end
python -m windrow.platform run --cluster PART   store, postgres, kafka, spark or airflow, of the home's cluster
python -m windrow.platform answers PART   exit code 0 if the part answers, else 1
"""

from __future__ import annotations

import os
import signal
import sys
from time import sleep
from types import FrameType

from windrow import platform
from windrow.places import Places, SettingWrong, umask_of
from windrow.platform import jobs_side
from windrow.platform.servers import cluster


def main(argv: list[str]) -> int:
    """Return the exit code: 0, 1 with a message if the machine lacks something, 2 for wrong arguments or variables."""
    try:
        os.umask(umask_of(os.environ))
        places = Places.from_env(os.environ)
        match argv:
            case ["setup", *sets] if set(sets) <= set(platform.jars.SETS):
                platform.setup(places, sets)
            case ["where"]:
                print(jobs_side.here(places).to_json())
            case ["run", ("kafka" | "airflow") as part]:
                return _run(places, part)
            case ["run", "--cluster", part] if part in platform.CLUSTER_PARTS:
                return _run(cluster.join(os.environ), part)
            case ["answers", part] if part in platform.CLUSTER_PARTS:
                return 0 if _answers(cluster.places_of(os.environ), part) else 1
            case _:
                print(__doc__, file=sys.stderr)
                return 2
    except SettingWrong as wrong:
        print(wrong, file=sys.stderr)
        return 2
    except platform.PlatformNotReady as missing:
        print(missing, file=sys.stderr)
        return 1
    return 0


def _run(places: Places, part: str) -> int:
    """Run a part in the foreground until one of its processes ends, then stop the others."""

    def leave(_signal: int, _frame: FrameType | None) -> None:
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, leave)
    try:
        platform.up(places, only=(part,))
        while all(one.pid for one in _processes(places, part)):
            sleep(5)
    finally:
        platform.down(places, only=(part,))
    return 1


def _processes(places: Places, part: str) -> list[platform.Part]:
    return [one for one in platform.status(places) if one.name.startswith(part)]


def _answers(places: Places, part: str) -> bool:
    found = _processes(places, part)
    return bool(found) and all(one.state == "running" for one in found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
