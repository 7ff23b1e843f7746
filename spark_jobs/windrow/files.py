"""Files that are written whole or not at all, and files of secrets that are read only where nobody else can read them.

A reader of what `write_whole` writes sees the old text or the new one, never half of either.
"""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

from windrow.outcomes import BadInput


def write_whole(path: Path, text: str | bytes, *, private: bool = False) -> None:
    """Write a file (text as UTF-8) into an existing folder, replacing an older one in a single step.

    The temporary file carries host and thread, because several may write the same file at once, also in containers
    that share a folder and count processes alike: the last one wins. It is removed if the write fails.

    Args:
        private: nobody but the owner may read it at any moment, whatever the mask of the process is.
    """
    temporary = path.with_name(f".{path.name}.{socket.gethostname()}.{threading.get_native_id()}")
    try:
        temporary.touch(0o600 if private else 0o666)
        temporary.write_bytes(text.encode() if isinstance(text, str) else text)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def read_private(file: Path, variable: str, *, must_own: bool = False) -> str:
    """Return the text of a file of secrets.

    Args:
        variable: the variable that names it, for messages.
        must_own: whether it must belong to the user of this process.

    Raises:
        BadInput: it cannot be read, is no text, or others than its owner may read it; the message shows nothing of it.
    """
    try:
        text, state = file.read_text(), file.stat()
    except OSError as error:
        raise BadInput(f"{variable}={file} cannot be read: {error.strerror}. Write it, or unset it.") from None
    except UnicodeDecodeError:
        raise BadInput(f"{variable}={file} is no text in UTF-8. Write it anew.") from None
    if must_own and state.st_uid != os.geteuid():
        raise BadInput(f"{variable}={file} belongs to another user: it must be of the user who runs this (chown)")
    if state.st_mode & 0o077:
        raise BadInput(f"{variable}={file} may be read by others than its owner: chmod 600 {file}")
    return text
