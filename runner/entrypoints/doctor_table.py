"""The text of `doctor`: facts, then one line for each guard, then what follows from them."""

from __future__ import annotations

from collections.abc import Iterator

from runner.application.examine_host import Examination, GuardFinding
from runner.domain.visible import show_line
from sandbox import EngineFacts, HostFacts, Standing

_WORDS = {
    Standing.PROVED: "proved",
    Standing.FAILED: "FAILED",
    Standing.NOT_POSSIBLE: "not possible here",
    Standing.NOT_ASKED: "not asked for",
}
_FACT_CHARACTERS = 300


def show_examination(found: Examination) -> Iterator[str]:
    """Yield the lines for a person."""
    yield from _show_rows(_list_facts(found))
    yield ""
    yield from _show_guards(found.guards)
    yield ""
    for lack in found.lacks:
        yield f"missing: {lack.what}: {show_line(lack.reason, _FACT_CHARACTERS)}"
    for text in found.untested:
        yield f"untested: {show_line(text)}"
    for text in found.root_needs:
        yield f"needs root: {show_line(text)}"
    yield _sum_up(found)


def _show_rows(rows: Iterator[tuple[str, str]]) -> Iterator[str]:
    for name, text in rows:
        yield f"{name:<10} {show_line(text, _FACT_CHARACTERS)}".rstrip()


def _list_facts(found: Examination) -> Iterator[tuple[str, str]]:
    if found.engine is None:
        yield "engine", "none answers"
    else:
        yield from _list_engine_facts(found.engine)
    yield from _list_host_facts(found.host)
    built = (f"{one.name} {'built' if one.image_id else 'NOT BUILT'}" for one in found.images)
    yield "images", ", ".join(built) or "not known"
    limits = found.limits
    sizes = f"{limits.memory_mib} MiB memory, {limits.disk_mib} MiB disk, {limits.pids} processes"
    yield "policy", f"{found.policy}; probe containers get {sizes}"


def _list_engine_facts(engine: EngineFacts) -> Iterator[tuple[str, str]]:
    groups = f"control groups {engine.cgroup_version} ({engine.cgroup_driver})"
    below = f" on {engine.backing_filesystem}" if engine.backing_filesystem else ""
    storage = f"{engine.storage_driver}{below}"
    yield "engine", f"{engine.version}, API {engine.api_version}, {groups}, {storage}"
    parts = (
        ("runc", engine.runc_version),
        ("containerd", engine.containerd_version),
        ("init", engine.init_version),
    )
    versions = [f"{name} {version or 'unknown'}" for name, version in parts]
    yield "", ", ".join([*versions, *engine.security_options])
    size = f"{engine.cpus} CPUs, {engine.memory_mib} MiB"
    yield "", f"kernel {engine.kernel}, {engine.architecture}, {size}"


def _list_host_facts(host: HostFacts) -> Iterator[tuple[str, str]]:
    yield "git", host.git_version or "NOT INSTALLED"
    kind = host.disk_kind or "unknown file system"
    yield "disk", f"{host.disk_free_mib} of {host.disk_total_mib} MiB free, {kind}"
    yield "memory", f"{host.memory_free_mib} of {host.memory_total_mib} MiB free"
    yield "runner", "root" if host.is_root else "not root"
    for feature in host.features:
        mark = "" if feature.present else "NO: "
        yield "host", f"{feature.name}: {mark}{feature.fact}"


def _show_guards(guards: tuple[GuardFinding, ...]) -> Iterator[str]:
    rows = [("guard", "standing", "fact")]
    rows += [
        (one.guard, _WORDS[one.standing], show_line(one.fact, _FACT_CHARACTERS)) for one in guards
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    for guard, standing, fact in rows:
        yield f"{guard:<{widths[0]}}  {standing:<{widths[1]}}  {fact}".rstrip()


def _sum_up(found: Examination) -> str:
    counts = [
        f"{count} {word}"
        for standing, word in _WORDS.items()
        if (count := sum(one.standing is standing for one in found.guards))
    ]
    return f"{len(found.guards)} guards: {', '.join(counts)}"
