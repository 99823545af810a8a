"""The 22 queries of TPC-H as one writes them in lazy Polars, decimals as floats: tpch_polars.py --data DIR --out DIR."""

from __future__ import annotations

import argparse
import datetime as dt
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
from polars import col as c
from polars import selectors

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.peers import tpch_polars_late as late

Tables = dict[str, pl.LazyFrame]
VOLUME = c("l_extendedprice") * (1 - c("l_discount"))
day = dt.date


def q01(t: Tables) -> pl.LazyFrame:
    rows = t["lineitem"].filter(c("l_shipdate") <= day(1998, 9, 2)).group_by("l_returnflag", "l_linestatus")
    found = rows.agg(
        sum_qty=c("l_quantity").sum(),
        sum_base_price=c("l_extendedprice").sum(),
        sum_disc_price=VOLUME.sum(),
        sum_charge=(VOLUME * (1 + c("l_tax"))).sum(),
        avg_qty=c("l_quantity").mean(),
        avg_price=c("l_extendedprice").mean(),
        avg_disc=c("l_discount").mean(),
        count_order=pl.len(),
    )
    return found.sort("l_returnflag", "l_linestatus")


def q02(t: Tables) -> pl.LazyFrame:
    parts = t["part"].filter(c("p_size") == 15, c("p_type").str.ends_with("BRASS"))
    nations = t["nation"].join(t["region"].filter(c("r_name") == "EUROPE"), left_on="n_regionkey", right_on="r_regionkey")
    suppliers = t["supplier"].join(nations, left_on="s_nationkey", right_on="n_nationkey")
    offers = parts.join(t["partsupp"], left_on="p_partkey", right_on="ps_partkey").join(
        suppliers, left_on="ps_suppkey", right_on="s_suppkey"
    )
    least = offers.group_by("p_partkey").agg(c("ps_supplycost").min())
    told = ["s_acctbal", "s_name", "n_name", "p_partkey", "p_mfgr", "s_address", "s_phone", "s_comment"]
    found = offers.join(least, on=["p_partkey", "ps_supplycost"]).select(told)
    return found.sort("s_acctbal", "n_name", "s_name", "p_partkey", descending=[True, False, False, False]).head(100)


def q03(t: Tables) -> pl.LazyFrame:
    customers = t["customer"].filter(c("c_mktsegment") == "BUILDING")
    orders = t["orders"].filter(c("o_orderdate") < day(1995, 3, 15)).join(customers, left_on="o_custkey", right_on="c_custkey", how="semi")
    lines = t["lineitem"].filter(c("l_shipdate") > day(1995, 3, 15)).join(orders, left_on="l_orderkey", right_on="o_orderkey")
    found = lines.group_by("l_orderkey", "o_orderdate", "o_shippriority").agg(revenue=VOLUME.sum())
    return found.sort("revenue", "o_orderdate", descending=[True, False]).head(10)


def q04(t: Tables) -> pl.LazyFrame:
    late_lines = t["lineitem"].filter(c("l_commitdate") < c("l_receiptdate"))
    orders = t["orders"].filter(c("o_orderdate").is_between(day(1993, 7, 1), day(1993, 10, 1), closed="left"))
    found = orders.join(late_lines, left_on="o_orderkey", right_on="l_orderkey", how="semi")
    return found.group_by("o_orderpriority").agg(order_count=pl.len()).sort("o_orderpriority")


def q05(t: Tables) -> pl.LazyFrame:
    nations = t["nation"].join(t["region"].filter(c("r_name") == "ASIA"), left_on="n_regionkey", right_on="r_regionkey")
    orders = t["orders"].filter(c("o_orderdate").is_between(day(1994, 1, 1), day(1995, 1, 1), closed="left"))
    customers = t["customer"].join(nations, left_on="c_nationkey", right_on="n_nationkey")
    found = customers.join(orders, left_on="c_custkey", right_on="o_custkey").join(
        t["lineitem"], left_on="o_orderkey", right_on="l_orderkey"
    )
    found = found.join(t["supplier"], left_on=["l_suppkey", "c_nationkey"], right_on=["s_suppkey", "s_nationkey"])
    return found.group_by("n_name").agg(revenue=VOLUME.sum()).sort("revenue", descending=True)


def q06(t: Tables) -> pl.LazyFrame:
    shipped = c("l_shipdate").is_between(day(1994, 1, 1), day(1995, 1, 1), closed="left")
    rows = t["lineitem"].filter(shipped, c("l_discount").is_between(0.05, 0.07), c("l_quantity") < 24)
    return rows.select(revenue=(c("l_extendedprice") * c("l_discount")).sum())


