"""Run a script, and leave when the task that started it is gone: nobody would see what it goes on to do.

    python watched_job.py SCRIPT ARGUMENTS…

A task that is killed hard cannot end its job. Jobs with Spark watch for themselves, because there the task's child is
spark-submit. Standard library only: this runs before the script's own imports.
"""

import os
import runpy
import sys
import threading
import time

GONE = 137


def watch(parent: int) -> None:
    """End this process when its parent is another one."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(GONE)


if __name__ == "__main__":
    threading.Thread(target=watch, args=(int(os.environ["WINDROW_TASK_PID"]),), daemon=True).start()
    sys.argv = sys.argv[1:]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")
