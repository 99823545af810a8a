"""The second half of TPC-H's queries in lazy Polars."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import polars as pl
from polars import col as c

Tables = dict[str, pl.LazyFrame]
VOLUME = c("l_extendedprice") * (1 - c("l_discount"))
day = dt.date


def q12(t: Tables) -> pl.LazyFrame:
    lines = t["lineitem"].filter(
        c("l_shipmode").is_in(["MAIL", "SHIP"]),
        c("l_commitdate") < c("l_receiptdate"),
        c("l_shipdate") < c("l_commitdate"),
        c("l_receiptdate").is_between(day(1994, 1, 1), day(1995, 1, 1), closed="left"),
    )
    urgent = c("o_orderpriority").is_in(["1-URGENT", "2-HIGH"])
    found = lines.join(t["orders"], left_on="l_orderkey", right_on="o_orderkey")
    return found.group_by("l_shipmode").agg(high_line_count=urgent.sum(), low_line_count=(~urgent).sum()).sort("l_shipmode")


def q13(t: Tables) -> pl.LazyFrame:
    orders = t["orders"].filter(~c("o_comment").str.contains("special.*requests"))
    counted = t["customer"].join(orders, left_on="c_custkey", right_on="o_custkey", how="left").group_by("c_custkey")
    found = counted.agg(c_count=c("o_orderkey").count()).group_by("c_count").agg(custdist=pl.len())
    return found.sort("custdist", "c_count", descending=True)


def q14(t: Tables) -> pl.LazyFrame:
    lines = t["lineitem"].filter(c("l_shipdate").is_between(day(1995, 9, 1), day(1995, 10, 1), closed="left"))
    promo = VOLUME.filter(c("p_type").str.starts_with("PROMO")).sum()
    return lines.join(t["part"], left_on="l_partkey", right_on="p_partkey").select(promo_revenue=100.0 * promo / VOLUME.sum())


def q15(t: Tables) -> pl.LazyFrame:
    lines = t["lineitem"].filter(c("l_shipdate").is_between(day(1996, 1, 1), day(1996, 4, 1), closed="left"))
    sums = lines.group_by("l_suppkey").agg(total_revenue=VOLUME.sum().round(4))
    most = sums.filter(c("total_revenue") == c("total_revenue").max())
    found = t["supplier"].join(most, left_on="s_suppkey", right_on="l_suppkey")
    return found.select("s_suppkey", "s_name", "s_address", "s_phone", "total_revenue").sort("s_suppkey")


def q16(t: Tables) -> pl.LazyFrame:
    parts = t["part"].filter(
        c("p_brand") != "Brand#45",
        ~c("p_type").str.starts_with("MEDIUM POLISHED"),
        c("p_size").is_in([49, 14, 23, 45, 19, 3, 36, 9]),
    )
    bad = t["supplier"].filter(c("s_comment").str.contains("Customer.*Complaints"))
    offers = parts.join(t["partsupp"], left_on="p_partkey", right_on="ps_partkey")
    offers = offers.join(bad, left_on="ps_suppkey", right_on="s_suppkey", how="anti")
    keys = ["p_brand", "p_type", "p_size"]
    found = offers.group_by(keys).agg(supplier_cnt=c("ps_suppkey").n_unique())
    return found.sort("supplier_cnt", *keys, descending=[True, False, False, False])


def q17(t: Tables) -> pl.LazyFrame:
    parts = t["part"].filter(c("p_brand") == "Brand#23", c("p_container").str.ends_with("BOX"))
    lines = t["lineitem"].join(parts, left_on="l_partkey", right_on="p_partkey", how="semi")
    usual = lines.group_by("l_partkey").agg(usual=0.2 * c("l_quantity").mean())
    few = lines.join(usual, on="l_partkey").filter(c("l_quantity") < c("usual"))
    return few.select(avg_yearly=c("l_extendedprice").sum() / 7.0)


def q18(t: Tables) -> pl.LazyFrame:
    large = t["lineitem"].group_by("l_orderkey").agg(sum_quantity=c("l_quantity").sum()).filter(c("sum_quantity") > 260)
    found = t["orders"].join(large, left_on="o_orderkey", right_on="l_orderkey")
    found = found.join(t["customer"], left_on="o_custkey", right_on="c_custkey", coalesce=False)
    found = found.select("c_name", "c_custkey", "o_orderkey", "o_orderdate", "o_totalprice", "sum_quantity")
    return found.sort("o_totalprice", "o_orderdate", descending=[True, False]).head(100)


def q19(t: Tables) -> pl.LazyFrame:
    lines = t["lineitem"].filter(c("l_shipmode").is_in(["AIR", "REG AIR"]), c("l_shipinstruct") == "DELIVER IN PERSON")
    kinds = (
        ("Brand#12", "SM", ("CASE", "BOX", "PACK", "PKG"), 1, 5),
        ("Brand#23", "MED", ("BAG", "BOX", "PKG", "PACK"), 10, 10),
        ("Brand#34", "LG", ("CASE", "BOX", "PACK", "PKG"), 20, 15),
    )
    asked = [
        (c("p_brand") == brand)
        & c("p_container").is_in([f"{size} {kind}" for kind in packed])
        & c("l_quantity").is_between(least, least + 10)
        & c("p_size").is_between(1, most)
        for brand, size, packed, least, most in kinds
    ]
    found = lines.join(t["part"], left_on="l_partkey", right_on="p_partkey").filter(pl.any_horizontal(asked))
    return found.select(revenue=VOLUME.sum())


def q20(t: Tables) -> pl.LazyFrame:
    shipped = t["lineitem"].filter(c("l_shipdate").is_between(day(1994, 1, 1), day(1995, 1, 1), closed="left"))
    half = shipped.group_by("l_partkey", "l_suppkey").agg(half=0.5 * c("l_quantity").sum())
    parts = t["part"].filter(c("p_name").str.starts_with("forest"))
    stock = t["partsupp"].join(parts, left_on="ps_partkey", right_on="p_partkey", how="semi")
    stock = stock.join(half, left_on=["ps_partkey", "ps_suppkey"], right_on=["l_partkey", "l_suppkey"])
    nations = t["nation"].filter(c("n_name").is_in(["CANADA", "FRANCE", "CHINA"]))
    suppliers = t["supplier"].join(nations, left_on="s_nationkey", right_on="n_nationkey", how="semi")
    found = suppliers.join(stock.filter(c("ps_availqty") > c("half")), left_on="s_suppkey", right_on="ps_suppkey", how="semi")
    return found.select("s_name", "s_address").sort("s_name")


def q21(t: Tables) -> pl.LazyFrame:
    late = t["lineitem"].filter(c("l_receiptdate") > c("l_commitdate"))
    several = t["lineitem"].group_by("l_orderkey").agg(c("l_suppkey").n_unique()).filter(c("l_suppkey") > 1)
    alone = late.group_by("l_orderkey").agg(c("l_suppkey").n_unique()).filter(c("l_suppkey") == 1)
    rows = late.join(several, on="l_orderkey", how="semi").join(alone, on="l_orderkey", how="semi")
    rows = rows.join(t["orders"].filter(c("o_orderstatus") == "F"), left_on="l_orderkey", right_on="o_orderkey", how="semi")
    nations = t["nation"].filter(c("n_name") == "SAUDI ARABIA")
    suppliers = t["supplier"].join(nations, left_on="s_nationkey", right_on="n_nationkey", how="semi")
    found = rows.join(suppliers, left_on="l_suppkey", right_on="s_suppkey").group_by("s_name").agg(numwait=pl.len())
    return found.sort("numwait", "s_name", descending=[True, False]).head(100)


def q22(t: Tables) -> pl.LazyFrame:
    customers = t["customer"].with_columns(cntrycode=c("c_phone").str.slice(0, 2))
    customers = customers.filter(c("cntrycode").is_in(["13", "31", "23", "29", "30", "18", "17"]))
    mean = customers.filter(c("c_acctbal") > 0).select(mean=c("c_acctbal").mean())
    rich = customers.join(mean, how="cross").filter(c("c_acctbal") > c("mean"))
    found = rich.join(t["orders"], left_on="c_custkey", right_on="o_custkey", how="anti")
    return found.group_by("cntrycode").agg(numcust=pl.len(), totacctbal=c("c_acctbal").sum()).sort("cntrycode")


QUERIES: dict[str, Callable[[Tables], pl.LazyFrame]] = {
    query.__name__: query for query in (q12, q13, q14, q15, q16, q17, q18, q19, q20, q21, q22)
}
