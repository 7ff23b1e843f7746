"""Run a script, and exit when the task that started it is gone, because nobody would see its result.

    python watched_job.py SCRIPT ARGUMENTS…

A task that is killed with SIGKILL cannot end its job. Jobs with Spark watch by themselves, because there the child of
the task is spark-submit. Standard library only: this runs before the script's own imports.
"""

import os
import runpy
import sys
import threading
import time

GONE = 137


def watch(parent: int) -> None:
    """End this process as soon as `parent` is no longer its parent."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(GONE)


if __name__ == "__main__":
    threading.Thread(target=watch, args=(int(os.environ["WINDROW_TASK_PID"]),), daemon=True).start()
    sys.argv = sys.argv[1:]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")
