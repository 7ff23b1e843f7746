"""A small world for tests that need everything real: a pipeline file, its topics, the jobs, and a foreign reader."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from deltalake import DeltaTable

from support.environ import environ_of
from windrow.config import load
from windrow.io.registers import publications
from windrow.jobs import land, train
from windrow.jobs.run import Context
from windrow.places import PROJECT, Places
from windrow.platform import engine, jars, jobs_side

Sent = tuple[str, int, bytes | None, datetime | None]
"""topic, partition, value, timestamp"""


@dataclass(frozen=True)
class World:
    """One home folder on the session's broker. Topics carry the test's name, so that tests do not meet."""

    places: Places
    name: str
    engine: Places | None = None
    """places of the engine that takes jobs, where a test has asked for one"""

    def pipeline(self, text: str, now: datetime | None = None) -> Context:
        """Write a pipeline file (`{t}` stands for the topics' prefix) and return a run's context."""
        path = self.places.pipelines[0] / "pipeline.yaml"
        path.write_text(text.replace("{t}", self.name))
        pipeline = load(path, self.places.expectations)
        path.rename(path.with_name(f"{pipeline.name}.yaml"))
        made = Context(pipeline, self.places)
        return replace(made, now=lambda: now) if now else made

    def topics(self, partitions: dict[str, int], **settings: str) -> None:
        """Create topics; names without the prefix, settings with _ for the broker's dots."""
        admin = AdminClient({"bootstrap.servers": self.places.kafka})
        config = {"max.message.bytes": str(16 * 1024 * 1024), "message.timestamp.after.max.ms": str(2**62)}
        config |= {name.replace("_", "."): value for name, value in settings.items()}
        wanted = [NewTopic(f"{self.name}.{t}", n, config=config) for t, n in partitions.items()]
        for future in admin.create_topics(wanted).values():
            future.result(30)

    def produce(self, records: Iterable[Sent]) -> None:
        """Produce in order and wait until all are acknowledged."""
        producer = Producer({"bootstrap.servers": self.places.kafka, "message.max.bytes": 16 * 1024 * 1024})
        failed: list[str] = []

        def acknowledged(error: object, _message: object) -> None:
            if error:
                failed.append(str(error))

        for topic, partition, value, at in records:
            stamp = {"timestamp": int(at.timestamp() * 1000)} if at else {}
            producer.produce(f"{self.name}.{topic}", value, partition=partition, on_delivery=acknowledged, **stamp)
            producer.poll(0)
        producer.flush(60)
        assert not failed, failed[:3]

    def land(self, ctx: Context) -> Any:
        """One landing run; returns the clock."""
        *_, last = land.land(ctx)
        return last.after

    def train(self, ctx: Context, run: str = "test", **options: Any) -> list[train.Round]:
        """Publish every closed interval."""
        return list(train.train_all(ctx, run, **options))

    def training(self, ctx: Context) -> list[dict[str, Any]]:
        """The training table through delta-rs, in served order."""
        path = self.places.table(ctx.pipeline.name, "training")
        rows = DeltaTable(path).to_pyarrow_table().to_pylist()
        return sorted(rows, key=lambda r: tuple(r[c] for c in ORDER))

    def table(self, ctx: Context, name: str) -> list[dict[str, Any]]:
        """Any table through delta-rs."""
        return DeltaTable(self.places.table(ctx.pipeline.name, name)).to_pyarrow_table().to_pylist()

    def register(self, ctx: Context) -> list[dict[str, Any]]:
        """Every publication."""
        return publications.registered(ctx.home)

    def script(
        self, job: str, *args: str, code: Path = Path(PROJECT), **environ: str
    ) -> subprocess.CompletedProcess[str]:
        """A job in a process of its own, as an operator starts it (without spark-submit), of the code in a folder."""
        script = code / "spark_jobs" / "run_job.py"
        return subprocess.run(
            [sys.executable, str(script), job, *args],
            env=self.environment(environ),
            capture_output=True,
            text=True,
            timeout=1200,
        )

    def warm(self, job: str, *args: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """A job in the engine, for tests that ask for `warm_engine`; with WINDROW_COLD set, as `script` starts it."""
        if os.environ.get("WINDROW_COLD"):
            return self.script(job, *args, **environ)
        assert self.engine
        started = engine.start(self.engine, (job, *args), self.environment(environ), "local[2]")
        output = started.output.read()
        return subprocess.CompletedProcess((job, *args), started.wait(), output, output)

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        return {
            **os.environ,
            **jars.environment(self.places),
            **jobs_side.here(self.places).environment(self.places, os.environ),
            **environ_of(self.places),
            "WINDROW_SPARK_MASTER": "local[2]",
            **more,
        }


ORDER = ("_event_time", "_topic", "_epoch", "_partition", "_offset")
AUDIT = {"_batch", "_arrived_at", "_observed_until", "_publication"}


def content(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows without what may differ between publications of the same landed rows (rule 15)."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: plain(v) for k, v in value.items() if k not in AUDIT}
        return [plain(v) for v in value] if isinstance(value, list) else value

    return [plain(row) for row in rows]
