"""The lag report: one page with the findings and their plots, which loads nothing and shows no row."""

from __future__ import annotations

import random
import re
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from windrow.config import Pipeline, load
from windrow.io.lag.table import impact_row
from windrow.places import PROJECT
from windrow.quality.lag import report as lag_report
from windrow.quality.lag.findings import Disorder, Findings, StreamFindings
from windrow.quality.lag.sentences import impact, percent, sentences, watermark
from windrow.semantics.clock import PartitionClock
from windrow.semantics.lag.advice import CostModel, WindowSettings, advise, recall_of
from windrow.semantics.lag.observed import ClockReading
from windrow.semantics.lag.recall import Curve, DelayCounts, estimate
from windrow.semantics.lag.scenario import Lag, LagScenario, Policy
from windrow.semantics.lag.setting import Event, LabelStream, LagSetting
from windrow.semantics.lag.simulation import simulate
from windrow.semantics.match import Key
from windrow.semantics.records import RowId

START = datetime(2026, 11, 1, tzinfo=UTC)
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
SERVED, CLICKS = "feed.served", "feed.engagements"
SECRET = "user-4711"
POLICIES = (
    Policy("slowest"),
    Policy("fastest_side"),
    Policy("newest_partition"),
    Policy("idle_timeout", tick=MINUTE, idle_after=5 * MINUTE),
    Policy("wall", tick=MINUTE),
)


def pipeline() -> Pipeline:
    return load(PROJECT / "dags" / "pipelines" / "feed.yaml")


def traffic() -> list[Event]:
    """Six hours of rows, one in four with a click that comes after some ten minutes, on two partitions a side."""
    draw, events, offsets = random.Random(1), [], Counter[tuple[str, int]]()
    made: list[tuple[datetime, str, Key]] = []
    for n in range(1_200):
        at = START + n * 18 * SECOND
        made.append((at, SERVED, (f"{SECRET}-{n}",)))
        if n % 4 == 0:
            made.append((at + draw.expovariate(1 / 10) * MINUTE, CLICKS, (f"{SECRET}-{n}",)))
    for n, (at, topic, key) in enumerate(sorted(made)):
        place = (topic, n % 2)
        row = RowId(topic, 0, n % 2, offsets[place])
        offsets[place] += 1
        events.append(Event(row, at, at + SECOND, {"served" if topic == SERVED else "clicks": key}))
    return events


def setting() -> LagSetting:
    return LagSetting(
        left="served",
        labels=(LabelStream("clicks", timedelta(0), 30 * MINUTE),),
        partition_ids=tuple((topic, 0, p) for topic in (SERVED, CLICKS) for p in (0, 1)),
        sides={"left": (SERVED,), "right": (CLICKS,)},
        out_of_orderness={SERVED: 30 * SECOND, CLICKS: MINUTE},
        after=30 * MINUTE,
        grace=MINUTE,
    )


def curves() -> tuple[Curve, Curve]:
    draw = random.Random(2)
    long = Counter((int(draw.expovariate(1 / 20)) + 1, 481) for _ in range(9_000))
    young = Counter((b, s) for b, s in ((int(draw.expovariate(1 / 20)) + 1, draw.randrange(5, 60)) for _ in range(900)))
    late = Counter((max(0, int(draw.gauss(-20, 20))), 601) for _ in range(9_000))
    kept = {k: n for k, n in (long + young).items() if k[0] <= 480}
    return estimate(DelayCounts(15 * SECOND, 480, kept)), estimate(DelayCounts(SECOND, 600, late))


def clock_readings() -> tuple[ClockReading, ...]:
    def clock(topic: str, partition: int, at: datetime, behind: timedelta, waiting: int) -> PartitionClock:
        return PartitionClock(topic, 0, partition, 100, 100 + waiting, at - behind, at - behind - MINUTE)

    seen = []
    for n in range(180):
        at = START + 2 * n * MINUTE
        stuck = (n - 80) * 2 * MINUTE if 80 <= n < 120 else timedelta(0)
        seen.append(
            ClockReading(
                at,
                (
                    clock(SERVED, 0, at, MINUTE + (n % 7) * SECOND, 0),
                    clock(SERVED, 1, at, MINUTE + (n % 50) * SECOND, 0),
                    clock(CLICKS, 0, at, 65 * SECOND + stuck, int(stuck / SECOND)),
                ),
            )
        )
    return tuple(seen)


