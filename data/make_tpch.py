"""Makes the eight tables of TPC-H: its schema and the domains of its values, in a made-up way of drawing them.

    python data/make_tpch.py --scale 1 --out DIR        # 6 million lines; 3 GB of memory, and little more beyond

Not its dbgen: the figures differ from published answers, so an answer is compared with another program's on these tables. What the
queries ask for is in them: comments with special requests and complaints, parts named green and forest, customers without orders.
"""

from __future__ import annotations

import argparse
import datetime as dt
import tempfile
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl

SEED = 20261122
REGIONS = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"]
NATIONS = {
    "ALGERIA": 0, "ARGENTINA": 1, "BRAZIL": 1, "CANADA": 1, "EGYPT": 4, "ETHIOPIA": 0, "FRANCE": 3, "GERMANY": 3, "INDIA": 2,
    "INDONESIA": 2, "IRAN": 4, "IRAQ": 4, "JAPAN": 2, "JORDAN": 4, "KENYA": 0, "MOROCCO": 0, "MOZAMBIQUE": 0, "PERU": 1, "CHINA": 2,
    "ROMANIA": 3, "SAUDI ARABIA": 4, "VIETNAM": 2, "RUSSIA": 3, "UNITED KINGDOM": 3, "UNITED STATES": 1,
}  # fmt: skip
COLOURS = ["almond", "blue", "chocolate", "cyan", "forest", "green", "ivory", "khaki", "lemon", "linen", "navy", "olive", "plum", "red"]
TYPES = [
    ["STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"],
    ["ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"],
    ["TIN", "NICKEL", "BRASS", "STEEL", "COPPER"],
]
CONTAINERS = [["SM", "LG", "MED", "JUMBO", "WRAP"], ["CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM"]]
SEGMENTS = ["AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD"]
PRIORITIES = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"]
MODES = ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"]
INSTRUCTIONS = ["DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"]
COMMENTS = [
    "carefully final deposits",
    "special packages among requests",
    "quickly even accounts",
    "Customer told Complaints",
    "ironic ideas",
]
FIRST, LAST, TODAY = dt.date(1992, 1, 1), dt.date(1998, 8, 2), dt.date(1995, 6, 17)
SUPPLIERS, PARTS, CUSTOMERS, ORDERS, OFFERS = 10_000, 200_000, 150_000, 1_500_000, 4
MONEY = ("s_acctbal", "c_acctbal", "p_retailprice", "ps_supplycost", "o_totalprice", "l_extendedprice", "l_discount", "l_tax", "l_quantity")


