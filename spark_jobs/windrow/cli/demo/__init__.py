"""demo: land and train on real impressions through the Airflow scheduler, and check every figure against the truth.

real CSVs ─▶ Kafka ─▶ Airflow: open_bandit.land, open_bandit.training ─▶ training table
    └──────────▶ the known truth of the input ◀── compared, row by row ──────┘
"""

from __future__ import annotations

import os

from windrow import platform
from windrow.cli.demo.figures import as_json, differences, print_results
from windrow.cli.demo.preparation import prepare
from windrow.cli.demo.watch import watch
from windrow.cli.show import AsJson, console, print_json
from windrow.outcomes import NeedsPerson
from windrow.places import Places
from windrow.simulate import open_bandit


class FigureOff(NeedsPerson):
    """A figure of the demo is not what the input's truth says."""


def demo(json: AsJson = False) -> None:
    """Run the main job on real data through Airflow, and check every figure. Takes about five minutes.

    It starts Kafka, an engine and Airflow where they do not run. An interrupted demo is continued.
    """
    places = Places.from_env(os.environ)
    platform.Airflow(places).require_own_data()
    console.print(open_bandit.NOTE, style="dim")
    wheel = open_bandit.fetch(places.cache)
    platform.up(places, console.print, only=("kafka",))
    prepared = prepare(places, wheel)
    platform.up(places, console.print, only=("engine", "airflow"))
    watch(prepared)
    wrong = list(differences(prepared))
    print_results(prepared)
    if wrong:
        raise FigureOff("these figures are off:\n" + "\n".join(f"  {line}" for line in wrong))
    console.print("\nevery figure matches the known input", style="bold")
    if json:
        print_json(as_json(prepared))
