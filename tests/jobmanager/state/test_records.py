"""The names of consecutive hosts of a slot."""

from __future__ import annotations

from jobmanager.state.records import HostState


def test_the_first_host_of_a_job_manager_replaces_none() -> None:
    for first in (HostState(3), HostState(3, takeovers=2)):
        second = first.following()
        third = second.following()
        assert (first.former, second.former, third.former) == ("", first.name, second.name)


def test_a_host_keeps_the_losses_of_its_slot() -> None:
    first = HostState(3, losses=[5])
    second = first.following()
    second.losses.append(7)
    assert (first.losses, second.losses) == ([5], [5, 7])
    assert HostState.slot_of(second.name) == first.slot == second.slot
