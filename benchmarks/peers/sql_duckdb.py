"""SQL on files of Parquet as one runs it in DuckDB: python benchmarks/peers/sql_duckdb.py groups|join|filter|tpch --data DIR --out DIR.

Every query is copied to a file. `--memory 8GB` is DuckDB's own limit.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import duckdb

QUERIES = Path(__file__).resolve().parents[2] / "tests" / "tpch" / "sql"
CHECK = "select count(*) as rows, sum(v1) as v1, sum(v2) as v2 from x"
WORKS = {
    "groups": {
        "g01": "select id1, sum(v1) as v1 from groups group by id1",
        "g02": "select id1, id2, sum(v1) as v1 from groups group by id1, id2",
        "g03": "select id3, sum(v1) as v1, avg(v3) as v3 from groups group by id3",
        "g04": "select id4, avg(v1) as v1, avg(v2) as v2, avg(v3) as v3 from groups group by id4",
        "g05": "select id6, sum(v1) as v1, sum(v2) as v2, sum(v3) as v3 from groups group by id6",
        "g06": "select id4, id5, median(v3) as median_v3, stddev(v3) as sd_v3 from groups group by id4, id5",
        "g07": "select id3, max(v1) - min(v2) as range from groups group by id3",
        "g08": "select id6, unnest(max(v3, 2)) as v3 from groups group by id6",
        "g09": "select id2, id4, pow(corr(v1, v2), 2) as r2 from groups group by id2, id4",
        "g10": "select id1, id2, id3, id4, id5, id6, sum(v3) as v3, count(*) as rows from groups group by all",
    },
    "join": {
        "j01": f"{CHECK} join small using (id1)",
        "j02": f"{CHECK} join medium using (id2)",
        "j03": f"{CHECK} left join medium using (id2)",
        "j04": f"{CHECK} join medium using (id5)",
        "j05": f"{CHECK} join big using (id3)",
    },
    "filter": {"kept": "select * from rows where x > 100"},
    "tpch": {path.stem: path.read_text(encoding="utf-8") for path in sorted(QUERIES.glob("*.sql"))},
}


def main() -> None:
    """Answer one work's queries, one after the other."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("work", choices=list(WORKS))
    options.add_argument("--data", type=Path, required=True)
    options.add_argument("--out", type=Path, required=True)
    options.add_argument("--memory", help="DuckDB's memory_limit")
    given = options.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with duckdb.connect() as connection:
        connection.execute("set preserve_insertion_order = false")
        if given.memory:
            connection.execute(f"set memory_limit = '{given.memory}'")
        for file in (*given.data.glob("*.parquet"), *given.data.glob("*.csv")):
            connection.execute(f"create view {file.stem} as from '{file}'")
        for name, query in WORKS[given.work].items():
            query = query.strip().rstrip(";")
            connection.execute(f"copy (\n{query}\n) to '{given.out / name}.parquet'")


if __name__ == "__main__":
    main()
