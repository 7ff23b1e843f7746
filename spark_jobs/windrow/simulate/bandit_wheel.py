"""The Open Bandit data as published: fetched once, verified by its hash, never installed.

The wheel of the Open Bandit Pipeline (PyPI: obp) contains six CSV files of 10 000 logged impressions each. Only those
files are needed; installing the wheel would pull in many packages.
"""

from __future__ import annotations

import csv
import hashlib
import importlib.util
import io
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

VERSION = "0.4.1"
"""The newest wheel that pip offers to Python 3.11."""
WHEEL = f"obp-{VERSION}-py3-none-any.whl"
SHA256 = "87dec9caf4283c25ab13036532e0a24566f1c7bdcad1653a8ded43b2f5ef8208"
FILES = ("random/all", "random/men", "random/women", "bts/all", "bts/men", "bts/women")


class OpenBanditUnavailable(RuntimeError):
    """The wheel could not be fetched, or is not the expected one."""


class Impression(NamedTuple):
    """One line of a file: an item that was shown to a user, with the features that the policy had."""

    impression_id: str
    """File and line: `random-all-00017`."""
    shown_at: datetime
    policy: str
    campaign: str
    item_id: int
    position: int
    clicked: bool
    propensity: float
    user_features: tuple[str, ...]
    affinities: tuple[float, ...]


def fetch(cache: Path) -> Path:
    """Path of the wheel in `<cache>/open_bandit/`, downloaded on first use.

    Raises:
        OpenBanditUnavailable: the download failed, or its hash is wrong.
    """
    folder = cache / "open_bandit"
    wheel = folder / WHEEL
    if wheel.exists() and _hash(wheel) == SHA256:
        return wheel
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        made = _download(Path(scratch))
        if (found := _hash(made)) != SHA256:
            raise OpenBanditUnavailable(
                f"{WHEEL} from the package index has SHA-256 {found}, expected {SHA256}: a damaged download "
                f"or another file. Nothing was kept. Try again; if it stays, put the right file at {wheel}."
            )
        os.replace(made, wheel)
    return wheel


def read(wheel: Path, file: str) -> Iterator[Impression]:
    """Yield the impressions of a file, such as `random/all`, in the order of its lines.

    Raises:
        ValueError: the data has no such file.
    """
    if file not in FILES:
        raise ValueError(f"no file {file!r} in the Open Bandit data: use one of {', '.join(FILES)}")
    policy, campaign = file.split("/")
    with (
        zipfile.ZipFile(wheel) as archive,
        archive.open(f"obp/dataset/obd/{policy}/{campaign}/{campaign}.csv") as raw,
    ):
        lines = csv.reader(io.TextIOWrapper(raw, "utf-8", newline=""))
        names = next(lines)
        at = {name: column for column, name in enumerate(names)}
        users = [column for column, name in enumerate(names) if name.startswith("user_feature_")]
        affinities = [column for column, name in enumerate(names) if name.startswith("user-item_affinity_")]
        for line in lines:
            yield Impression(
                impression_id=f"{policy}-{campaign}-{int(line[0]):05d}",
                shown_at=datetime.fromisoformat(line[at["timestamp"]]),
                policy=policy,
                campaign=campaign,
                item_id=int(line[at["item_id"]]),
                position=int(line[at["position"]]),
                clicked=line[at["click"]] == "1",
                propensity=float(line[at["propensity_score"]]),
                user_features=tuple(line[column] for column in users),
                # nearly all are 0.0: sharing one object saves most of the memory
                affinities=tuple(0.0 if line[column] == "0.0" else float(line[column]) for column in affinities),
            )


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _download(folder: Path) -> Path:
    """Download the wheel with the first pip that works, from the index for which that pip is configured."""
    arguments = ["download", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "--no-input"]
    outputs: list[str] = []
    for pip, extra in _pips():
        done = subprocess.run(
            [*pip, *arguments, "--dest", str(folder), f"obp=={VERSION}"],
            env=os.environ | extra,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        if done.returncode == 0 and (folder / WHEEL).exists():
            return folder / WHEEL
        outputs.append(f"{' '.join(pip)}: {(done.stderr or done.stdout).strip()[-500:]}")
    raise OpenBanditUnavailable(
        f"Could not download {WHEEL} (1.3 MB) from the package index. Look at the network and pip's index, "
        f"and try again, or put the file there by hand: {folder.parent / WHEEL}\n" + "\n".join(outputs)
    )


def _pips() -> Iterator[tuple[list[str], dict[str, str]]]:
    """Ways to run pip, each with additional environment variables: an environment made by uv has no pip of its own."""
    if importlib.util.find_spec("pip"):
        yield [sys.executable, "-m", "pip"], {}
    base = getattr(sys, "_base_executable", sys.executable)
    if base != sys.executable:
        yield [base, "-m", "pip"], {}
    if spec := importlib.util.find_spec("ensurepip"):
        for bundled in sorted(Path(str(spec.origin)).parent.glob("_bundled/pip-*.whl")):
            yield [sys.executable, "-m", "pip"], {"PYTHONPATH": str(bundled)}
    if uv := shutil.which("uv"):
        yield [uv, "tool", "run", "pip"], {}
