"""Windrow in Airflow: when the run of an interval starts, what it waits for, and how its jobs are run.

    window_timetable   one run per interval, started when its window should have closed
    window             state of an interval's window, and what holds it up
    close_sensor       waits for the window, deferred
    close_trigger      the deferred half of the wait, in the triggerer
    run_identity       run key and mode of an Airflow run, for the jobs
    job_outcome        exit codes and result lines of jobs as Airflow outcomes
    job_operators      run a job with spark-submit or as plain Python
    watched_job        ends a job whose task is gone
    forms              forms of the DAGs that people trigger
    pipeline_files     usable pipelines, and the problems of the other files
    manuals            manuals on the DAGs' pages
    instants           Airflow's datetimes as standard ones
    pages              pages that Airflow serves behind its own sign-in, and the links to them
    one_write          serialises writing requests where Airflow runs on SQLite

Nothing here reads or writes rows; the jobs do. Importing it loads no pyspark, Great Expectations or delta-rs.
"""
