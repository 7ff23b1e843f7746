"""What a store's refusal means: a key, a right, a bucket or an address that a person must mend, or a wait.

delta-rs, obstore and Polars say it in Rust's words, S3A in Java's. All of them name the request that failed; a text
without one is about something else.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from shlex import quote
from urllib.parse import urlsplit

from windrow.io.delta.store import StoreUnsafe
from windrow.outcomes import BadInput, Condition, NotReady, Refused
from windrow.places import Places
from windrow.text import without_login


class StoreRefused(Refused):
    """The store does not accept the key of this process, or the key lacks a right."""


class CredentialsMissing(Refused):
    """This process has no credentials for the store: no variable names any, and no role of the machine gives any."""


class StoreUnavailable(NotReady):
    """The store does not answer, or answers that it cannot. A retry helps once it does."""


class BucketMissing(NotReady):
    """The bucket of the tables is not there. Windrow creates none."""


class StoreAddressWrong(BadInput):
    """The address or the region of the store is one that its clients, or the store, refuse."""


_REQUEST = re.compile(
    r"Error performing (list request|[A-Z]+ https?://)|\(Service: S3, |software\.amazon\.awssdk|loading credentials"
)
_ORNAMENTS = re.compile(r"\x1b\[\d+m|↳")
_STATUS = re.compile(r"status code:? (?P<number>\d{3})\b", re.IGNORECASE)
_CODE = re.compile(r"<Code>(?P<name>\w+)</Code>")
_NO_BUCKET = re.compile(r"NoSuchBucket|InvalidBucketName|UnknownStoreException")
_ELSEWHERE = re.compile(
    r"redirect without LOCATION|AWSRedirectException|<Code>(PermanentRedirect|TemporaryRedirect"
    r"|AuthorizationHeaderMalformed|IllegalLocationConstraintException)</Code>"
)
"""A bucket of another region, as the store or a client of it says it."""
_RACE = re.compile(r"<Code>(ConditionalRequestConflict|OperationAborted)</Code>")
"""Two requests for one key at the same time, of which neither has won."""
_DENIED = re.compile(
    r"lacked the necessary (privileges|authentication)|AccessDeniedException|<Code>(Expired|Invalid)Token</Code>"
)
_NO_KEY = re.compile(
    r"https?://[^/\s]+/latest/(api/token|meta-data)|NoA(uthWithAWS|wsCredentials)Exception|Unable to load credentials"
    r"|failed to load IMDS"
)
"""A client without credentials asks the machine's metadata for those of a role; Java names the exception."""
_WAYS = (
    ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
    ("AWS_SHARED_CREDENTIALS_FILE",),
    ("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"),
)
"""Variables that give a process credentials; those of a way count together."""
_NO_TLS = re.compile(r"URL scheme is not allowed|BadScheme")
_UNTRUSTED = re.compile(r"invalid peer certificate|certificate verify failed|PKIX path")
_UNHEARD = re.compile(r"error sending request|operation timed out|Unable to execute HTTP request|UnknownHostException")


def of_store(error: str) -> Condition | None:
    """Return the condition that the text of a store's client stands for; None for other texts.

    Args:
        error: of any client, also as a Java trace. Of its words only the store's own name of the error is passed on.
    """
    text = " ".join(_ORNAMENTS.sub(" ", error).split())
    if not _REQUEST.search(text):
        return None
    store = f"the store at {without_login(os.environ.get('AWS_ENDPOINT_URL') or 'AWS')}"
    status, code = _STATUS.search(text), _CODE.search(text)
    number = int(status["number"]) if status else 0
    why = code["name"] if code else f"HTTP {number}" if number else "no right"
    if _NO_KEY.search(text) and not any(all(os.environ.get(name) for name in way) for way in _WAYS):
        return _without_credentials(store, number)
    if _NO_BUCKET.search(text):
        return BucketMissing(
            f"{store} has no bucket {_bucket()}. Correct WINDROW_TABLES or AWS_ENDPOINT_URL, or create the bucket, "
            "then run again."
        )
    if _ELSEWHERE.search(text) or number in (301, 307):
        return StoreAddressWrong(
            f"{store} does not have the bucket {_bucket()} in this region: {why}. Write the bucket's region into "
            "AWS_REGION, or its address into AWS_ENDPOINT_URL, then run again."
        )
    if number == 501:
        return StoreUnsafe(os.environ.get("WINDROW_TABLES", ""), f"answered {why} to a request that Windrow needs")
    if number in (401, 403) or _DENIED.search(text):
        return StoreRefused(
            f"{store} does not let this process in: {why}. Correct its credentials (docs/SECURITY.md, The store's "
            "credentials), or give them the rights to read, write, list and delete there, then run again."
        )
    if _NO_TLS.search(text):
        return StoreAddressWrong(
            f"{store} is addressed without TLS, and that is not allowed. Write https:// in AWS_ENDPOINT_URL, or set "
            "AWS_ALLOW_HTTP=true where nobody else is on the way, then run again."
        )
    if _UNTRUSTED.search(text):
        return StoreRefused(
            f"no TLS connection with {store}: its certificate is not trusted. Name the authority that has signed it in "
            "SSL_CERT_FILE, and in the trust store of Java, then run again."
        )
    if number >= 500 or number == 429 or _RACE.search(text) or _UNHEARD.search(text):
        heard = f"answered {why}" if number else "does not answer"
        move = (
            "It is the store of this home: `windrow up --store` starts it; then run again."
            if _is_own()
            else "Is it up, and is AWS_ENDPOINT_URL its address? Then run again."
        )
        return StoreUnavailable(f"{store} {heard}. What was committed stands. {move}")
    return None


def _without_credentials(store: str, number: int) -> Condition:
    """Return the condition of a client that has found no credentials.

    Args:
        number: HTTP status of the service that gives the role of a machine its credentials; 0 without an answer.
    """
    if number >= 500 or number == 429:
        return StoreUnavailable(
            f"no credentials for {store} now: the service of this machine's role answered HTTP {number}. What was "
            "committed stands. Run again."
        )
    own = Places.from_env(os.environ).store_env
    source = f" For the store of `windrow up --store`: `source {quote(str(own))}`." if own.exists() else ""
    return CredentialsMissing(
        f"no credentials for {store} were found, and no role of this machine gives any. Set "
        f"{', or '.join(map(' and '.join, _WAYS))} (docs/SECURITY.md, The store's credentials).{source} "
        "Then run again."
    )


def _bucket() -> str:
    """Return the name of the bucket of this process, as a message has it."""
    tables = os.environ.get("WINDROW_TABLES", "")
    return repr(urlsplit(tables).netloc) if "://" in tables else "of the name in WINDROW_TABLES"


def _is_own() -> bool:
    """Whether the store that this process asks is that of `windrow up --store` in its home."""
    with suppress(OSError):
        address = f"export AWS_ENDPOINT_URL={quote(os.environ.get('AWS_ENDPOINT_URL', ''))}"
        return address in Places.from_env(os.environ).store_env.read_text().splitlines()
    return False
