"""``python -m tests.sim --runs N --seed S``: runs seeds S, S+1, ...; prints the seed of a failure.

``--kinds crash_host,zombie`` restricts the faults, ``--kinds none`` leaves them out; ``--trace``
prints the last events of a failed run; ``--stats`` prints which faults, strategies and notices
occurred; ``--workload W`` runs the job of seed W under the faults of each seed; ``--live`` jobs
over live logs; ``--grow`` over logs that get partitions; ``--open-rows --deliver`` over rows whose
ends arrive later; ``--change`` jobs that users change, with ``--ranges N`` until N ranges of keys
were split, merged or moved; ``--deliver`` delivers the results, with faults of deliveries.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections import Counter
from time import perf_counter

from streamscope.testing.simulation.faults.kinds import KINDS
from tests.sim.changing import CHANGE_KINDS
from tests.sim.delivery_faults import DELIVERY_KINDS
from tests.sim.run import Outcome, simulate

#: What can happen to a key range; a drained host hands over its vertices.
RANGES = ("ranges split", "ranges merged", "notice DrainRequested")


def main() -> int:
    """Run, count, report. Return 1 if a law was broken."""
    options = _options()
    kinds = None if options.kinds == "all" else _kinds(options.kinds)
    gc.freeze()  # imported objects stay: the garbage collector can skip them
    started_s = perf_counter()
    failed: list[Outcome] = []
    met: Counter[str] = Counter()
    seeds: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    for seed in range(options.seed, options.seed + options.runs):
        outcome = simulate(
            seed,
            kinds,
            workload_seed=options.workload,
            live=options.live,
            deliver=options.deliver,
            grow=options.grow,
            open_rows=options.open_rows,
            change=options.change,
        )
        totals.update(
            steps=outcome.steps,
            hosts=outcome.hosts,
            manager_deaths=outcome.manager_deaths,
            refusals=outcome.refusals,
            takeovers=outcome.takeovers,
            fenced=outcome.fenced,
            segments=outcome.segments,
            checkpoints=outcome.checkpoints,
            deletions=outcome.deletions,
        )
        met.update(dict(outcome.met))
        seeds.update(what for what, n in outcome.met if n)
        if options.verbose:
            print(seed, outcome.workload, *outcome.faults, outcome.steps, outcome.trace)
        if not outcome.is_ok:
            failed.append(outcome)
            _show(outcome, options)
            if len(failed) >= options.failures:
                break
        if options.ranges and sum(met[what] for what in RANGES) >= options.ranges:
            break
    if options.stats:
        print(*(f"{met[w]:9,} in {seeds[w]:5,} runs: {w}" for w in sorted(seeds)), sep="\n")
    if options.ranges:
        print(", ".join(f"{met[what]} {what}" for what in RANGES))
    elapsed_s = perf_counter() - started_s
    runs = seed + 1 - options.seed
    rate = runs / elapsed_s
    counts = ", ".join(f"{n:,} {what}" for what, n in totals.items())
    print(f"{runs} runs, {len(failed)} failed, {rate:.1f} runs/s; {counts}")
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", default="all")
    parser.add_argument("--workload", type=int, help="the job of this seed, whatever the faults")
    parser.add_argument("--live", action="store_true", help="jobs over live logs")
    parser.add_argument("--grow", action="store_true", help="jobs over logs that get partitions")
    parser.add_argument("--open-rows", action="store_true", help="jobs over rows that end later")
    parser.add_argument("--change", action="store_true", help="jobs that users change")
    parser.add_argument("--ranges", type=int, default=0, help="stop after so many were changed")
    parser.add_argument("--deliver", action="store_true", help="and deliver what they answer")
    parser.add_argument("--failures", type=int, default=1, help="stop after so many")
    parser.add_argument("--trace", type=int, default=0, help="lines to show of a failed run")
    parser.add_argument("--stats", action="store_true", help="what the runs have met")
    parser.add_argument("--verbose", action="store_true")
    return parser.parse_args()


def _kinds(text: str) -> tuple[str, ...]:
    kinds = tuple(k for k in text.split(",") if k and k != "none")
    known = (*KINDS, *DELIVERY_KINDS, *CHANGE_KINDS)
    unknown = [k for k in kinds if k not in known]
    if unknown:
        sys.exit(f"unknown kinds {unknown}; there are {', '.join(known)}")
    return kinds


def _show(outcome: Outcome, options: argparse.Namespace) -> None:
    for line in outcome.tail[-options.trace :] if options.trace else ():
        print("   ", line)
    print(f"seed {outcome.seed} ({outcome.workload}; {', '.join(outcome.faults) or 'no fault'}):")
    for violation in outcome.violations[:3]:
        print(f"  {violation}")
    extra = "" if options.kinds == "all" else f" KINDS={options.kinds}"
    extra += "" if options.workload is None else f" WORKLOAD={options.workload}"
    names = ("live", "deliver", "grow", "open_rows", "change")
    what = "".join(f" --{n.replace('_', '-')}" for n in names if getattr(options, n))
    if what:
        kinds = "" if options.kinds == "all" else f" --kinds {options.kinds}"
        print(f"  again: python -m tests.sim{what} --runs 1 --seed {outcome.seed}{kinds}")
        return
    print(f"  to see it again: make sim RUNS=1 SEED={outcome.seed}{extra}")


if __name__ == "__main__":
    sys.exit(main())
