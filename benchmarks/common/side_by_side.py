"""Variants of the same work, timed in turn in one run, so that a busy machine affects all variants alike.

    round 1: A B C   round 2: A B C   …       a fresh process each: its first pass is *cold* (what a scheduled run
                                              pays), its second in the same process is *warm*

Wall seconds, CPU-seconds of the whole process tree (driver, JVM, Python workers), and the bytes that read calls gave
it: Linux's `rchar`, so files whether or not they were cached, and in a cold pass also the jars and modules that are
loaded, which is the same for every variant that does the same work. Of the cold pass also the peak memory. Ratios are
computed per round against the first variant; median, minimum and maximum are printed. Absolute figures say nothing
about another machine.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

RESULTS = Path(__file__).parents[1] / "results"
_MARK = "BENCHMARK_PASSES "
_TOLD = "BENCHMARK_TOLD "
_UNITS = {
    "wall": ("wall s", "wall ratio"),
    "cpu": ("CPU s", "CPU ratio"),
    "read": ("MB read", "read ratio"),
    "peak": ("peak MB", "peak ratio"),
}
"""What is measured, with the heads of its columns; results from before a unit was measured lack it."""
_BYTES = ("read", "peak")


@dataclass(frozen=True)
class Cost:
    """Cost of some work: seconds, and bytes read (0 if the system does not count them)."""

    wall: float
    cpu: float
    read: int = 0

    def __sub__(self, earlier: Cost) -> Cost:
        return Cost(self.wall - earlier.wall, self.cpu - earlier.cpu, self.read - earlier.read)


def spent(beside: Sequence[psutil.Process] = ()) -> Cost:
    """Cost since this process began, including its descendants, ended or not.

    Args:
        beside: other processes, whose cost and their descendants' since they began is added.
    """
    cpu, read = 0.0, 0
    for process in _families(beside):
        try:
            times = process.cpu_times()
            read += getattr(process.io_counters(), "read_chars", 0) if hasattr(process, "io_counters") else 0
        except psutil.Error:
            continue
        cpu += times.user + times.system + times.children_user + times.children_system
    return Cost(time.time() - psutil.Process().create_time(), cpu, read)


def peak(beside: Sequence[psutil.Process] = ()) -> int:
    """Peak memory of this process, of those beside, and of all their living descendants.

    Returns:
        bytes: Linux's `VmHWM`, summed; 0 elsewhere.
    """
    return sum(_peak(process.pid) for process in _families(beside))


def _families(beside: Sequence[psutil.Process]) -> list[psutil.Process]:
    first = (psutil.Process(), *beside)
    return [one for process in first for one in (process, *process.children(recursive=True))]


def _peak(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


class Steps:
    """Where a pass spends: the cost from one mark to the next. The first pass begins with its process."""

    def __init__(self, number: int) -> None:
        self.costs: dict[str, Cost] = {}
        self._last = spent() if number else Cost(0, 0)

    def done(self, name: str) -> None:
        """Everything since the last mark was the step `name`."""
        now = spent()
        self.costs[name], self._last = now - self._last, now


def work_twice(
    work: Callable[[int], Steps | None],
    before: Callable[[], None] | None = None,
    between: Callable[[], None] | None = None,
) -> None:
    """In a worker: the cold pass and the warm one; the last line printed tells both to `compare`.

    Args:
        before: is done before the cold pass and not counted; without it the pass begins with the process.
        between: is done between the passes and not counted.
    """
    began = _spent_after(before) if before else Cost(0, 0)
    first = work(0)
    cold, most = spent() - began, peak()
    began = _spent_after(between)
    second = work(1)
    warm = spent() - began
    _report(most, cold=(cold, first), warm=(warm, second))


def tell(text: str) -> None:
    """In a worker: have a line printed beside the figures."""
    print(f"{_TOLD}{text}", flush=True)


def _spent_after(work: Callable[[], None] | None) -> Cost:
    if work:
        work()
    return spent()


def work_once(work: Callable[[], Steps | None]) -> None:
    """In a worker whose second pass would not be the same work: the cold pass only."""
    steps = work()
    _report(peak(), cold=(spent(), steps))


def _report(most: int, **passes: tuple[Cost, Steps | None]) -> None:
    figures: dict[str, dict[str, Any]] = {
        kind: {**asdict(cost), **({"steps": {n: asdict(c) for n, c in steps.costs.items()}} if steps else {})}
        for kind, (cost, steps) in passes.items()
    }
    figures["cold"]["peak"] = most
    print(_MARK + json.dumps(figures), flush=True)


def compare(
    name: str,
    variants: Sequence[str],
    command: Callable[[str], Sequence[str]],
    *,
    rounds: int,
    about: Mapping[str, object],
) -> dict[str, object]:
    """Time the variants in turn; prints and keeps `results/<name>.json`. The first variant is the yardstick.

    Args:
        command: variant → the worker's command; it prints its passes by `work_twice` or `work_once`.
        about: what the work is (rows, columns, …), kept with the figures.
    """
    passes: dict[str, list[dict[str, dict[str, Any]]]] = {variant: [] for variant in variants}
    for number in range(rounds):
        for variant in variants:
            print(f"{name}: round {number + 1} of {rounds}, {variant} …", flush=True)
            passes[variant].append(_passes_of(command(variant)))
    result = {
        "name": name,
        "about": dict(about),
        "machine": machine(),
        "commit": commit(),
        "rounds": rounds,
        "passes": passes,
        "ratios": _ratios(passes, variants),
    }
    keep(result)
    print(table(result))
    print(steps_table(passes))
    return result


def keep(result: Mapping[str, object]) -> None:
    """In `results/<name>.json`."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{result['name']}.json").write_text(json.dumps(result, indent=1) + "\n")


