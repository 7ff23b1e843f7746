"""The warm engine: a process that has loaded everything jobs need, with one Spark beside it that stays.

    keeper    takes jobs and starts each as a process of its own; it does no work and holds no table
    likeness  what must be equal between an engine and a job for the engine to take it
    spark     the Java process with Spark; each job gets a gateway and a session of its own there

Nothing depends on an engine: a job that finds none starts its own Spark (`windrow.platform.engine`). An engine that is
killed takes its jobs along, and their retries find what any interrupted job leaves.
"""
