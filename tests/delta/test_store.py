"""Files of tables are handled alike in a folder and in an object store, and one writer wins a name."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from obstore.store import S3Store

from windrow.io.delta import damage, store, tables
from windrow.io.delta.damage import TableDamaged
from windrow.places import Places

pytestmark = pytest.mark.both_roots
SCHEMA = pa.schema([("n", pa.int64())])


def location(places: Places) -> str:
    return places.table("feed", "training")


def test_a_file_is_created_once_read_copied_listed_and_removed(places: Places) -> None:
    path = location(places)
    assert store.listed(path) == []
    assert store.stat(f"{path}/a/one") is None
    if not store.is_remote(path):
        DeltaTable.create(path, SCHEMA)  # a folder is there before a file is
    assert store.create(f"{path}/one", b"first")
    assert not store.create(f"{path}/one", b"second")
    assert store.read(f"{path}/one") == b"first"
    store.copy(f"{path}/one", f"{path}/_date=2026-11-01/two")
    store.copy(f"{path}/one", f"{path}/_date=2026-11-01/two")
    names = [file.name for file in store.listed(path) if not file.name.startswith("_delta_log")]
    assert names == ["_date=2026-11-01/two", "one"]
    found = store.stat(f"{path}/_date=2026-11-01/two")
    assert found is not None
    assert (found.name, found.size) == ("two", 5)
    assert abs(datetime.now(UTC) - found.modified) < timedelta(minutes=1)
    assert store.sizes(path, ["one", "none"]) == {"one": 5}
    store.remove(path, ["one", "none"])
    with pytest.raises(FileNotFoundError):
        store.read(f"{path}/one")
    store.remove_all(path)
    assert store.listed(path) == []


def test_folders_are_named_without_what_is_in_them(places: Places) -> None:
    path = places.table("feed", "landing")
    assert store.folders(path) == []
    if not store.is_remote(path):
        Path(path).mkdir(parents=True)
    for name in ("feed.views/_delta_log/0", "feed.likes/_date=2026-11-01/part", "file"):
        store.create(f"{path}/x", b"")
        store.copy(f"{path}/x", f"{path}/{name}")
    assert store.folders(path) == ["feed.likes", "feed.views"]


def test_opening_a_table_lists_its_log_from_the_newest_checkpoint_on(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store gives a thousand names at a time, and a year's log has many thousands."""
    path = location(places)
    for number in range(30):
        tables.append_once(path, SCHEMA, [{"n": number}], app_id="app", version=number)
    at = tables.at(path)
    at.create_checkpoint()
    seen = []
    listed = store.listed
    monkeypatch.setattr(store, "listed", lambda *a, **k: seen.append(listed(*a, **k)) or seen[-1])
    opened = tables.opened(path)
    assert opened is not None
    assert opened.version() == at.version()
    assert len(seen) == (1 if store.is_remote(path) else 0)
    assert all(file.name > f"{at.version():020d}" for found in seen for file in found)


def test_a_table_is_absent_before_it_is_written_and_asking_makes_nothing(places: Places) -> None:
    path = location(places)
    assert tables.opened(path) is None
    assert tables.version_of(path, "app") == -1
    assert tables.read(path) == []
    assert store.listed(path.rsplit("/", 1)[0]) == []


