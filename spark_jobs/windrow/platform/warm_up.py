"""Run once under spark-submit while the class archive is made: touches what every job touches."""

from __future__ import annotations

import tempfile
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

if __name__ == "__main__":
    spark = SparkSession.builder.appName("windrow warm-up").getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        rows = spark.range(100).select(
            f.to_json(f.struct("id")).alias("value"), (f.col("id") % 7).alias("key"), f.current_timestamp().alias("at")
        )
        parsed = rows.select("key", "at", f.from_json("value", "id bigint").alias("left"))
        grouped = parsed.groupBy("key").agg(f.sort_array(f.collect_list(f.struct("at", "left"))).alias("labels"))
        joined = parsed.join(grouped, "key", "left").withColumn("n", f.expr("size(filter(labels, x -> x.at <= at))"))
        for attempt in (1, 2):
            writer = joined.write.format("delta").mode("append").option("txnAppId", "w").option("txnVersion", attempt)
            writer.save(folder)
        joined.write.format("delta").mode("overwrite").option("replaceWhere", "key < 9").save(folder)
        spark.read.format("delta").load(folder).where("key < 3").groupBy("n").count().collect()
        jvm: Any = spark.sparkContext._jvm
        jvm.java.lang.Class.forName("org.apache.spark.sql.kafka010.KafkaSourceProvider")
        jvm.java.lang.Class.forName("org.apache.kafka.clients.consumer.KafkaConsumer")
    spark.stop()
