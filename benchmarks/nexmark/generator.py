"""The events: persons, auctions and bids that arrive at places ``[lo, hi)``, as Arrow batches.

All values are computed from the event's number, so ranges can be generated alone and joined.
Columns of text are dictionaries; written to Parquet they are plain text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from nexmark import shape, words
from nexmark.chance import below, draws, low_below, prices

if TYPE_CHECKING:
    from collections.abc import Callable

TIME = pa.timestamp("us")
#: Number of letters of ``extra``, so that rows have the sizes of the original (200, 500 and 100
#: bytes).
_EXTRA = {"person": (6, 60, 120), "auction": (7, 250, 400), "bid": (8, 54, 81)}


def persons(lo: int, hi: int) -> pa.RecordBatch:
    """Return the persons of a range of arrivals."""
    event = shape.arrived(lo, hi)
    event = event[event % shape.PERIOD_EVENTS == 0]
    one, two = draws(event, 0), draws(event, 1)
    return pa.record_batch({
        "id": shape.FIRST_ID + shape.last_person(event),
        "name": _text(words.person_names(), below(one, len(words.person_names()))),
        "email_address": _text(words.emails(), low_below(one, words.POOL)),
        "credit_card": _text(words.credit_cards(), below(two, words.POOL)),
        "city": _text(pa.array(words.CITIES), low_below(two, len(words.CITIES))),
        "state": _text(pa.array(words.STATES), below(draws(event, 2), len(words.STATES))),
        "date_time": _time(event),
        "extra": _extra("person", draws(event, 3)),
    })  # fmt: skip


def auctions(lo: int, hi: int) -> pa.RecordBatch:
    """Return the auctions of a range of arrivals."""
    event = shape.arrived(lo, hi)
    offset = event % shape.PERIOD_EVENTS
    event = event[(offset > 0) & (offset <= shape.AUCTIONS_PER_PERIOD)]
    one, two, three = draws(event, 0), draws(event, 1), draws(event, 2)
    bid = prices(draws(event, 3))
    length_us = (1 + below(one, shape.AUCTION_MS_MAX)) * 1_000
    return pa.record_batch({
        "id": shape.FIRST_ID + shape.last_auction(event),
        "item_name": _text(words.pool(9, 3, 20), low_below(one, words.POOL)),
        "description": _text(words.pool(10, 10, 100), below(two, words.POOL)),
        "initial_bid": bid,
        "reserve": bid + prices(draws(event, 4)),
        "date_time": _time(event),
        "expires": pa.array(shape.time_us(event) + length_us).cast(TIME),
        "seller": shape.FIRST_ID + _person(event, two, three, shape.HOT_SELLER_ODDS, 0),
        "category": shape.FIRST_CATEGORY + low_below(three, shape.CATEGORIES),
        "extra": _extra("auction", draws(event, 5)),
    })  # fmt: skip


def bids(lo: int, hi: int) -> pa.RecordBatch:
    """Return the bids of a range of arrivals."""
    event = shape.arrived(lo, hi)
    event = event[event % shape.PERIOD_EVENTS > shape.AUCTIONS_PER_PERIOD]
    one, two, three = draws(event, 0), draws(event, 1), draws(event, 2)
    hot = len(words.HOT_CHANNELS)
    channel = np.where(
        low_below(three, 2) == 1, below(three, hot), hot + below(three, words.CHANNELS)
    )
    names, urls = words.channels()
    return pa.record_batch({
        "auction": shape.FIRST_ID + _auction(event, one),
        "bidder": shape.FIRST_ID + _person(event, one, two, shape.HOT_BIDDER_ODDS, 1),
        "price": prices(draws(event, 3)),
        "channel": _text(names, channel),
        "url": _text(urls, channel),
        "date_time": _time(event),
        "extra": _text(words.pool(*_EXTRA["bid"]), low_below(two, words.POOL)),
    })  # fmt: skip


#: Folder name -> the function that makes its rows.
KINDS: dict[str, Callable[[int, int], pa.RecordBatch]] = {
    "person": persons,
    "auction": auctions,
    "bid": bids,
}


def _person(
    event: np.ndarray, which: np.ndarray, draw: np.ndarray, odds: int, hot_offset: int
) -> np.ndarray:
    """Return the hot person, or one of the last thousand or the next ten."""
    last = shape.last_person(event)
    active = np.minimum(last + 1, shape.PERSONS_ACTIVE)
    cold = last + 1 - active + below(draw, active + shape.LEAD_IDS)
    hot = last // shape.HOT_IDS * shape.HOT_IDS + hot_offset
    return np.where(low_below(which, odds) > 0, hot, cold)


def _auction(event: np.ndarray, draw: np.ndarray) -> np.ndarray:
    """Return the hot auction, or one of the last hundred or the next ten."""
    last = shape.last_auction(event)
    oldest = np.maximum(last - shape.AUCTIONS_IN_FLIGHT, 0)
    cold = oldest + below(draw, last - oldest + 1 + shape.LEAD_IDS)
    hot = last // shape.HOT_IDS * shape.HOT_IDS
    is_hot = (draw & np.uint64(1)).view(np.int64) >= shape.HOT_AUCTION_ODDS - 1
    return np.where(is_hot, hot, cold)


def _text(values: pa.Array, at: np.ndarray) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(at.astype(np.int32), values)


def _extra(kind: str, draw: np.ndarray) -> pa.DictionaryArray:
    return _text(words.pool(*_EXTRA[kind]), below(draw, words.POOL))


def _time(event: np.ndarray) -> pa.Array:
    return pa.array(shape.time_us(event)).cast(TIME)
