"""How a batch is spread over tasks: evenly over the cores that are there, and in a bounded number of files.

    ranges of Kafka's partitions   ├── 570 000 ──────────────────────────────────┤├─ 30 000 ─┤
    pieces                         ├──────┼──────┼──────┼──────┼──────┼─────┼─────┤├─────────┤
    tasks, with two cores          └──────────── 285 000 ─────┘└──────────── 315 000 ────────┘

A task takes neighbouring pieces, as many as the others. So pieces must be small enough that the uneven ones among them
do not matter: of whole partitions, the task with the largest one might take nearly everything.
"""

from __future__ import annotations

RECORDS_PER_FILE = 250_000
"""A file has at most about so many records: more cores would not help, but longer files are read slowly."""
LEAST_PER_TASK = 50_000
"""Fewer records are not worth a task and a file of their own."""
_PIECES = 4


def tasks(records: int, cores: int) -> int:
    """Number of tasks, each of which writes one file.

    It is a multiple of the cores where it is larger, so that no core waits for the last task. There is at most one file
    per `LEAST_PER_TASK` records begun.

    Args:
        records: of the batch; gaps between its offsets may count.
        cores: that Spark has now; at least 1.

    >>> [tasks(records, cores=4) for records in (0, 60_000, 170_000, 900_000, 1_100_000)]
    [1, 2, 4, 4, 8]
    """
    full, worthwhile = -(-records // RECORDS_PER_FILE), -(-records // LEAST_PER_TASK)
    if full > cores:
        return -(-full // cores) * cores
    return max(1, min(cores, worthwhile))


def pieces(tasks: int, partitions: int) -> int:
    """Number of ranges of offsets that the batch is read in; 0 to read each partition as one.

    Args:
        tasks: that they are divided among.
        partitions: of the topic.
    """
    return _PIECES * max(tasks, partitions) if tasks > 1 else 0
