"""The eight tables, small and random, so that every query has a result.

Values are from the specification's domains; words that the queries select are more frequent. Unlike
the benchmark's own data, sizes and correlations differ.
"""

from __future__ import annotations

import functools
from datetime import date, timedelta
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

_REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
_NATIONS = (
    *(("ALGERIA", 0), ("BRAZIL", 1), ("CANADA", 1), ("INDIA", 2), ("CHINA", 2), ("FRANCE", 3)),
    *(("GERMANY", 3), ("RUSSIA", 3), ("EGYPT", 4), ("SAUDI ARABIA", 4)),
)
_SEGMENTS = ("AUTOMOBILE", "BUILDING", "MACHINERY")
_PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
_MODES = ("AIR", "AIR REG", "MAIL", "SHIP", "TRUCK")
_HOW = ("DELIVER IN PERSON", "COLLECT COD", "NONE")
_TYPES = ("ECONOMY ANODIZED STEEL", "PROMO BURNISHED BRASS", "MEDIUM POLISHED TIN", "SMALL BRASS")
_BRANDS = ("Brand#12", "Brand#23", "Brand#34")
_BOXES = ("SM CASE", "SM BOX", "MED BOX", "MED BAG", "LG CASE", "LG PACK", "JUMBO PKG")
_NAMES = ("forest", "green", "azure", "lace")
_SIZES = (1, 3, 9, 14, 15, 19, 23, 36, 45, 49)
_CODES = (13, 31, 23, 29, 30, 18, 17, 40)
_MONEY = pa.decimal128(15, 2)
_SUPPLIERS, _PARTS, _CUSTOMERS, _ORDERS = 30, 60, 90, 700
_FIRST_DAY, _DAYS = date(1992, 1, 1), 2400

_TYPED: dict[str, pa.DataType] = {"int": pa.int64(), "text": pa.string(), "money": _MONEY}
_TYPED["day"] = pa.date32()
#: Table -> its columns and their kinds.
COLUMNS: dict[str, dict[str, str]] = {
    "region": {"r_regionkey": "int", "r_name": "text", "r_comment": "text"},
    "nation": {"n_nationkey": "int", "n_name": "text", "n_regionkey": "int", "n_comment": "text"},
    "supplier": {
        "s_suppkey": "int",
        "s_name": "text",
        "s_address": "text",
        "s_nationkey": "int",
        "s_phone": "text",
        "s_acctbal": "money",
        "s_comment": "text",
    },
    "customer": {
        "c_custkey": "int",
        "c_name": "text",
        "c_address": "text",
        "c_nationkey": "int",
        "c_phone": "text",
        "c_acctbal": "money",
        "c_mktsegment": "text",
        "c_comment": "text",
    },
    "part": {
        "p_partkey": "int",
        "p_name": "text",
        "p_mfgr": "text",
        "p_brand": "text",
        "p_type": "text",
        "p_size": "int",
        "p_container": "text",
        "p_retailprice": "money",
        "p_comment": "text",
    },
    "partsupp": {
        "ps_partkey": "int",
        "ps_suppkey": "int",
        "ps_availqty": "int",
        "ps_supplycost": "money",
        "ps_comment": "text",
    },
    "orders": {
        "o_orderkey": "int",
        "o_custkey": "int",
        "o_orderstatus": "text",
        "o_totalprice": "money",
        "o_orderdate": "day",
        "o_orderpriority": "text",
        "o_clerk": "text",
        "o_shippriority": "int",
        "o_comment": "text",
    },
    "lineitem": {
        "l_orderkey": "int",
        "l_partkey": "int",
        "l_suppkey": "int",
        "l_linenumber": "int",
        "l_quantity": "money",
        "l_extendedprice": "money",
        "l_discount": "money",
        "l_tax": "money",
        "l_returnflag": "text",
        "l_linestatus": "text",
        "l_shipdate": "day",
        "l_commitdate": "day",
        "l_receiptdate": "day",
        "l_shipinstruct": "text",
        "l_shipmode": "text",
        "l_comment": "text",
    },
}


@functools.cache
def tables() -> dict[str, pa.Table]:
    """All of them, the same at each call."""
    rng = Random(22)
    offers = _offers(rng)
    orders, lines = _orders(rng, offers)
    rows: dict[str, Sequence[tuple[Any, ...]]] = {
        "region": [(i, name, f"about {name}") for i, name in enumerate(_REGIONS)],
        "nation": [(i, name, of, f"about {name}") for i, (name, of) in enumerate(_NATIONS)],
        "supplier": [_supplier(rng, key) for key in range(1, _SUPPLIERS + 1)],
        "customer": [_customer(rng, key) for key in range(1, _CUSTOMERS + 1)],
        "part": [_part(rng, key) for key in range(1, _PARTS + 1)],
        "partsupp": offers,
        "orders": orders,
        "lineitem": lines,
    }
    return {name: _table(name, found) for name, found in rows.items()}


