"""What Windrow promises about time, windows and rows, as pure functions of frozen values.

Standard library only: no Spark, no files, no clock on the wall. Every engine must agree with this package;
`reference` is the whole join, slow and obvious, and is the oracle of the Spark version.

    intervals    the grid of left event time            match        which rows may meet
    clock        how far event time has come            labels       positive, negative or unknown
    close        which intervals can still change       balance      every count adds up to its input
    records      landed records and the rules           reference    the join of one interval
    plan         what a run is about to do              publication  numbers of publications, and the fence
    judgement    which verdicts block an interval       ledger       what a rebuild would change
    explain      why a row has its labels               maintenance  what may be compacted or deleted
    landing/     which offsets come next, and gaps      paper/       a pipeline's whole life, in memory
    lag/         what lag costs: simulation, clocks, observed lag, recall, advice
"""
