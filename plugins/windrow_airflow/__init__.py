"""Windrow in Airflow: when an interval's run starts, what it waits for, and how its jobs are run.

    window_timetable   one run an interval, started when its window should have closed
    window             what is known about an interval's window right now, and who holds it up
    close_sensor       waits for the window, deferred
    close_trigger      the deferred half, in the triggerer
    run_identity       which run this is for the jobs: run key and mode
    job_outcome        exit codes and result lines of the jobs, as Airflow understands them
    job_operators      run a job: with spark-submit, or as plain Python
    watched_job        ends a job whose task is gone
    forms              the forms of the DAGs that people start
    rebuild_page       what a rebuild would do, for people
    pipeline_files     the usable pipelines, and what is wrong with the others
    manuals            what an operator reads on a DAG's page
    instants           Airflow's datetimes as standard ones
    report_link        a task's report and tables, one click away
    web, overview      the pages that Airflow serves, behind its own sign-in
    one_write          writes of people to an Airflow on SQLite take turns

Nothing here reads or writes a row: the jobs do. At import nothing here loads pyspark, Great Expectations or
delta-rs.
"""
