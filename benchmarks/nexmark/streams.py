"""The three streams (and q13's side table) that our queries read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import planner
from nexmark import shape
from planner import Stream

if TYPE_CHECKING:
    from pathlib import Path

#: Past the end of time: an event extended by this lives for ever.
FOREVER = "1000000d"


@dataclass(frozen=True)
class Streams:
    """Streams of points; a row that is later than ``shape.DELAY`` would fail the job."""

    folder: Path

    @property
    def person(self) -> Stream:
        """Return the persons, as points."""
        return self._points("person")

    @property
    def auction(self) -> Stream:
        """Return the auctions, as points."""
        return self._points("auction")

    @property
    def bid(self) -> Stream:
        """Return the bids, as points."""
        return self._points("bid")

    @property
    def side(self) -> Stream:
        """Return keys and values that are valid at all times."""
        return Stream.from_parquet(str(self.folder / "side"), vs="since", ve="until", delay="0s")

    @property
    def open_auction(self) -> Stream:
        """Return the auctions, valid from start to end, both included."""
        path = str(self.folder / "auction")
        return Stream.from_parquet(
            path, vs="date_time", ve="expires", delay=shape.DELAY, late="error"
        ).extend(1)

    @property
    def patient_bid(self) -> Stream:
        """Return bids that outlive their auctions, which may come after them."""
        return self.bid.set_duration(shape.PATIENCE)

    def sql(self, text: str, **more: Stream) -> Stream:
        """Return a SELECT over these streams."""
        streams = {"person": self.person, "auction": self.auction, "bid": self.bid, **more}
        made = planner.sql(text, streams)
        assert isinstance(made, Stream), text
        return made

    def _points(self, kind: str) -> Stream:
        path = str(self.folder / kind)
        return Stream.from_parquet(path, vs="date_time", delay=shape.DELAY, late="error")
