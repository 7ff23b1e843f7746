"""The gate that judges candidates before they are published, and the pages of every report.

    suites        reads expectations/NAME.yaml into the values of `expectations`
    gate          judges the measures of one interval; `validation` drives Great Expectations for it
    verdicts      the judgement, and its explanation for a person
    report        the judgement as rows of the `quality` table
    comparison    an interval compared with earlier ones: `history` (label rate), `volume` (rows), `tails` (statistics)
    pages         Data Docs: a page per interval, and an index; `suite_page` is Great Expectations' own page
    summary       the page of a day
    ledger_report the page of the late ledger
    lag           the page of a lag analysis
    html          all pages: one skeleton, one style sheet (`templates/`)

Nothing here reads rows. The gate gets the measures of a candidate, one number each, so no report can show a value of a
row. Great Expectations is imported when the first interval is judged, not before.
"""