def test_of_many_writers_one_wins_each_version_and_a_write_of_any_version_is_there_once(places: Places) -> None:
    path = location(places)
    tables.append_once(path, SCHEMA, [{"n": -1}], app_id="fence", version=1)

    def fenced(writer: int) -> list[int]:
        won = []
        for version in range(2, 12):
            try:
                tables.append_once(path, SCHEMA, [{"n": 100 * version + writer}], app_id="fence", version=version)
                won.append(version)
            except tables.WriteSkipped:
                continue
        return won

    def free(writer: int) -> None:
        for n in range(5):
            tables.append_next(path, SCHEMA, [{"n": -(100 * writer + n + 2)}], app_id="free")

    with ThreadPoolExecutor(6) as pool:
        others = [pool.submit(free, writer) for writer in (1, 2)]
        won = list(pool.map(fenced, range(4)))
        for other in others:
            other.result()
    found = [row["n"] for row in tables.read(path)]
    assert len(set(found)) == len(found)
    assert sorted(n for n in found if n < -1) == sorted(-(100 * w + n + 2) for w in (1, 2) for n in range(5))
    fenced_rows = {n // 100: n % 100 for n in found if n > 0}
    assert {version: writer for writer, versions in enumerate(won) for version in versions} == fenced_rows


def test_what_was_done_meanwhile_is_not_done_again(places: Places) -> None:
    path = location(places)
    assert tables.append_next(path, SCHEMA, [{"n": 1}], app_id="app")
    assert not tables.append_next(path, SCHEMA, [{"n": 1}], app_id="app", is_done=lambda: True)
    assert tables.read(path) == [{"n": 1}]


def test_a_commit_that_was_lost_or_emptied_is_named(places: Places) -> None:
    path = location(places)
    for version in (1, 2, 3):
        tables.append_once(path, SCHEMA, [{"n": version}], app_id="app", version=version)
    commit = f"{path}/_delta_log/{2:020d}.json"
    store.remove(f"{path}/_delta_log", [f"{2:020d}.json"])
    assert store.create(commit, b"")
    with pytest.raises(TableDamaged, match=r"0002\.json"):
        tables.opened(path)


def test_a_missing_file_and_one_of_another_size_are_told(places: Places) -> None:
    path = location(places)
    write_deltalake(path, pa.table({"n": [1, 2]}))
    write_deltalake(path, pa.table({"n": [3]}), mode="append")
    table = tables.opened(path)
    assert table is not None
    files = tables.data_files(table)
    first, second = files["path"].to_pylist()
    assert list(damage.wrong_files(path, files)) == []
    assert store.footer(f"{path}/{first}").num_rows in (1, 2)
    store.remove(path, [first, second])
    store.create(f"{path}/{second}", b"cut")
    found = list(damage.wrong_files(path, files))
    assert any(first in line and "is missing" in line for line in found)
    assert any(second in line and "3 bytes" in line for line in found)
    with pytest.raises(TableDamaged):
        tables.read(path)


def test_a_file_system_of_a_table_serves_arrow(places: Places) -> None:
    path = location(places)
    write_deltalake(path, pa.table({"n": [1, 2]}))
    name = DeltaTable(path).to_pyarrow_dataset().files[0]
    assert pq.read_table(name, filesystem=store.filesystem(path)).num_rows == 2


def test_all_folders_of_a_store_share_a_client_until_a_setting_changes(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, made = location(places), []

    class Counted:
        @staticmethod
        def from_url(url: str, **given: Any) -> Any:
            made.append(url)
            return S3Store.from_url(url, **given)

    monkeypatch.setattr(store, "S3Store", Counted)
    monkeypatch.setenv("AWS_WINDROW_TEST", root)  # a setting that no earlier client was made with
    for number in range(12):
        folder = f"{root}/t{number}"
        if not store.is_remote(root):
            Path(folder).mkdir(parents=True)
        for name in ("a b%20=c", "d"):
            assert store.create(f"{folder}/{name}", b"x")
        assert [file.name for file in store.listed(folder)] == ["a b%20=c", "d"]
        assert [file.name for file in store.listed(folder, after="a")] == ["a b%20=c", "d"]
        assert [file.name for file in store.listed(folder, after="b")] == ["d"]
        assert store.stat(f"{folder}/a b%20=c") == store.listed(folder)[0]
        store.copy(f"{folder}/d", f"{folder}/e")
        assert store.read(f"{folder}/e") == b"x"
        assert store.remove(folder, ["d", "e", "gone"]) == 2
    assert len(store.folders(root)) == 12
    assert len(made) == (1 if store.is_remote(root) else 0)
    monkeypatch.setenv("AWS_WINDROW_TEST", "another")
    assert store.listed(f"{root}/t1")  # and not those of t10
    assert len(store.listed(f"{root}/t1")) == 1
    assert len(made) == (2 if store.is_remote(root) else 0)


@pytest.fixture
def overwriting(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A client whose condition gets lost on the way, as in front of a store that does not know it."""
    import obstore

    put = obstore.put
    monkeypatch.setattr(obstore, "put", lambda to, name, content, mode: put(to, name, content, mode="overwrite"))


def test_a_store_without_conditional_writes_is_refused(places: Places, request: pytest.FixtureRequest) -> None:
    root = places.tables or "unused"
    store.require_conditional(root)
    store.require_conditional(root)
    if store.is_remote(root):
        request.getfixturevalue("overwriting")
        with pytest.raises(store.StoreUnsafe, match="If-None-Match"):
            store.require_conditional(root)
