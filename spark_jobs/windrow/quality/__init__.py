"""The gate: what a candidate must measure up to before people read it.

    suites   the reviewed files of expectations/, loaded and checked
    gate     Great Expectations judges the measures of one interval
    verdicts what came out of it, and how to say so at 3 a.m.
    report   rows of the `quality` table
    pages    the report: a page for each interval, and an index that keeps them all
    docs     Great Expectations' Data Docs page of a suite, made to stand alone
    history  the label rate of an interval against earlier ones

Nothing here reads rows: a gate sees the measures of a candidate, one number each, so no report can carry a
value of anybody's row. Great Expectations is imported when the first interval is judged, not before.
"""