def _table(name: str, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    schema = pa.schema([(column, _TYPED[kind]) for column, kind in COLUMNS[name].items()])
    by_column = zip(*rows, strict=True)
    columns = [pa.array(list(v), f.type) for v, f in zip(by_column, schema, strict=True)]
    return pa.Table.from_arrays(columns, schema=schema)


def _money(cents: int) -> Decimal:
    return Decimal(cents) / 100


def _supplier(rng: Random, key: int) -> tuple[Any, ...]:
    nation = key % len(_NATIONS)
    comment = "slow Customer and its Complaints" if rng.random() < 0.1 else "carefully"
    phone = f"{rng.choice(_CODES)}-555-{key:04}"
    money = _money(rng.randrange(-99_999, 999_999))
    return key, f"Supplier#{key:09}", f"street {key}", nation, phone, money, comment


def _customer(rng: Random, key: int) -> tuple[Any, ...]:
    nation = rng.randrange(len(_NATIONS))
    phone = f"{rng.choice(_CODES)}-777-{key:04}"
    money = _money(rng.randrange(-99_999, 999_999))
    segment = rng.choice(_SEGMENTS)
    return key, f"Customer#{key:09}", f"road {key}", nation, phone, money, segment, "quickly"


def _part(rng: Random, key: int) -> tuple[Any, ...]:
    names = rng.sample(_NAMES, 2)
    made = (f"Manufacturer#{rng.randrange(1, 6)}", rng.choice(_BRANDS), rng.choice(_TYPES))
    price = _money(90_000 + 10 * key)
    size = rng.choice(_SIZES)
    # Boxes depend on brands, so that a few parts match.
    box = rng.choice({"Brand#12": _BOXES[:2], "Brand#23": _BOXES[2:4]}.get(made[1], _BOXES[4:]))
    return (key, " ".join(names), *made, size, box, price, "final")


def _offers(rng: Random) -> list[tuple[Any, ...]]:
    return [
        (part, supplier, rng.randrange(1, 1000), _money(rng.randrange(100, 100_000)), "even")
        for part in range(1, _PARTS + 1)
        for supplier in sorted(rng.sample(range(1, _SUPPLIERS + 1), 4))
    ]


def _orders(
    rng: Random, offers: Sequence[tuple[Any, ...]]
) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    orders: list[tuple[Any, ...]] = []
    lines: list[tuple[Any, ...]] = []
    for key in range(1, _ORDERS + 1):
        # Every third customer has never ordered.
        customer = rng.choice([k for k in range(1, _CUSTOMERS + 1) if k % 3])
        day = _FIRST_DAY + timedelta(rng.randrange(_DAYS))
        is_large = rng.random() < 0.04
        mine = [
            _line(rng, key, number, day, rng.choice(offers), is_large=is_large)
            for number in range(1, 8 if is_large else rng.randrange(1, 6))
        ]
        states = {line[9] for line in mine}
        status = states.pop() if len(states) == 1 else "P"
        total = sum((line[5] for line in mine), Decimal(0))
        comment = "special packages requests" if rng.random() < 0.1 else "silent deposits"
        clerk = f"Clerk#{rng.randrange(9):09}"
        priority = rng.choice(_PRIORITIES)
        orders.append((key, customer, status, total, day, priority, clerk, 0, comment))
        lines += mine
    return orders, lines


def _line(
    rng: Random, order: int, number: int, ordered: date, offer: tuple[Any, ...], *, is_large: bool
) -> tuple[Any, ...]:
    quantity = rng.randrange(44, 51) if is_large else rng.choice((1, rng.randrange(1, 31)))
    shipped = ordered + timedelta(rng.randrange(1, 122))
    due = ordered + timedelta(rng.randrange(30, 91))
    received = shipped + timedelta(rng.randrange(1, 31))
    price = _money(quantity * rng.randrange(90_000, 110_000))
    amounts = (Decimal(quantity), price, _money(rng.randrange(11)), _money(rng.randrange(9)))
    is_shipped = shipped <= date(1995, 6, 17)
    flags = (rng.choice("RA") if is_shipped else "N", "F" if is_shipped else "O")
    words = (rng.choice(_HOW), rng.choice(_MODES), "bold")
    return (order, offer[0], offer[1], number, *amounts, *flags, shipped, due, received, *words)