def q07(t: Tables) -> pl.LazyFrame:
    two = t["nation"].filter(c("n_name").is_in(["FRANCE", "GERMANY"])).select("n_nationkey", "n_name")
    customers = t["customer"].join(two.rename({"n_name": "cust_nation"}), left_on="c_nationkey", right_on="n_nationkey")
    suppliers = t["supplier"].join(two.rename({"n_name": "supp_nation"}), left_on="s_nationkey", right_on="n_nationkey")
    orders = t["orders"].join(customers, left_on="o_custkey", right_on="c_custkey")
    lines = t["lineitem"].filter(c("l_shipdate").is_between(day(1995, 1, 1), day(1996, 12, 31)))
    found = lines.join(orders, left_on="l_orderkey", right_on="o_orderkey").join(suppliers, left_on="l_suppkey", right_on="s_suppkey")
    found = found.filter(c("cust_nation") != c("supp_nation")).with_columns(l_year=c("l_shipdate").dt.year())
    keys = ["supp_nation", "cust_nation", "l_year"]
    return found.group_by(keys).agg(revenue=VOLUME.sum()).sort(keys)


def q08(t: Tables) -> pl.LazyFrame:
    american = t["nation"].join(t["region"].filter(c("r_name") == "AMERICA"), left_on="n_regionkey", right_on="r_regionkey")
    parts = t["part"].filter(c("p_type") == "ECONOMY ANODIZED STEEL")
    customers = t["customer"].join(american, left_on="c_nationkey", right_on="n_nationkey", how="semi")
    orders = t["orders"].filter(c("o_orderdate").is_between(day(1995, 1, 1), day(1996, 12, 31)))
    orders = orders.join(customers, left_on="o_custkey", right_on="c_custkey", how="semi")
    lines = t["lineitem"].join(parts, left_on="l_partkey", right_on="p_partkey", how="semi")
    found = lines.join(orders, left_on="l_orderkey", right_on="o_orderkey").join(t["supplier"], left_on="l_suppkey", right_on="s_suppkey")
    found = found.join(t["nation"], left_on="s_nationkey", right_on="n_nationkey").with_columns(o_year=c("o_orderdate").dt.year())
    share = VOLUME.filter(c("n_name") == "BRAZIL").sum() / VOLUME.sum()
    return found.group_by("o_year").agg(mkt_share=share).sort("o_year")


def q09(t: Tables) -> pl.LazyFrame:
    parts = t["part"].filter(c("p_name").str.contains("green", literal=True))
    lines = t["lineitem"].join(parts, left_on="l_partkey", right_on="p_partkey", how="semi")
    found = lines.join(t["partsupp"], left_on=["l_partkey", "l_suppkey"], right_on=["ps_partkey", "ps_suppkey"])
    found = found.join(t["supplier"], left_on="l_suppkey", right_on="s_suppkey").join(
        t["orders"], left_on="l_orderkey", right_on="o_orderkey"
    )
    found = found.join(t["nation"], left_on="s_nationkey", right_on="n_nationkey")
    amount = (VOLUME - c("ps_supplycost") * c("l_quantity")).sum()
    found = found.group_by(nation=c("n_name"), o_year=c("o_orderdate").dt.year()).agg(sum_profit=amount)
    return found.sort("nation", "o_year", descending=[False, True])


def q10(t: Tables) -> pl.LazyFrame:
    orders = t["orders"].filter(c("o_orderdate").is_between(day(1993, 10, 1), day(1994, 1, 1), closed="left"))
    lines = t["lineitem"].filter(c("l_returnflag") == "R").join(orders, left_on="l_orderkey", right_on="o_orderkey")
    sums = lines.group_by("o_custkey").agg(revenue=VOLUME.sum())
    found = t["customer"].join(sums, left_on="c_custkey", right_on="o_custkey")
    found = found.join(t["nation"], left_on="c_nationkey", right_on="n_nationkey").sort("revenue", descending=True).head(20)
    return found.select("c_custkey", "c_name", "revenue", "c_acctbal", "n_name", "c_address", "c_phone", "c_comment")


def q11(t: Tables) -> pl.LazyFrame:
    german = t["supplier"].join(t["nation"].filter(c("n_name") == "GERMANY"), left_on="s_nationkey", right_on="n_nationkey")
    stock = t["partsupp"].join(german, left_on="ps_suppkey", right_on="s_suppkey", how="semi")
    sums = stock.group_by("ps_partkey").agg(value=(c("ps_supplycost") * c("ps_availqty")).sum())
    return sums.filter(c("value") > c("value").sum() * 0.01).sort("value", descending=True)


QUERIES: dict[str, Callable[[Tables], pl.LazyFrame]] = {
    **{query.__name__: query for query in (q01, q02, q03, q04, q05, q06, q07, q08, q09, q10, q11)},
    **late.QUERIES,
}


def main() -> None:
    """Answer all of them, one after the other."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--data", type=Path, required=True)
    options.add_argument("--out", type=Path, required=True)
    given = options.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    tables = {file.stem: pl.scan_parquet(file).with_columns(selectors.decimal().cast(pl.Float64)) for file in given.data.glob("*.parquet")}
    for name, query in QUERIES.items():
        query(tables).collect(engine="streaming").write_parquet(given.out / f"{name}.parquet")


if __name__ == "__main__":
    main()