class Maker:
    """Draws the tables at a scale, 1 for 1,500,000 orders."""

    def __init__(self, scale: float) -> None:
        self.random = np.random.default_rng(SEED)
        self.scale = scale

    def pick(self, values: Sequence[str], count: int) -> pl.Series:
        """So many of these texts."""
        return pl.Series(values)[self.random.integers(0, len(values), count)]

    def cents(self, low: float, high: float, count: int) -> np.ndarray:
        """Amounts of whole cents."""
        return self.random.integers(round(low * 100), round(high * 100) + 1, count) / 100

    def phones(self, nations: np.ndarray) -> list[str]:
        """Numbers that start with the nation's code."""
        return [
            f"{10 + nation}-{local // 10000:03}-{local % 10000:04}" for nation, local in zip(nations, self.local(len(nations)), strict=True)
        ]

    def local(self, count: int) -> np.ndarray:
        """Numbers of seven digits."""
        return self.random.integers(0, 10_000_000, count)

    def people(self, letter: str, title: str, count: int) -> pl.DataFrame:
        """Suppliers or customers."""
        keys, nations = np.arange(1, count + 1), self.random.integers(0, len(NATIONS), count)
        columns = {
            f"{letter}_{'suppkey' if letter == 's' else 'custkey'}": keys,
            f"{letter}_name": [f"{title}#{key:09}" for key in keys],
            f"{letter}_address": [f"{number} Street" for number in self.local(count)],
            f"{letter}_nationkey": nations,
            f"{letter}_phone": self.phones(nations),
            f"{letter}_acctbal": self.cents(-999.99, 9999.99, count),
            f"{letter}_comment": self.pick(COMMENTS, count),
        }
        return pl.DataFrame(columns)

    def parts(self) -> pl.DataFrame:
        """Parts, their price by their key."""
        keys = np.arange(1, round(PARTS * self.scale) + 1)
        makers = self.random.integers(1, 6, len(keys))
        names = [" ".join(self.random.permutation(COLOURS)[:5]) for _ in keys]
        return pl.DataFrame(
            {
                "p_partkey": keys,
                "p_name": names,
                "p_mfgr": [f"Manufacturer#{maker}" for maker in makers],
                "p_brand": [f"Brand#{maker}{number}" for maker, number in zip(makers, self.random.integers(1, 6, len(keys)), strict=True)],
                "p_type": self.pick([" ".join(words) for words in product(*TYPES)], len(keys)),
                "p_size": self.random.integers(1, 51, len(keys)),
                "p_container": self.pick([" ".join(words) for words in product(*CONTAINERS)], len(keys)),
                "p_retailprice": (90_000 + (keys // 10) % 20_001 + 100 * (keys % 1_000)) / 100,
                "p_comment": self.pick(COMMENTS, len(keys)),
            }
        )

    def offers(self, parts: int, suppliers: int) -> pl.DataFrame:
        """Four suppliers a part."""
        keys, turn = np.repeat(np.arange(1, parts + 1), OFFERS), np.tile(np.arange(OFFERS), parts)
        return pl.DataFrame(
            {
                "ps_partkey": keys,
                "ps_suppkey": (keys + turn * (suppliers // OFFERS + (keys - 1) // suppliers)) % suppliers + 1,
                "ps_availqty": self.random.integers(1, 10_000, len(keys)),
                "ps_supplycost": self.cents(1, 1000, len(keys)),
                "ps_comment": self.pick(COMMENTS, len(keys)),
            }
        )

    def orders(self, customers: int, first: int, count: int) -> pl.DataFrame:
        """So many orders of two customers in three, from the `first` on."""
        numbers = np.arange(first, first + count)
        buyers = np.arange(1, customers + 1)
        days = self.random.integers(0, (LAST - FIRST).days - 150, count)
        return pl.DataFrame(
            {
                "o_orderkey": numbers // 8 * 32 + numbers % 8 + 1,
                "o_custkey": self.random.choice(buyers[buyers % 3 != 0], count),
                "o_orderdate": pl.Series([FIRST]).extend_constant(FIRST, count - 1) + pl.Series(days).cast(pl.Int64) * dt.timedelta(days=1),
                "o_orderpriority": self.pick(PRIORITIES, count),
                "o_clerk": [f"Clerk#{number:09}" for number in self.random.integers(1, 11, count)],
                "o_shippriority": np.zeros(count, dtype=np.int64),
                "o_comment": self.pick(COMMENTS, count),
            }
        )

    def items(self, orders: pl.DataFrame, parts: pl.DataFrame, offers: pl.DataFrame) -> pl.DataFrame:
        """One to seven lines an order, each of an offer."""
        lines = self.random.integers(1, 8, orders.height)
        ordered = orders.select(l_orderkey="o_orderkey", ordered="o_orderdate")[np.repeat(np.arange(orders.height), lines)]
        count = ordered.height
        offered = offers.select(l_partkey="ps_partkey", l_suppkey="ps_suppkey")[self.random.integers(0, offers.height, count)]
        drawn = pl.DataFrame(
            {
                "l_linenumber": np.concatenate([np.arange(1, number + 1) for number in lines]),
                "l_quantity": self.random.integers(1, 51, count).astype(float),
                "l_discount": self.random.integers(0, 11, count) / 100,
                "l_tax": self.random.integers(0, 9, count) / 100,
                "l_shipinstruct": self.pick(INSTRUCTIONS, count),
                "l_shipmode": self.pick(MODES, count),
                "l_comment": self.pick(COMMENTS, count),
                **{name: self.random.integers(low, high, count) for name, low, high in (("a", 1, 122), ("b", 30, 91), ("c", 1, 31))},
                "returned": self.pick(["R", "A"], count),
            }
        )
        price = parts["p_retailprice"].to_numpy()[offered["l_partkey"].to_numpy() - 1]
        whole = ordered.hstack(offered).hstack(drawn).with_columns(price=price)
        return self.dated(whole)

    def dated(self, items: pl.DataFrame) -> pl.DataFrame:
        """The items with their prices, dates and flags."""
        shipped, promised = (pl.col("ordered") + pl.duration(days=pl.col(name)) for name in ("a", "b"))
        items = items.with_columns(
            l_extendedprice=(pl.col("l_quantity") * pl.col("price")).round(2), l_shipdate=shipped, l_commitdate=promised
        ).with_columns(l_receiptdate=pl.col("l_shipdate") + pl.duration(days="c"))
        return items.with_columns(
            l_returnflag=pl.when(pl.col("l_receiptdate") <= TODAY).then("returned").otherwise(pl.lit("N")),
            l_linestatus=pl.when(pl.col("l_shipdate") > TODAY).then(pl.lit("O")).otherwise(pl.lit("F")),
        ).drop("ordered", "price", "a", "b", "c", "returned")


def with_totals(orders: pl.DataFrame, items: pl.DataFrame) -> pl.DataFrame:
    """Orders with their status and price, by their lines."""
    charged = (pl.col("l_extendedprice") * (1 + pl.col("l_tax")) * (1 - pl.col("l_discount"))).sum().round(2)
    opened = (pl.col("l_linestatus") == "O").mean()
    status = pl.when(opened == 0).then(pl.lit("F")).when(opened == 1).then(pl.lit("O")).otherwise(pl.lit("P"))
    totals = items.group_by("l_orderkey").agg(o_totalprice=charged, o_orderstatus=status)
    return orders.join(totals, left_on="o_orderkey", right_on="l_orderkey", maintain_order="left")


def make_tables(scale: float) -> Iterator[tuple[str, pl.DataFrame]]:
    """The eight tables by name; amounts are floats of two decimals. Orders and lines come in blocks, one of each after the other."""
    maker = Maker(scale)
    suppliers = maker.people("s", "Supplier", round(SUPPLIERS * scale))
    customers = maker.people("c", "Customer", round(CUSTOMERS * scale))
    customers = customers.with_columns(c_mktsegment=maker.pick(SEGMENTS, customers.height))
    parts = maker.parts()
    offers = maker.offers(parts.height, suppliers.height)
    yield "region", pl.DataFrame({"r_regionkey": range(len(REGIONS)), "r_name": REGIONS})
    nations = {"n_nationkey": range(len(NATIONS)), "n_name": list(NATIONS), "n_regionkey": list(NATIONS.values())}
    yield "nation", pl.DataFrame(nations)
    yield from (("supplier", suppliers), ("customer", customers), ("part", parts), ("partsupp", offers))
    count = round(ORDERS * scale)
    for first in range(0, count, ORDERS):
        orders = maker.orders(customers.height, first, min(ORDERS, count - first))
        items = maker.items(orders, parts, offers)
        yield "orders", with_totals(orders, items)
        yield "lineitem", items


def write_tables(folder: Path, scale: float, *, decimals: bool) -> None:
    """Write NAME.parquet of every table, amounts as Decimal(15, 2), which is TPC-H's type, or as floats."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        files: dict[str, list[Path]] = {}
        for name, table in make_tables(scale):
            amounts = [column for column in table.columns if column in MONEY and decimals]
            blocks = files.setdefault(name, [])
            blocks.append(Path(scratch) / f"{name}-{len(blocks)}.parquet")
            table.with_columns(pl.col(column).cast(pl.Decimal(15, 2)) for column in amounts).write_parquet(blocks[-1])
        for name, blocks in files.items():
            if len(blocks) == 1:
                blocks[0].replace(folder / f"{name}.parquet")
            else:
                pl.scan_parquet(blocks).sink_parquet(folder / f"{name}.parquet")


def main() -> None:
    """Write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, required=True, help="1 for 1,500,000 orders")
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    given = parser.parse_args()
    write_tables(given.out, given.scale, decimals=True)


if __name__ == "__main__":
    main()