def example() -> Findings:
    """An analysis of made-up traffic; the scenarios are the reference's own."""
    events, made = traffic(), pipeline()
    lags = [None] + [Lag.constant(side, d * MINUTE) for side in ("left", "right") for d in (1, 10, 60)]
    lags.append(Lag.pause("right", START + 3 * HOUR, START + 4 * HOUR, rate=10))
    about: dict[str, Any] = {"analysis": "a", "analysed_at": START, "range_start": START, "range_end": START + 6 * HOUR}
    scenarios = [LagScenario(policy, lag) for lag in lags for policy in POLICIES]
    lines = tuple(impact_row(made, one, simulate(events, one, setting()), about) for one in scenarios)
    delays, disorder = curves()
    cost, now = CostModel(1_200 / (6 * 3600), 10 * MINUTE), WindowSettings(30 * MINUTE, 2 * MINUTE)
    stream = StreamFindings(
        name="clicks",
        current=now,
        delays=delays,
        disorder=disorder,
        assessment=cost.assess(now, recall_of(delays, disorder, now)),
        advice=tuple(advise(delays, disorder, cost, wanted) for wanted in (0.99, 0.999)),
        windows=((10 * MINUTE, delays.at(10 * MINUTE)), (HOUR, delays.at(HOUR))),
        orphans=12,
    )
    partitions = tuple(
        Disorder(f"{topic}/{p}", 60_000, 0.81, timedelta(0), 11 * SECOND, 25 * SECOND, (40 + 30 * p) * SECOND, MINUTE)
        for topic in (SERVED, CLICKS)
        for p in (0, 1)
    )
    end = START + 6 * HOUR
    return Findings("feed", START, end, START + 12 * HOUR, 1.0, 1_200, (stream,), lines, clock_readings(), partitions)


@pytest.fixture(scope="module")
def found() -> Findings:
    return example()


@pytest.fixture(scope="module")
def page(found: Findings) -> str:
    return lag_report.page(found)


