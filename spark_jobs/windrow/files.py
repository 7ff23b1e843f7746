"""Files that are written whole or not at all: a reader sees the old text or the new one, never half of either."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, text: str | bytes, *, private: bool = False) -> None:
    """Write a file (text as UTF-8) into an existing folder, replacing an older one in a single step.

    The temporary file carries the process id, because two processes may write the same file at once: the last one
    wins. It is removed if the write fails.

    Args:
        private: nobody but the owner may read it at any moment, whatever the mask of the process is.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.touch(0o600 if private else 0o666)
        temporary.write_bytes(text.encode() if isinstance(text, str) else text)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
