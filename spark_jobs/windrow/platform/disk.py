"""Refuses early where there is no room, instead of breaking in the middle of a write."""

from __future__ import annotations

import shutil
from pathlib import Path

from windrow.platform.conditions import DiskFull


def require_room(folder: Path, needed: int, variable: str) -> None:
    """Make the folder, and look that its disk has `needed` bytes free.

    Raises:
        DiskFull: it cannot be made, or there is too little room; names the variable that moves it.
    """
    move = f"set {variable} to a folder on a disk with room that you may write to."
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise DiskFull(f"The folder {folder} cannot be made: {problem.strerror}.", move) from problem
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise DiskFull(
            f"{folder} has {free // 2**20} MB free, {needed // 2**20} MB are needed.", f"make room, or {move}"
        )