class Links(HTMLParser):
    """Every attribute of every element, and the text of those that draw nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.attributes: list[tuple[str, str, str]] = []
        self.tags: Counter[str] = Counter()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]


def read(page: str) -> Links:
    links = Links()
    links.feed(page)
    return links


def test_the_page_loads_nothing_and_runs_nothing(page: str) -> None:
    found = read(page)
    assert found.tags["script"] == found.tags["link"] == found.tags["img"] == found.tags["iframe"] == 0
    outside = [
        a for a in found.attributes if a[1] in ("src", "href", "xlink:href", "srcset") and not a[2].startswith("#")
    ]
    assert outside == []
    assert not [a for a in found.attributes if a[1].startswith("on")]
    assert not re.search(r"@import|url\((?!#)", page)
    assert set(re.findall(r"https?://[^\"' <]+", page)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }


def test_every_plot_stands_under_the_sentence_that_it_shows_and_has_a_text_for_screen_readers(
    page: str, found: Findings
) -> None:
    drawn = re.findall(r"<h2>(.*?)</h2><figure>(<svg.*?</svg>)", page, flags=re.DOTALL)
    assert len(drawn) == 5  # recall, delays, labels lost, wait, observed lag
    for title, svg in drawn:
        named = re.search(r'role="img" aria-labelledby="(\S+) (\S+)"', svg)
        assert named is not None
        assert f'<title id="{named[1]}">{unescape(title)}</title>' in unescape(svg)
        assert re.search(rf'<desc id="{named[2]}">.{{40,}}</desc>', svg, flags=re.DOTALL)
        assert "<text" in svg  # text stays text: it can be searched, read aloud and scaled


def test_axes_have_units(page: str) -> None:
    for words in (
        "window after the row (h)",
        "time from the row to its label (min)",
        "served to closed (min)",
        "time (UTC)",
        "labels lost",
        "100%",
        "window 30 min",
    ):
        assert words in page


def test_ids_that_are_referred_to_are_there_and_no_id_stands_twice_for_two_things(page: str) -> None:
    named = Counter(value for _, name, value in read(page).attributes if name == "id")
    asked = set(re.findall(r"url\(#([^)]+)\)", page)) | {
        value[1:] for _, name, value in read(page).attributes if name in ("href", "xlink:href")
    }
    assert asked <= set(named)
    assert not [name for name, times in named.items() if times > 1]


def test_the_same_findings_make_the_same_page(found: Findings, page: str) -> None:
    assert lag_report.page(found) == page


def test_no_row_and_no_key_stands_on_the_page(page: str) -> None:
    assert SECRET not in page


def test_names_from_outside_are_text_and_never_markup(found: Findings) -> None:
    bad = replace(found, pipeline="<script>x</script>", notes=("<b>&</b>",))
    assert read(lag_report.page(bad)).tags["script"] == 0
    assert "&lt;b&gt;&amp;&lt;/b&gt;" in lag_report.page(bad)


def test_the_page_is_replaced_whole(found: Findings, tmp_path: Path) -> None:
    path = lag_report.write(found, tmp_path / "lag_impact" / "a")
    first = path.read_text()
    assert lag_report.write(replace(found, notes=("Again.",)), path.parent) == path
    assert path.read_text() != first
    assert [p.name for p in path.parent.iterdir()] == ["index.html"]


def test_the_findings_hold_what_the_window_catches_and_what_a_wanted_recall_takes(found: Findings) -> None:
    texts = sentences(found)
    inside = found.streams[0].delays.at(30 * MINUTE)  # type: ignore[union-attr]
    assert texts[0].startswith(f"With the window of 30 min, {percent(inside.share)} of clicks are caught (between ")
    assert texts[0].endswith("rows wait 32 min after they were served, and about 123 are open at a time.")
    assert "<h2>With the window of 30 min" in lag_report.page(found)
    assert texts[1].startswith("To catch 99 % of clicks it takes a window of ")
    assert "(now 30 min and 2 min)" in texts[1]


def test_the_two_findings_about_lag_are_reported_for_each_side(found: Findings) -> None:
    left, right = impact(found.scenarios)
    assert left.startswith(
        "A lag of 1 h on the left side loses no label and makes rows up to 1 h later under the clock"
    )
    assert re.search(r"it would lose .* under fastest side \(Kafka Streams\)", right)


def test_lag_on_some_partitions_is_reported_and_drawn_as_such(found: Findings) -> None:
    on_two = [{**line, "partitions": "0,2"} if line["side"] else line for line in found.scenarios]
    assert impact(on_two)[0].startswith("A lag of 1 h on partitions 0,2 of the left side loses no label")
    assert "lag on partitions 0,2 of the right side" in lag_report.page(replace(found, scenarios=tuple(on_two)))


@pytest.mark.parametrize("longest", [0, 60, 600])
def test_plots_hold_what_they_show_also_where_one_side_loses_nothing(found: Findings, longest: int) -> None:
    short = tuple(line for line in found.scenarios if line["lag_s"] <= longest)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # matplotlib warns about a plot that does not fit
        made = lag_report.page(replace(found, scenarios=short))
    assert made.count("<svg") == (3 if longest == 0 else 5)


def test_without_our_own_clock_the_others_are_still_compared(found: Findings) -> None:
    others = tuple(line for line in found.scenarios if line["policy"] in ("fastest_side", "wall"))
    assert "A lag of 1 h on the right side would lose 9" in impact(others)[1]
    made = lag_report.page(replace(found, scenarios=others))
    assert "slowest partition (Windrow)" not in made


def test_a_short_lag_on_the_left_is_harmless_and_is_reported_so(found: Findings) -> None:
    short = [line for line in found.scenarios if line["lag_s"] <= 600 and line["side"] in (None, "left")]
    assert impact(short)[0].count("none under") == 1
    assert "would lose none under" in impact(short)[0]


def test_the_holder_of_the_watermark_is_reported_with_its_share_of_the_time(found: Findings) -> None:
    sentence = watermark(found.readings)
    assert "1 h 20 min at most, over 180 landing runs" in sentence
    assert re.search(r"feed\.served/1 held it 6\d\.\d % of the time", sentence)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda s: replace(s, delays=None, assessment=None, advice=(), reason="12 labels are old enough"),
            "cannot be known: 12",
        ),
        (lambda s: replace(s, current=WindowSettings(3 * HOUR, MINUTE)), "only 2 h after a row can be judged"),
    ],
)
def test_unknowns_are_named_and_the_page_is_made(
    found: Findings, change: Callable[[StreamFindings], StreamFindings], message: str
) -> None:
    bare = replace(found, streams=(change(found.streams[0]),), readings=(), disorder=())
    made = lag_report.page(bare)
    assert message in made
    assert "No landing run had a watermark" in made


def test_without_a_label_nothing_is_drawn_about_labels(found: Findings) -> None:
    none = [{**line, "labels": 0, "labels_lost": 0, "recall": None} for line in found.scenarios]
    made = lag_report.page(replace(found, scenarios=tuple(none)))
    assert "served to closed" in made
    assert ">labels lost<" not in made.split("<details>")[0]


@pytest.mark.parametrize(
    ("share", "text"),
    [(1.0, "100 %"), (0.0, "0 %"), (0.5, "50.0 %"), (0.9977, "99.77 %"), (0.99995, "99.9950 %"), (0.0004, "0.040 %")],
)
def test_shares_near_an_end_keep_two_digits_of_what_is_missing(share: float, text: str) -> None:
    assert percent(share) == text
