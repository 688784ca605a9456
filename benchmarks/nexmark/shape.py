"""The parameters of Nexmark: proportions, hot keys, time, disorder (as in Beam's generator).

Event n is a person, an auction or a bid by ``n % 50``: 1, 3 and 46 of each 50. Its time is
``START_US + n * EVENT_US``. Events arrive out of order within groups of ``GROUP_EVENTS``: arrival p
is event ``group * G + (p * 953) % G``, so none is later than ``DELAY``. Ids count from 1000.
"""

from __future__ import annotations

import numpy as np

PERIOD_EVENTS = 50
AUCTIONS_PER_PERIOD = 3
BIDS_PER_PERIOD = 46
FIRST_ID = 1_000
START_US = 1_767_225_600_000_000
#: 10,000 events a second.
EVENT_US = 100
GROUP_EVENTS = 1_000
GROUP_STRIDE = 953
#: Greatest delay of an event after a later event.
DELAY = "100ms"
AUCTIONS_IN_FLIGHT = 100
PERSONS_ACTIVE = 1_000
#: How far ids run ahead of the existing auctions: a bid may arrive before its auction.
LEAD_IDS = 10
#: One of two bids is on the hot auction; three of four auctions (bids) are by the hot person.
HOT_AUCTION_ODDS = 2
HOT_SELLER_ODDS = 4
HOT_BIDDER_ODDS = 4
HOT_IDS = 100
FIRST_CATEGORY = 10
CATEGORIES = 5
#: An auction lasts between 1 ms and this (twice the time in which its successors fill the flight).
AUCTION_MS_MAX = 2 * AUCTIONS_IN_FLIGHT * PERIOD_EVENTS // AUCTIONS_PER_PERIOD * EVENT_US // 1_000
#: Longer than any auction lasts, and than any id is ahead of its auction.
PATIENCE = "1s"


def arrived(lo: int, hi: int) -> np.ndarray:
    """Return the numbers of the events that arrive at places ``[lo, hi)``."""
    place = np.arange(lo, hi, dtype=np.int64)
    start = place // GROUP_EVENTS * GROUP_EVENTS
    event: np.ndarray = start + (place - start) * GROUP_STRIDE % GROUP_EVENTS
    return event


def time_us(event: np.ndarray) -> np.ndarray:
    """Return the event times, microseconds UTC."""
    time: np.ndarray = START_US + event * EVENT_US
    return time


def last_person(event: np.ndarray) -> np.ndarray:
    """Return the newest person (from 0) at each event."""
    person: np.ndarray = event // PERIOD_EVENTS
    return person


def last_auction(event: np.ndarray) -> np.ndarray:
    """Return the newest auction (from 0) at each event; -1 before the first."""
    period, offset = np.divmod(event, PERIOD_EVENTS)
    auction: np.ndarray = period * AUCTIONS_PER_PERIOD + np.minimum(offset, AUCTIONS_PER_PERIOD) - 1
    return auction
