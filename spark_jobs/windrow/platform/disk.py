"""Refuse early where a disk has no room, instead of failing in the middle of a write."""

from __future__ import annotations

import shutil
from pathlib import Path

from windrow.platform.conditions import NoRoom


def require_room(folder: Path, needed: int, variable: str) -> None:
    """Create the folder, and check that its disk has `needed` bytes free.

    Args:
        variable: environment variable that moves the folder, for the message.

    Raises:
        NoRoom: the folder cannot be created, or its disk has too little room.
    """
    move = f"set {variable} to a folder on a disk with room that you may write to."
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise NoRoom(f"The folder {folder} cannot be made: {problem.strerror}.", move) from problem
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise NoRoom(f"{folder} has {free // 2**20} MB free, {needed // 2**20} MB are needed.", f"make room, or {move}")
