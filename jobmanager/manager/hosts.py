"""Hosts: starts them, notices their loss and replaces them, drains them. Pure.

One host at a time holds a slot. A new host with a new name replaces a lost one. A drained host has
no successor once its vertices have moved.

Invariants: (1) the job manager refuses a host that does not hold its slot; (2) every slot that is
not drained has a host, or one is starting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobmanager.manager import memory
from jobmanager.manager.instances import lose_slot, order, publish, remove, restart
from jobmanager.state.job_state import US_PER_S
from jobmanager.state.messages import Feed, HostLost, JobResumed, Refuse, StartHost
from jobmanager.state.placement import first_slots
from jobmanager.state.records import HostState, count_recent
from rvertex.messages import StopHost
from rvertex.user_code.unpickle import UNLOADABLE

_GIB = 1 << 30
#: Prefix of the reason for a loss that would happen again on a new host.
_STUCK = "stuck: "

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobmanager.state.job_state import JobState
    from jobmanager.state.messages import JobStarted
    from rvertex.messages import HostBusy, HostReady


def begin(job: JobState, notice: JobStarted | JobResumed) -> None:
    """Start a host per slot, and all vertices that may still be needed.

    No former process is left.
    """
    assert notice.hosts >= 1, notice.hosts
    job.state, job.error = "running", ""
    job.now_us = job.advanced_us = notice.now_us
    job.retain_us = notice.retain_us
    if isinstance(notice, JobResumed):
        job.take_over()
    job.hosts = [HostState(slot, 0, job.takeovers) for slot in range(notice.hosts)]
    for k, vertex in enumerate(job.vertices.values()):
        vertex.instances.clear()
        vertex.joins.clear()
        vertex.due_us = None
        replicas = vertex.shape.recovery.replicas
        if replicas > notice.hosts:
            job.end("failed", _too_few_hosts(vertex.shape.id, replicas, notice.hosts))
            return
        vertex.homes = first_slots(k, replicas, notice.hosts)
    if all(v.is_finished for v in job.vertices.values()):
        job.end("finished", "")  # the output of the vertices was checked before
        return
    for host in job.hosts:
        host.heard_us = job.now_us
        job.out.append(StartHost(host.name))
    restart(job, [v for v in job.vertices if not job.is_retired(v)])


def _too_few_hosts(vertex: str, replicas: int, hosts: int) -> str:
    return (
        f"vertex {vertex} needs {replicas} replicas on different hosts, but there are "
        f"only {hosts} hosts; start more hosts or ask for fewer replicas"
    )


def ready(job: JobState, notice: HostReady) -> None:
    """Handle a host that is ready. Reject a host that was not requested."""
    host = job.current(notice.host)
    if host is None or host.state != "starting" or notice.attempt != 0:
        job.out.append(Refuse(notice.host, notice.attempt))
        return
    host.state, host.heard_us = "ready", job.now_us
    host.address, host.machine, host.pid = notice.address, notice.machine, notice.pid
    for vertex, instance in job.instances():
        if instance.slot == host.slot and instance.state == "waiting":
            order(job, vertex, instance)


def lost(job: JobState, name: str, reason: str) -> None:
    """Handle the loss of a host: a new host takes its slot, unless it was being drained."""
    host = job.current(name)
    if host is None:
        return
    host.losses.append(job.now_us)
    if host.busy and not reason.startswith(_STUCK):
        reason = f"{reason}; {host.busy}"
    is_fatal = reason.startswith((_STUCK, UNLOADABLE))
    lack = "" if is_fatal else memory.lack_of(job, host, reason)
    is_sure, reason = bool(lack) and memory.is_sure(host, reason), lack or reason
    job.trouble = f"host {name}: {reason}"
    if reason.startswith(_STUCK):  # a new host would get the same input
        job.end("failed", reason.removeprefix(_STUCK))
        return
    if reason.startswith(UNLOADABLE):  # the next host could not load it either
        job.end("failed", reason.removeprefix(UNLOADABLE))
        return
    window_s = job.config.restart_window_s
    losses = count_recent(host.losses, job.now_us, window_s * US_PER_S)
    if is_sure and losses >= memory.LOSSES_MAX:
        job.end("failed", f"host {name} was lost {losses} times without progress: {reason}")
        return
    if losses > job.config.host_restarts_max:
        what = f"host of slot {host.slot} was lost {losses} times within {window_s:g} s: {reason}"
        job.end("failed", what)
        return
    job.out.append(Refuse(name, 0))  # if the host is still alive, it must shut down
    if host.is_draining:
        host.state = "drained"
    else:
        following = host.following()
        following.heard_us = job.now_us
        job.hosts[host.slot] = following
        job.out.append(StartHost(following.name))
    lose_slot(job, host.slot)


def busy(job: JobState, notice: HostBusy) -> None:
    """Handle a report of a long poll. The host counts as alive until the poll exceeds its limit."""
    host = job.current(notice.host)
    if host is None or host.state != "ready":
        return
    host.heard_us = job.now_us
    instance = job.instance(notice.vertex, notice.epoch)
    if instance is not None:
        instance.timing = notice.timing
    host.busy = (
        f"vertex {notice.vertex} on {host.name} has been in one step for "
        f"{notice.lasted_s} s, in {notice.doing}; its process has used up to "
        f"{notice.memory_bytes / _GIB:.1f} GiB of memory"
    )
    limit_s = job.config.step_wait_s
    if notice.lasted_s >= limit_s:
        job.out.append(
            Feed(HostLost(host.name, f"{_STUCK}{host.busy} (step_wait_s = {limit_s:g} s)"))
        )


def drain_requested(job: JobState, name: str) -> None:
    """Start to drain a host: its instances move to other hosts, if these have free slots."""
    host = job.current(name)
    if host is not None and not drain_refusals(job)(host):
        host.is_draining = True


def drain_refusals(job: JobState) -> Callable[[HostState], str]:
    """Return a function that returns why a host cannot be drained; empty if it can."""
    others = sum(h.is_open for h in job.hosts) - 1
    unfinished = (v.shape for v in job.vertices.values() if not v.is_finished)
    widest = max(unfinished, key=lambda shape: shape.recovery.replicas, default=None)

    def why_not(host: HostState) -> str:
        if not host.is_open:
            return f"it is {host.condition}"
        if others == 0:
            return "there is no other host"
        if widest is not None and (replicas := widest.recovery.replicas) > others:
            return f"{widest.id} has {replicas} replicas, and the other hosts are only {others}"
        return ""

    return why_not


def release_drained(job: JobState) -> None:
    """Shut down drained hosts whose output no reader needs any more."""
    for host in job.hosts:
        if not host.is_draining or host.state != "ready":
            continue
        here = [(v, i) for v, i in job.instances() if i.slot == host.slot]
        if all(job.is_retired(v.shape.id) for v, _ in here):
            host.state = "drained"
            job.tell(host.name, StopHost(host.name, flush=True))
            for vertex, instance in here:
                remove(vertex, instance)
                publish(job, vertex)


def check_limits(job: JobState) -> None:
    """Fail the job if a host does not start in time, and treat silent hosts as lost."""
    for host in job.hosts:
        silent_s = (job.now_us - host.heard_us) / US_PER_S
        if host.state == "starting" and silent_s > job.config.host_start_wait_s:
            limit = f"host_start_wait_s = {job.config.host_start_wait_s:g} s"
            what = f"host {host.name} did not start within {limit}; does Spark have a free task"
            job.end("failed", f"{what} slot for every host?")
            return
        if host.state == "ready" and silent_s > job.config.host_silence_s:
            silence = HostLost(host.name, f"silent for {silent_s:.0f} s")
            job.out.append(Feed(silence))
