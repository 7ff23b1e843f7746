"""Files of tables, in a folder or in an object store. No other module knows the difference.

    /srv/windrow/tables/feed/training      a folder: a name is taken by a link, which fails where it is taken
    s3://bucket/prefix/feed/training       a store:  a key is taken by a conditional PUT, which fails likewise

A location is text: `Path` would make one slash of two. Endpoint and credentials of a store are in the environment of
each process (`AWS_*`, or web identity), as delta-rs and Polars read them too. Only credentials that stand in a file
(`credentials`) are handed to them, in memory.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import obstore
import pyarrow.fs
import pyarrow.parquet as pq
from deltalake.fs import DeltaStorageHandler
from obstore.exceptions import AlreadyExistsError, GenericError, NotSupportedError, PreconditionError
from obstore.store import LocalStore, ObjectStore, S3Store

from windrow.io.delta import credentials
from windrow.outcomes import BadInput

T = TypeVar("T")
_AT_ONCE = 8
"""Requests of one process to a store at the same time."""
_FEW = 50
"""Up to so many files a store is asked for one by one: a list has a thousand names, of other files too."""


class StoredFile(NamedTuple):
    """A file as its store lists it."""

    name: str
    """relative to the location that was asked"""
    size: int
    """bytes"""
    modified: datetime


def is_remote(location: str) -> bool:
    """Return whether a location is in an object store."""
    return "://" in location


def options(location: str) -> dict[str, str] | None:
    """Return what delta-rs and Polars need for a location and do not find themselves; None for nothing.

    It may hold secrets: it belongs into the memory of a client alone.

    Raises:
        BadInput: the file of credentials cannot be used.
    """
    return credentials.of_file() if location.startswith("s3") and is_remote(location) else None


def each(locations: Iterable[str], work: Callable[[str], T]) -> list[T]:
    """Do something with each of several files, and return what comes of it, in their order.

    A store answers each in its own time, so several are asked at once; a folder answers faster than a thread starts.
    """
    wanted = list(locations)
    if not wanted or not is_remote(wanted[0]):
        return [work(one) for one in wanted]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(work, wanted))


def may_exist(location: str) -> bool:
    """Return False where there is no folder at the location. A store has no folders, so there may always be one."""
    return is_remote(location) or os.path.isdir(location)


def stat(location: str) -> StoredFile | None:
    """Return the file at a location, or None. Its name is the last part of the location.

    Args:
        location: folder, `/` and name of one file.
    """
    folder, name = location.rsplit("/", 1)
    if not may_exist(folder):
        return None
    try:
        found = obstore.head(*_file(location))
    except FileNotFoundError:
        return None
    return StoredFile(name, found["size"], found["last_modified"])


def sizes(folder: str, names: Sequence[str]) -> dict[str, int]:
    """Return name → bytes of those files of a folder that are there. A store is asked for a list.

    Args:
        names: of files; at least one for a store.
    """
    if not is_remote(folder):
        return {name: os.stat(f"{folder}/{name}").st_size for name in names if os.path.exists(f"{folder}/{name}")}
    wanted = set(names)
    return {file.name: file.size for file in listed(folder, after=f"{min(names)[:-1]}") if file.name in wanted}


def missing(folder: str, names: Sequence[str]) -> list[str]:
    """Return those of some files of a folder, and of the folders below, that are not there.

    A store is asked for each of a few, and for a list where there are many.
    """
    if is_remote(folder) and len(names) <= _FEW:
        seen = each([f"{folder}/{name}" for name in names], stat)
        return [name for name, file in zip(names, seen, strict=True) if file is None]
    found = sizes(folder, names)
    return [name for name in names if name not in found]


def listed(folder: str, *, after: str | None = None) -> list[StoredFile]:
    """Return the files in a folder and the folders below, by name; empty where there is none.

    Args:
        after: only names greater than this; a store does not list the others.
    """
    if not may_exist(folder):
        return []
    client, key = _folder(folder)
    found = [meta for page in obstore.list(client, key, offset=None if after is None else key + after) for meta in page]
    return sorted(StoredFile(meta["path"].removeprefix(key), meta["size"], meta["last_modified"]) for meta in found)


def folders(location: str) -> list[str]:
    """Return the names of the folders directly in a folder, sorted; what is in them is not listed."""
    if not may_exist(location):
        return []
    found = obstore.list_with_delimiter(*_folder(location))["common_prefixes"]
    return sorted(str(one).rsplit("/", 1)[-1] for one in found)


def read(location: str) -> bytes:
    """Return the content of a small file.

    Raises:
        FileNotFoundError: there is none.
    """
    if not may_exist(location.rsplit("/", 1)[0]):
        raise FileNotFoundError(location)
    return bytes(obstore.get(*_file(location)).bytes())


def footer(location: str) -> pq.FileMetaData:
    """Return the footer of a Parquet file.

    Raises:
        FileNotFoundError: there is none.
        pyarrow.ArrowInvalid: it is cut.
    """
    folder, name = location.rsplit("/", 1)
    return pq.read_metadata(name, filesystem=filesystem(folder))


def filesystem(folder: str) -> pyarrow.fs.FileSystem:
    """Return a folder as a file system for pyarrow; its names are relative to the folder."""
    if not is_remote(folder):  # read by Arrow itself: what passes through delta-rs is copied twice
        return pyarrow.fs.SubTreeFileSystem(folder, pyarrow.fs.LocalFileSystem())
    return pyarrow.fs.PyFileSystem(DeltaStorageHandler(folder, options(folder)))


def copy(source: str, target: str, *, is_new: bool = False) -> None:
    """Give the file at `source` another name, replacing an older file of that name in a single step.

    A folder gets a link, and a store copies without a byte passing through this process.

    Args:
        source: location of a file.
        target: of a store, in the same bucket.
        is_new: the file's date becomes the present, under both names in a folder. A copy in a store is new in any case.
    Raises:
        FileNotFoundError: there is no file at `source`.
        ValueError: source and target are in two buckets.
    """
    if is_remote(source):
        if urlsplit(source).netloc != urlsplit(target).netloc:
            raise ValueError(f"{source} and {target} are in two buckets")
        obstore.copy(*_file(source), _file(target)[1])
        return
    root = os.path.commonpath([source, target])
    obstore.copy(LocalStore(root), os.path.relpath(source, root), os.path.relpath(target, root))
    if is_new:
        os.utime(target)


def create(location: str, content: bytes) -> bool:
    """Write a file where there is none; return whether this call has written it."""
    try:
        obstore.put(*_file(location), content, mode="create")
    except AlreadyExistsError:
        return False
    return True


def put(source: str, location: str) -> None:
    """Move a file of this machine to a location, where it is whole or not at all.

    Args:
        source: path on this machine; it is gone afterwards.
        location: in a folder or a store; a file there is replaced.
    """
    if is_remote(location):
        with open(source, "rb") as file:
            obstore.put(*_file(location), file)
        os.unlink(source)
        return
    os.makedirs(os.path.dirname(location), exist_ok=True)
    os.replace(source, location)


def replace(location: str, content: bytes, tag: str | None) -> str | None:
    """Write a file in a store if it still has this tag, or with None if it is not there; return its new tag.

    None is returned where another writer was faster. A client repeats a request whose answer was lost, and is refused
    by its own first one: then the content is there. A folder has no such operation.

    Args:
        content: what no other writer writes.
        tag: what `tagged` returned with the content that is replaced.
    """
    mode: Any = "create" if tag is None else {"e_tag": tag}
    try:
        made = obstore.put(*_file(location), content, mode=mode)
    except (AlreadyExistsError, PreconditionError):
        with suppress(FileNotFoundError):
            there, found = tagged(location)
            return found if there == content else None
        return None
    return made["e_tag"]


def tagged(location: str) -> tuple[bytes, str | None]:
    """Return content and tag of a file in a store.

    Raises:
        FileNotFoundError: there is none.
    """
    found = obstore.get(*_file(location))
    return bytes(found.bytes()), found.meta["e_tag"]


def remove(folder: str, names: Collection[str]) -> int:
    """Delete files below a folder; return how many, without those that are gone already.

    Args:
        names: relative to the folder.
    """
    if not names or not may_exist(folder):
        return 0
    present = set(names) & {file.name for file in listed(folder)}
    client, key = _folder(folder)
    obstore.delete(client, sorted(key + name for name in present))
    return len(present)


def remove_all(folder: str) -> None:
    """Delete a folder with all files in it, if it is there."""
    if is_remote(folder):
        remove(folder, [file.name for file in listed(folder)])
    else:
        shutil.rmtree(folder, ignore_errors=True)


class StoreUnsafe(BadInput):
    """A store that lets two writers win the same key: commits would be lost, although they were acknowledged."""

    def __init__(self, tables: str, lacks: str) -> None:
        super().__init__(
            f"the store of {tables} {lacks}. Use a store that has conditional writes (docs/ARCHITECTURE.md, Tables in "
            "an object store)."
        )


def require_conditional(tables: str, *, again: bool = False) -> None:
    """Fail where the store overwrites a key that must be new, or does not replace exactly what it is told to.

    The first is asked each time, by two requests; the second, which leases need, where no process has found it so.
    A folder is not asked.

    Args:
        tables: location below which all tables are.
        again: the second is asked in any case.
    Raises:
        StoreUnsafe: the second of two conditional PUTs of a key did not fail, or one with a tag was answered wrongly.
    """
    if not is_remote(tables):
        return
    probe = f"{tables}/.windrow-probe"
    if again or stat(probe) is None:
        _require_tags(tables)
        create(probe, b"first")
    if create(probe, b"second"):
        raise StoreUnsafe(
            tables,
            "does not refuse a second PUT with If-None-Match of the same key, so commits of two writers could replace "
            "each other",
        )


def _require_tags(tables: str) -> None:
    probe = f"{tables}/.windrow-probe-tag"
    create(probe, b"first")
    try:
        is_obeyed = not _is_replaced_blindly(probe) and any(_is_replaced(probe) for _ in range(3))
    except (GenericError, NotSupportedError) as error:
        if isinstance(error, GenericError) and "NotImplemented" not in str(error):
            raise
        is_obeyed = False
    if not is_obeyed:
        raise StoreUnsafe(
            tables, "does not obey If-Match of a PUT, so a lease could be held twice, or never given back"
        )


_NO_TAG = '"00000000000000000000000000000000"'


def _is_replaced_blindly(probe: str) -> bool:
    """Whether a file is replaced under a tag that it never had."""
    there, _ = tagged(probe)
    return replace(probe, b"stale" if there != b"stale" else b"stale again", _NO_TAG) is not None


def _is_replaced(probe: str) -> bool:
    """Whether a file is replaced under its tag. False too where another process was faster with other content."""
    there, tag = tagged(probe)
    return tag is not None and replace(probe, b"again" if there == b"first" else b"first", tag) is not None


def _file(location: str) -> tuple[ObjectStore, str]:
    """Return the client for a file, and the file's key."""
    folder, name = location.rsplit("/", 1)
    client, key = _folder(folder)
    return client, key + name


def _folder(location: str) -> tuple[ObjectStore, str]:
    """Return the client for the files in a folder, and the beginning of their keys: empty, or it ends with `/`."""
    if not is_remote(location):
        return LocalStore(location), ""
    parts = urlsplit(location)
    bucket = f"{parts.scheme}://{parts.netloc}"
    settings = tuple(item for item in os.environ.items() if item[0].startswith("AWS_"))
    key = location.removeprefix(bucket).strip("/")
    return _client(bucket, settings, tuple(sorted((options(location) or {}).items()))), f"{key}/" if key else ""


@lru_cache(maxsize=8)
def _client(bucket: str, settings: tuple[tuple[str, str], ...], of_file: tuple[tuple[str, str], ...]) -> S3Store:
    """A client with its connections and credentials, kept while environment and file are the same.

    All tables of a bucket share it: a process that looks at many pipelines would keep connections for each table.
    """
    given: Any = dict(of_file)
    return S3Store.from_url(bucket, **given)
