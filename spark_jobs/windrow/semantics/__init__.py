"""What Windrow promises about time, windows and rows, as pure functions of frozen values.

Standard library only: no Spark, no files, no clock on the wall. Every engine must agree with this package;
`reference` is the whole join, slow and obvious, and is the oracle of the Spark version.

    intervals   the grid of left event time          match      which rows may meet
    clock       how far event time has come          labels     positive, negative or unknown
    close       what no longer changes               balance    nothing disappears
    plan        what a run is about to do            reference  one interval, on small histories
    late        what a rebuild would change          model      a pipeline's whole life, on paper
    lag         what lag would have cost             lag_simulation  one scenario, event by event
    recall      what a window catches                advice     the smallest settings that catch enough
    observed    lag that there was                   explain    why a row has its labels
"""
