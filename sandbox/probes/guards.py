"""The guards of a sandbox, each with the probe that tries to break it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from policies import DiskLimit, Limits, Mount, Network, NetworkMode
from sandbox.command import CommandResult, Ending
from sandbox.probes.probe import (
    Attempt,
    Finding,
    NoAnswerError,
    Probe,
    Results,
    Standing,
    failed,
    judge_refused,
    make_command,
    not_asked,
    proved,
    read_attempts,
)

PROBE_LIMITS = Limits(
    memory_mib=128, cpu_thousandths=1000, pids=64, disk_mib=64, inodes=4000, open_files=256
)
"""What a probe container gets at most: a limit is hit sooner, and a broken one does less harm."""

_NO_WAY = ("ENETUNREACH", "EADDRNOTAVAIL", "EAFNOSUPPORT", "EPERM")
_NO_NAME = ("EAI_AGAIN", "EAI_NONAME", "EAI_FAIL")
_TIME_SECONDS = 2.0  # long enough for a busy host to start what shall outlive it
_SLACK_SECONDS = 5.0  # a busy host is slow to kill; a guard that does not hold takes minutes
_CPU_SECONDS = 1.0
_CPU_SLACK = 1.5  # the kernel counts in periods of 100 ms
_OUTPUT_MIB = 8
_KEPT_BYTES = 64 * 1024
_BESIDE_MIB = 64  # /run, /dev/shm and volumes that the image declares, all in memory
_DISK_SLACK_MIB = 16  # what the tables of the file system do not use
_INODE_ROUNDING = 2  # a file system makes its tables in whole blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardSettings:
    """What the probe container was made with."""

    limits: Limits
    disk: DiskLimit
    network: Network
    mounts: tuple[Mount, ...] = ()


def make_probes(settings: GuardSettings) -> tuple[Probe, ...]:
    """Return a probe for each guard, in the order in which they are tried."""
    return (*_make_surface(settings), *_make_limits(settings), *_make_disk(settings))


def _make_surface(settings: GuardSettings) -> Iterator[Probe]:
    yield Probe(
        guard="read-only root",
        tries="make folders in the image and in the base repository",
        commands=(make_command("root"),),
        judge=judge_refused("EROFS", "ro"),
    )
    yield Probe(
        guard="kernel settings",
        tries="write kernel settings, read its memory, make a device and a control group",
        commands=(make_command("kernel"),),
        judge=judge_refused("EROFS", "EACCES", "EPERM", "ENOENT", "empty"),
    )
    yield from _make_network(settings)
    yield Probe(
        guard="control sockets",
        tries="reach sockets of engines: in folders, abstract, on ports, left open",
        commands=(make_command("sockets"),),
        judge=judge_refused("ENOENT", "ECONNREFUSED", "none"),
    )
    yield Probe(
        guard="privileges",
        tries="hold a capability, become root, run set-user-id programs",
        commands=(make_command("privileges"),),
        judge=judge_refused("none", "held", "ordinary", "EPERM", "EINVAL", "own user"),
    )
    yield Probe(
        guard="system calls",
        tries="io_uring, bpf, perf, keys, mounts, user namespaces, AF_ALG, AF_VSOCK, AF_PACKET",
        commands=(make_command("surface"),),
        judge=judge_refused("EPERM", "ENOSYS", "EAFNOSUPPORT"),
    )
    yield Probe(
        guard="other processes",
        tries="see, signal and read processes beside its own",
        commands=(make_command("processes"),),
        judge=judge_refused("none", "EPERM", "EACCES"),
    )
    yield Probe(
        guard="core dumps",
        tries="crash, after raising the limit on core dumps",
        commands=(make_command("core"),),
        judge=_judge_core,
    )


def _make_network(settings: GuardSettings) -> Iterator[Probe]:
    resolve, reach = "resolve names, find a way to a resolver", "connect to the world and the host"
    if settings.network.mode is not NetworkMode.NONE:
        because = f"the policy's network is {settings.network.mode.value}"
        yield not_asked("no names", tries=resolve, because=because)
        yield not_asked("no connections", tries=reach, because=because)
        return
    yield Probe(
        guard="no names",
        tries=resolve,
        commands=(make_command("names"),),
        judge=judge_refused(*_NO_WAY, *_NO_NAME),
    )
    yield Probe(
        guard="no connections",
        tries=reach,
        commands=(make_command("connect"),),
        judge=judge_refused(*_NO_WAY, "none"),
    )


def _make_limits(settings: GuardSettings) -> Iterator[Probe]:
    limits = settings.limits
    yield Probe(
        guard="time limit",
        tries="outlive it: forked twice, in a session of its own, deaf to signals",
        commands=(
            make_command("outlive", timeout_seconds=_TIME_SECONDS),
            make_command("survivors"),
        ),
        judge=_judge_time,
    )
    yield Probe(
        guard="memory",
        tries=f"use four times {limits.memory_mib} MiB",
        commands=(make_command("memory", limits.memory_mib),),
        judge=_judge_memory,
    )
    yield Probe(
        guard="processes",
        tries=f"start twice {limits.pids} processes",
        commands=(make_command("pids", limits.pids),),
        judge=lambda results: _judge_count(
            results[0], "EAGAIN", limits.pids, ending=Ending.RESOURCE_LIMIT
        ),
    )
    yield Probe(
        guard="open files",
        tries=f"open twice {limits.open_files} files",
        commands=(make_command("files", limits.open_files),),
        judge=lambda results: _judge_count(
            results[0], "EMFILE", limits.open_files, ending=Ending.EXITED
        ),
    )
    yield Probe(
        guard="CPU",
        tries=f"use more than {limits.cpu_thousandths / 1000:g} CPUs",
        commands=(make_command("cpu", _CPU_SECONDS),),
        judge=lambda results: _judge_cpu(results[0], limits.cpu_thousandths / 1000),
    )
    yield Probe(
        guard="output",
        tries=f"have {_OUTPUT_MIB} MiB of output kept where {_KEPT_BYTES // 1024} KiB are",
        commands=(make_command("output", _OUTPUT_MIB, output_bytes=_KEPT_BYTES),),
        judge=_judge_output,
    )


def _make_disk(settings: GuardSettings) -> Iterator[Probe]:
    limits, disk = settings.limits, settings.disk
    outside = [mount.target for mount in settings.mounts if mount.writable]
    yield Probe(
        guard="disk",
        tries=f"write twice {limits.disk_mib} MiB; find room beside the volume",
        commands=(make_command("disk", limits.disk_mib), make_command("clean", *outside)),
        judge=lambda results: _judge_disk(results, limits.disk_mib, disk=disk),
    )
    yield Probe(
        guard="inodes",
        tries=f"make three times {limits.inodes} files",
        commands=(make_command("inodes", limits.inodes), make_command("clean")),
        judge=lambda results: _judge_full(
            results[0], _INODE_ROUNDING * limits.inodes, unit="files", disk=disk
        ),
    )


def _judge_core(results: Results) -> Finding:
    try:
        attempts = read_attempts(results[0])
    except NoAnswerError as error:
        return failed(str(error))
    if Attempt("crashes go to", "a program") in attempts:
        reason = (
            "the host hands crashes to a program (kernel.core_pattern begins with |), "
            "which a limit of 0 does not stop; set it to a file name"
        )
        return Finding(Standing.NOT_POSSIBLE, reason)
    return judge_refused("a file", "none allowed", "EPERM", "no core dump")(results)


def _judge_time(results: Results) -> Finding:
    first, look = results
    if first.ending is not Ending.TIMED_OUT:
        return failed(f"the command was not timed out but {first.ending.value}")
    if first.wall_seconds > _TIME_SECONDS + _SLACK_SECONDS:
        return failed(f"it ran for {first.wall_seconds:.1f} s of {_TIME_SECONDS:g}")
    try:
        attempts = read_attempts(look)
    except NoAnswerError as error:
        return failed(str(error))
    wanted = (
        Attempt("it had lived", "yes"),
        Attempt("it still writes", "no"),
        Attempt("processes left", "none"),
    )
    broken = [f"{one.what}: {one.outcome}" for one in attempts if one not in wanted]
    if broken or len(attempts) != len(wanted):
        return failed("; ".join(broken) or "the survivor was not looked for")
    if first.killed_processes < 2:  # the main process and its survivor
        return failed(f"{first.killed_processes} processes were killed; there were 2")
    return proved(f"{first.killed_processes} killed after {first.wall_seconds:.1f} s, none left")


def _judge_memory(results: Results) -> Finding:
    result = results[0]
    if result.ending is Ending.OUT_OF_MEMORY:
        return proved(f"{result.ending.value}: {result.detail}")
    return failed(_describe(result))


def _judge_count(result: CommandResult, error: str, limit: int, *, ending: Ending) -> Finding:
    try:
        refused = _read_refusal(result)
    except NoAnswerError as no_answer:
        return failed(str(no_answer))
    if refused is None or refused[0] != error or refused[1] > limit:
        return failed(_describe(result))
    if result.ending is not ending:
        return failed(f"refused, but reported as {result.ending.value}")
    return proved(f"{error} after {refused[1]}, limit {limit}")


def _judge_cpu(result: CommandResult, cpus: float) -> Finding:
    used = f"{result.cpu_seconds:.1f} CPU seconds in {result.wall_seconds:.1f} s"
    if not result.ok:
        return failed(_describe(result))
    if not 0 < result.cpu_seconds <= _CPU_SLACK * cpus * result.wall_seconds:
        return failed(f"{used}; limit {cpus:g} CPUs")
    return proved(f"{used}; limit {cpus:g} CPUs")


def _judge_output(results: Results) -> Finding:
    kept = len(results[0].stdout.head) + len(results[0].stdout.tail)
    told = results[0].stdout.total_bytes
    fact = f"{kept} bytes kept of {told}"
    whole = results[0].ok and told > _OUTPUT_MIB * 1024 * 1024
    return proved(fact) if whole and kept <= _KEPT_BYTES else failed(fact)


def _judge_disk(results: Results, limit_mib: int, *, disk: DiskLimit) -> Finding:
    held = _judge_full(results[0], limit_mib + _DISK_SLACK_MIB, unit="MiB", disk=disk)
    if held.standing is not Standing.PROVED:
        return held
    try:
        beside = next(iter(read_attempts(results[1])))
        room_mib = int(beside.outcome)
    except (NoAnswerError, StopIteration, ValueError) as error:
        return failed(f"the room beside the volume is not known: {error}")
    if room_mib > _BESIDE_MIB and disk is DiskLimit.HARD:
        return failed(f"{room_mib} MiB can be written beside the volume")
    return proved(f"{held.fact}; {room_mib} MiB beside it, in memory")


def _judge_full(result: CommandResult, limit: int, *, unit: str, disk: DiskLimit) -> Finding:
    try:
        refused = _read_refusal(result)
    except NoAnswerError as error:
        # where use is sampled, the command may be ended in the middle of its answer
        if disk is DiskLimit.HARD or result.ending is not Ending.DISK_FULL:
            return failed(str(error))
        refused = None
    if result.ending is not Ending.DISK_FULL:
        return failed(f"reported as {_describe(result)}")
    if disk is DiskLimit.WATCHED:
        return proved("disk_full, but sampled: seen when the command had ended")
    if refused is None or refused[0] != "ENOSPC" or refused[1] > limit:
        return failed(_describe(result))
    return proved(f"ENOSPC after {refused[1]} {unit}")


def _read_refusal(result: CommandResult) -> tuple[str, int] | None:
    """Return the error that ended an attempt, and after how many; None = it was not refused."""
    for one in read_attempts(result):
        error, _, count = one.outcome.partition(" after ")
        if one.what == "refused" and count.isdecimal():
            return error, int(count)
    return None


def _describe(result: CommandResult) -> str:
    said = result.stdout.head.decode("utf-8", "replace").splitlines()[:3]
    return f"{result.ending.value}; {'; '.join(said)}; {result.detail}".replace("\t", ": ")
