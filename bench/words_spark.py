"""The word count on Spark: `words_spark.py WORDS.txt OUT`, for `cargo xtask bench-peers`."""

import sys

from pyspark.sql import SparkSession, functions as f

source, target = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.driver.memory", "4g")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .getOrCreate()
)
words = spark.read.text(source).select(f.explode(f.split("value", " ")).alias("word"))
words.groupBy("word").count().write.mode("overwrite").csv(target)
# The work is done by a Java process. Its time counts only if somebody waits for its end.
gateway = spark.sparkContext._gateway
spark.stop()
gateway.shutdown()
gateway.proc.stdin.close()
gateway.proc.wait()
