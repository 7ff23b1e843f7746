"""Credentials of an object store that stand in a file: no process has them in its environment.

    AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY          first: every reader takes them from the environment itself
    AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_ARN         then:  likewise
    AWS_SHARED_CREDENTIALS_FILE, AWS_PROFILE          then:  Java reads the file itself; delta-rs, Polars and obstore do
                                                             not, and are handed what stands in it

The file is read whenever a table is opened, so a changed one counts from then on.
"""

from __future__ import annotations

import configparser
import os
from pathlib import Path

from windrow.files import read_private
from windrow.outcomes import BadInput

FILE = "AWS_SHARED_CREDENTIALS_FILE"
_PROFILE = "AWS_PROFILE"
_OTHERS = ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE")
_KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")


class CredentialsWrong(BadInput):
    """The file of credentials cannot be used; the message says what to change, and shows no value of it."""


def of_file() -> dict[str, str] | None:
    """Return what stands in the file of credentials, by the lower-case names of delta-rs, Polars and obstore.

    Returns:
        Key, secret and session token where there is one; None where the environment names no file, or other
        credentials, which come first.

    Raises:
        CredentialsWrong: the file has no such profile, or the profile no key.
        BadInput: the file cannot be read, or others than its owner may read it.
    """
    named = os.environ.get(FILE)
    if not named or any(os.environ.get(name) for name in _OTHERS):
        return None
    profile = os.environ.get(_PROFILE) or "default"
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(read_private(Path(named), FILE))
    except configparser.Error:
        raise CredentialsWrong(f"{FILE}={named} is no file of profiles: [{profile}], then name = value") from None
    if not parser.has_section(profile):
        raise CredentialsWrong(f"{FILE}={named} has no profile [{profile}]; add it, or name another in {_PROFILE}")
    found = {name: parser[profile][name] for name in _KEYS if parser[profile].get(name)}
    if missing := [name for name in _KEYS[:2] if name not in found]:
        raise CredentialsWrong(f"{FILE}={named}: profile [{profile}] lacks {missing[0]}")
    return found
