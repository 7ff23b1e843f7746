"""A job's process joins the Spark of the process that started it, where the environment names that one's gateway.

For jobs that are killed between two calls to Spark: a real process with its own locks dies, and no JVM has to start.
"""

import os

if "PYSPARK_GATEWAY_PORT" in os.environ:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    def joined(context, _conf):
        running = context._jvm.org.apache.spark.SparkContext.getOrCreate()
        return context._jvm.JavaSparkContext.fromSparkContext(running)

    SparkContext._initialize_context = joined
    SparkSession.stop = SparkContext.stop = lambda _self: None  # it is not this process's to stop
