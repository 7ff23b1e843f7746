"""The pages that Airflow serves: bounded, everything escaped, links only to existing pages."""

from datetime import UTC, datetime, timedelta

import pytest

from windrow.config import find
from windrow.home import Home
from windrow.io.delta import tables
from windrow.io.registers import clocks, judgements, publications
from windrow.places import Places
from windrow.schemas import CLOCK, PUBLICATIONS
from windrow.semantics.landing.gaps import AcceptedGap, Lost, gaps_text
from windrow.text import short_instant_text
from windrow_airflow.pages import fleet, overview, rebuild_page

MIDNIGHT = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.fixture
def places(pipelines, tmp_path):
    pipelines("ads")
    return Places(home=tmp_path / "home", cache=tmp_path, pipelines=(pipelines.folder,))


def published(places, count, **more):
    rows = []
    for n in range(1, count + 1):
        at = MIDNIGHT + timedelta(minutes=10 * (n // 2))
        row = dict.fromkeys(PUBLICATIONS.names) | {"number": n, "interval": at, "interval_end": at, "published_at": at}
        row |= dict.fromkeys(("rows", "positive", "negative", "unknown", "left_duplicate", "training_version"), n)
        rows.append(row | {"verdict": "passed", "report": None, **more})
    tables.append_once(
        places.table("ads", "publications"), PUBLICATIONS, rows, app_id=publications.APP_ID, version=count
    )


def test_a_long_register_makes_a_short_page(places):
    published(places, 1000)
    page = overview.pipeline_page("ads", places)
    assert "The newest 100 of 1000" in page
    assert page.count("<td>yes</td>") + page.count("<td>replaced</td>") == 100
    assert len(page) < 60_000
    assert find("ads", places.pipelines).name in page


def test_the_name_and_reason_of_an_override_are_shown_as_text(places):
    published(places, 1, overridden_by="<b>ada", override_reason="<script>x</script>")
    page = overview.pipeline_page("ads", places)
    assert "by &lt;b&gt;ada: &lt;script&gt;" in page
    assert "<script>" not in page


def test_a_verdict_says_why(places):
    published(places, 1, verdict="warned", why="quarantine feed.clicks 2.3 % > 1 %")
    assert ": quarantine feed.clicks 2.3 % &gt; 1 %" in overview.pipeline_page("ads", places)


def test_a_verdict_links_its_report_below_the_root_and_no_other(places):
    ours = places.reports("ads") / "data_docs" / "2026-11-01" / "index.html"
    published(places, 1, report=str(ours))
    assert 'href="../reports/ads/data_docs/2026-11-01/index.html"' in overview.pipeline_page("ads", places)
    published(places, 2, report="/etc/passwd")
    assert "passwd" not in overview.pipeline_page("ads", places)


def test_reports_are_linked_by_their_front_page_or_their_newest_pages(places):
    for path in ("summary/index.html", "summary/2026-11-01.html", "lag_impact/a/index.html", "lag_impact/b/index.html"):
        file = places.reports("ads") / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")
    page = overview.pipeline_page("ads", places)
    assert page.count("reports/ads/summary/") == 1
    assert page.count("reports/ads/lag_impact/") == 2


def test_a_pipeline_that_has_published_nothing_and_one_whose_file_is_wrong_have_pages(places, pipelines):
    assert "nothing published yet" in overview.pipeline_page("ads", places)
    pipelines("broken").write_text("name: broken\n")
    assert "broken.yaml" in overview.pipeline_page("broken", places)
    assert {"ads", "broken"} <= set(overview.pipelines(places))


def test_the_state_of_each_pipeline_is_on_the_index_and_a_blocked_interval_on_its_page(places, pipelines):
    pipelines("broken").write_text("name: broken\n")
    pipeline = find("ads", places.pipelines)
    home, at = Home(pipeline, places), pipeline.start + pipeline.interval + pipeline.after + pipeline.grace
    zeros = dict.fromkeys(("next_offset", "end_offset", "batch", "epoch", "partition"), 0)
    clock = {**zeros, "newest_at": at, "clock_at": at, "landed_at": datetime.now(UTC), "idle": False}
    clocks.record(home, 0, [{"topic": topic, **clock} for topic in pipeline.topics])
    blocked = {"interval": pipeline.start, "judged_at": at, "verdict": "failed", "severity": "critical"}
    judgements.record(home, [{**blocked, "plan": "p", "metric": "nulls", "why": "<nulls> of user 9 % > 1 %"}])
    now = datetime.now(UTC)
    index = fleet.page(fleet.look(["ads", "broken"], places, now, {}), fleet.Filter(), now)
    page = overview.pipeline_page("ads", places)
    for shown in (index, page):
        assert ">blocked</span>" in shown
        assert "&lt;nulls&gt; of user 9 % &gt; 1 %" in shown
        assert "windrow override ads --interval" in shown
    assert "broken.yaml" in index  # its file cannot be used, and that is no reason to show nothing
    link = f'<a href="ads/intervals/{short_instant_text(pipeline.start)}">{pipeline.start:%Y-%m-%d %H:%M:%S}Z</a>'
    assert f"<td>{link}</td><td>&lt;nulls&gt;" in page


def test_pairs_of_canaries_that_arrived_and_those_that_did_not_are_on_the_page(places):
    assert "Canaries" not in overview.pipeline_page("ads", places)
    published(
        places,
        1,
        left_canary=2,
        canary_pairs=30,
        canary_matched=29,
        canary_delay_s=41.0,
        published_at=MIDNIGHT + timedelta(hours=1),
    )
    page = overview.pipeline_page("ads", places)
    words = " ".join(page.split())
    assert "29 of 30 pairs arrived (recall 96.67%)" in words
    assert "the slowest had landed 41s after its label was sent, and each was published at most 1h after" in words
    assert "1 of 30 lost; <code>windrow canary ads --lost --interval 2026-11-01" in words


def test_every_gap_is_on_the_page_of_its_pipeline(places):
    assert "Gaps" not in overview.pipeline_page("ads", places)
    topic = find("ads", places.pipelines).topics[0]
    gap = AcceptedGap(Lost(topic, 0, 5, 8), 0, 1, None, MIDNIGHT, who="landing", why="<compacted>")
    zeros = dict.fromkeys(("partition", "epoch", "batch", "next_offset", "end_offset"), 0)
    row = {**zeros, "observation": 1, "topic": topic, "landed_at": MIDNIGHT, "gap": gaps_text([gap])}
    tables.append_once(places.table("ads", "clock"), CLOCK, [row], app_id=clocks.APP_ID, version=1)
    page = overview.pipeline_page("ads", places)
    assert f"<td>{topic}/0:5-8</td>" in page
    assert "<td>landing</td><td>&lt;compacted&gt;</td>" in page


PLAN = {
    "run": "manual__2026-11-01T00:00:00+00:00",
    "from": "2026-11-01T00:00:00.000000Z",
    "to": "2026-11-01T01:00:00.000000Z",
    "dry_run": True,
    "reason": "<late>",
    "counts": {"replace": 1, "leave": 5},
    "rows_replaced": 1234,
    "intervals": [
        {
            "interval": "2026-11-01T00:00:00.000000Z",
            "deed": "replace",
            "why": "ads.clicks: 2 batches newer",
            "publication": 7,
            "rows": 1234,
            "changes": {"late_label": 3},
        }
    ],
    "not_listed": 5,
}


def test_a_plan_has_a_log_line_per_interval():
    assert list(rebuild_page.lines(PLAN)) == [
        "Dry run, nothing is changed: 1 replaced, 5 left alone; 1,234 published rows are replaced. Reason: <late>",
        "2026-11-01T00:00:00Z  replaced: ads.clicks: 2 batches newer (3 late_label)",
        "and 5 more",
    ]


def test_a_plan_has_a_page_named_after_its_run_and_the_newest_is_the_front_page(tmp_path):
    first = rebuild_page.write(PLAN, "ads", tmp_path)
    second = rebuild_page.write({**PLAN, "run": "../../x", "dry_run": False}, "ads", tmp_path)
    assert {first.parent, second.parent} == {tmp_path}
    assert "Dry run" in first.read_text()
    assert "<late>" not in first.read_text()
    assert (tmp_path / "index.html").read_text() == second.read_text()
    assert second.read_text().count("Planned: 1 replaced") == 1


def test_what_waits_is_beside_its_bounds_on_the_page(places, pipelines):
    path = pipelines("ads")
    path.write_text(path.read_text() + "waiting: {max_rows: 1500, policy: alert}\n")
    assert "Waiting" not in overview.pipeline_page("ads", places)  # nothing has landed
    pipeline = find("ads", places.pipelines)
    home, start = Home(pipeline, places), pipeline.start
    zeros = dict.fromkeys(("next_offset", "end_offset", "batch", "epoch", "partition"), 0)
    clock = {**zeros, "clock_at": start, "landed_at": datetime.now(UTC), "idle": False, "landed": 1000, "bytes": 10**6}
    later = start + 3 * pipeline.interval
    clocks.record(home, 0, [{"topic": topic, **clock, "newest_at": later} for topic in pipeline.topics])
    words = " ".join(overview.pipeline_page("ads", places).split())
    first = f"[{start:%Y-%m-%dT%H:%M:%SZ}, {start + pipeline.interval:%Y-%m-%dT%H:%M:%SZ})"
    assert f"The oldest interval is {first}. Beyond a bound the pipeline file says <code>alert</code>." in words
    assert '<td>waits</td><td class="n">2,000</td><td class="n">2.0 MB</td><td class="n">20m</td>' in words
    assert '<td>bound</td><td class="n">1,500</td><td class="n">none</td><td class="n">none</td>' in words
    assert "more waits for the clock than the pipeline file allows: 2,000 rows &gt; max_rows 1,500" in words
    assert f"windrow train ads --interval {short_instant_text(start)} --force" in words