def machine() -> dict[str, object]:
    """The size of the machine, and nothing that names it."""
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "python": platform.python_version(),
        "system": platform.system(),
    }


def commit() -> str:
    """What was measured: the commit, and whether something but the results had been changed since."""
    found = _git("rev-parse", "--short", "HEAD")
    others = (":/", f":!{RESULTS.name}", ":!README.md")
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", *others)
    return f"{found}{'-dirty' if changed else ''}" if found else "no repository"


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=RESULTS.parent, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def table(result: Mapping[str, object]) -> str:
    """Markdown: one line per variant and pass, seconds as medians, ratios as `median (least to most)`."""
    passes, ratios = result["passes"], result["ratios"]
    assert isinstance(passes, dict)
    assert isinstance(ratios, dict)
    units = [unit for unit in _UNITS if any(unit in run["cold"] for runs in passes.values() for run in runs)]
    heads = [_UNITS[unit][n] for n in range(2) for unit in units]
    lines = [f"| | pass | {' | '.join(heads)} |", "| --- " * (2 + len(heads)) + "|"]
    for variant, runs in passes.items():
        for kind in runs[0]:
            ratio_texts = [_ratio_text(ratios[variant].get(kind, {}).get(unit)) for unit in units]
            lines.append(f"| {variant} | {kind} | {_medians(runs, kind, units, ' | ')} | {' | '.join(ratio_texts)} |")
    return "\n".join(lines)


def steps_table(passes: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Markdown: one line per step, one column per variant, medians as `wall s / CPU s / MB read`; "" without steps."""
    lines = []
    for kind in dict.fromkeys(kind for runs in passes.values() for kind in runs[0]):
        steps = {v: [r[kind]["steps"] for r in runs] for v, runs in passes.items() if "steps" in runs[0].get(kind, {})}
        names = dict.fromkeys(name for runs in steps.values() for name in runs[0])
        if not names:
            continue
        lines += [
            "",
            f"| {kind}: wall s / CPU s / MB read | " + " | ".join(steps) + " |",
            "| --- " * (len(steps) + 1) + "|",
        ]
        for name in names:
            cells = [
                _medians(runs, name, ("wall", "cpu", "read"), " / ") if name in runs[0] else "-"
                for runs in steps.values()
            ]
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _medians(runs: Sequence[Mapping[str, Any]], name: str, units: Sequence[str], between: str) -> str:
    return between.join(_median([run[name][unit] for run in runs if unit in run[name]], unit) for unit in units)


def _median(values: Sequence[float], unit: str) -> str:
    return f"{statistics.median(values) / (1e6 if unit in _BYTES else 1):.1f}" if values else "-"


def arguments(about: str, variants: Sequence[str], **defaults: int) -> argparse.Namespace:
    """The command line that every benchmark has; `defaults` are its sizes."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="how often each variant runs (default 3)")
    parser.add_argument("--home", default=".windrow/benchmarks", help="folder for data, made once")
    parser.add_argument("--variants", nargs="+", default=list(variants), help=f"of {', '.join(variants)}")
    for size, value in defaults.items():
        parser.add_argument(f"--{size}", type=int, default=value, help=f"(default {value})")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    return parser.parse_args()


def _passes_of(command: Sequence[str]) -> dict[str, dict[str, Any]]:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    lines = done.stdout.splitlines()
    marked = [line for line in lines if line.startswith(_MARK)]
    if done.returncode or not marked:
        sys.exit(f"{' '.join(command)}\n{done.stdout[-4000:]}\nended with {done.returncode}; no figures")
    for line in lines:
        if line.startswith(_TOLD):
            print(line.removeprefix(_TOLD), flush=True)
    return json.loads(marked[-1].removeprefix(_MARK))


def _ratios(
    passes: Mapping[str, Sequence[Mapping[str, Mapping[str, Any]]]], variants: Sequence[str]
) -> dict[str, dict[str, dict[str, list[float]]]]:
    yardstick = passes[variants[0]]
    return {
        variant: {
            kind: {
                unit: [
                    mine[kind][unit] / base[kind][unit] for mine, base in zip(passes[variant], yardstick, strict=True)
                ]
                for unit in _UNITS
                if all(base[kind].get(unit) for base in yardstick)
            }
            for kind in passes[variant][0]
            if kind in yardstick[0]
        }
        for variant in variants
    }


def _ratio_text(ratios: Sequence[float] | None) -> str:
    if not ratios:
        return "-"
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
