"""H2O.ai's questions and joins in PySpark on one machine: python benchmarks/peers/h2o_pyspark.py groups|join --data DIR --out DIR.

Every core, as many parts of an exchange as four times the cores (adaptive plans join small ones), no web page. Java 17 must be there.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

MEMORY = "8g"


def groups(rows: DataFrame) -> dict[str, DataFrame]:
    """The ten questions."""
    largest = Window.partitionBy("id6").orderBy(f.desc("v3"))
    return {
        "g01": rows.groupBy("id1").agg(f.sum("v1").alias("v1")),
        "g02": rows.groupBy("id1", "id2").agg(f.sum("v1").alias("v1")),
        "g03": rows.groupBy("id3").agg(f.sum("v1").alias("v1"), f.mean("v3").alias("v3")),
        "g04": rows.groupBy("id4").agg(*(f.mean(name).alias(name) for name in ("v1", "v2", "v3"))),
        "g05": rows.groupBy("id6").agg(*(f.sum(name).alias(name) for name in ("v1", "v2", "v3"))),
        "g06": rows.groupBy("id4", "id5").agg(f.median("v3").alias("median_v3"), f.stddev("v3").alias("sd_v3")),
        "g07": rows.groupBy("id3").agg((f.max("v1") - f.min("v2")).alias("range")),
        "g08": rows.withColumn("place", f.row_number().over(largest)).where("place <= 2").select("id6", "v3"),
        "g09": rows.groupBy("id2", "id4").agg((f.corr("v1", "v2") ** 2).alias("r2")),
        "g10": rows.groupBy("id1", "id2", "id3", "id4", "id5", "id6").agg(f.sum("v3").alias("v3"), f.count("*").alias("rows")),
    }


def join(x: DataFrame, small: DataFrame, medium: DataFrame, big: DataFrame) -> dict[str, DataFrame]:
    """The five joins, each as its rows and sums."""
    joined = {
        "j01": x.join(small, "id1"),
        "j02": x.join(medium, "id2"),
        "j03": x.join(medium, "id2", "left"),
        "j04": x.join(medium, "id5"),
        "j05": x.join(big, "id3"),
    }
    told = [f.count("*").alias("rows"), f.sum("v1").alias("v1"), f.sum("v2").alias("v2")]
    return {name: found.agg(*told) for name, found in joined.items()}


def main() -> None:
    """Answer one work's questions, one after the other."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("work", choices=["groups", "join"])
    options.add_argument("--data", type=Path, required=True)
    options.add_argument("--out", type=Path, required=True)
    given = options.parse_args()
    cores = len(os.sched_getaffinity(0))
    own = {"spark.driver.memory": MEMORY, "spark.sql.shuffle.partitions": str(4 * cores), "spark.ui.enabled": "false"}
    session = SparkSession.builder.master(f"local[{cores}]").config(map=own).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    tables = ("x", "small", "medium", "big") if given.work == "join" else ("groups",)
    read = [session.read.parquet(str(given.data / f"{name}.parquet")) for name in tables]
    for name, found in (join if given.work == "join" else groups)(*read).items():
        found.write.mode("overwrite").parquet(str(given.out / f"{name}.parquet"))
    session.stop()


if __name__ == "__main__":
    main()
