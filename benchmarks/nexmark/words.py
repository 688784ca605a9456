"""The texts of Nexmark, as dictionaries for columns.

Long random texts (``extra``, ``description``, names of things) come from pools of ``POOL`` texts;
everything else is as in the original: 10,000 channels with an URL each, of which nine of ten name
their channel, and four hot channels.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa

from nexmark.chance import SEED

POOL = 4_096
CHANNELS = 10_000
HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter",
               "Walter")  # fmt: skip
LAST_NAMES = (
    "Shultz",
    "Abrams",
    "Spencer",
    "White",
    "Bartels",
    "Walton",
    "Smith",
    "Jones",
    "Noris",
)
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = ("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond",
          "Seattle", "Kent", "Cheyenne")  # fmt: skip
_LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", np.uint8)


@cache
def pool(name: int, shortest: int, longest: int, texts: int = POOL) -> pa.Array:
    """Return ``texts`` random lower-case texts of such lengths.

    ``name`` selects the random numbers.
    """
    random = np.random.default_rng([SEED, name])
    lengths = random.integers(shortest, longest + 1, texts)
    letters = _LETTERS[random.integers(0, len(_LETTERS), int(lengths.sum()))].tobytes().decode()
    ends = np.cumsum(lengths).tolist()
    return pa.array([letters[end - n : end] for end, n in zip(ends, lengths.tolist(), strict=True)])


@cache
def channels() -> tuple[pa.Array, pa.Array]:
    """Return names and URLs: the hot channels, then the others."""
    parts = pool(1, 1, 5, 3 * (CHANNELS + len(HOT_CHANNELS))).to_pylist()
    urls = [
        f"https://www.nexmark.com/{'/'.join(parts[3 * k : 3 * k + 3])}/item.htm?query=1"
        for k in range(CHANNELS + len(HOT_CHANNELS))
    ]
    silent = np.random.default_rng([SEED, 2]).integers(0, 10, CHANNELS) == 0
    for k in range(CHANNELS):
        if not silent[k]:
            urls[len(HOT_CHANNELS) + k] += f"&channel_id={int(f'{k:032b}'[::-1], 2) % 2**31}"
    return pa.array([*HOT_CHANNELS, *(f"channel-{k}" for k in range(CHANNELS))]), pa.array(urls)


@cache
def person_names() -> pa.Array:
    """Return all first names with all last names."""
    return pa.array([f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES])


@cache
def emails() -> pa.Array:
    """Return e-mail addresses."""
    users, hosts = pool(3, 3, 7).to_pylist(), pool(4, 3, 5).to_pylist()
    return pa.array([f"{user}@{host}.com" for user, host in zip(users, hosts, strict=True)])


@cache
def credit_cards() -> pa.Array:
    """Return numbers of four times four digits."""
    digits = np.random.default_rng([SEED, 5]).integers(0, 10_000, (POOL, 4)).tolist()
    return pa.array([" ".join(f"{part:04}" for part in card) for card in digits])
