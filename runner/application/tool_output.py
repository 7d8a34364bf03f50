"""What the model is shown of a call, and what is kept as evidence when that is not all.

Shown is at most `shown_kib`: everything, or of each stream the first and the last part with a line
between that counts the missing bytes and gives the digest of the whole. Counts are of bytes that
the command wrote, whatever decoding made of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from policies import Limits, digest_bytes
from runner.application.cut_output import cut_bytes, cut_text, share_room
from runner.application.tools import ToolOutput
from runner.domain.text import clean_text, decode_output
from sandbox import CappedOutput, CommandResult, Ending

KIB = 1024
MIB = 1024 * 1024

HEADING_BYTES = 128
"""Room for the heading of one stream in evidence: its name, a count, a digest."""

DETAIL_CHARACTERS = 500
"""Most of the facts behind an ending that is shown."""


_ENDINGS = {
    Ending.OUT_OF_MEMORY: "out of memory (policy limit memory_mib {limits.memory_mib})",
    Ending.RESOURCE_LIMIT: "too many processes (policy limit pids {limits.pids})",
    Ending.DISK_FULL: "disk full (policy limit disk_mib {limits.disk_mib})",
    Ending.KILLED: "killed by a signal that was not ours",
    Ending.STOPPED: "stopped before its end, since the run was",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Presented:
    """One call's output for the rollout."""

    text: str
    evidence: bytes | None
    """The kept output; None when everything was shown."""
    total_bytes: int
    """Bytes that the call's commands wrote, also those that were not kept."""


@dataclass(frozen=True, slots=True)
class _Stream:
    """One non-empty output stream under its name."""

    name: str
    """Empty where the words before already say what it is."""
    output: CappedOutput


def present_output(output: ToolOutput, *, limits: Limits) -> Presented:
    """Return what the model is shown, at most `shown_kib`, and what is kept beside it."""
    words = _tell(output, limits)
    streams = _list_streams(output)
    room = limits.shown_kib * KIB
    total = sum(one.output.total_bytes for one in streams)
    whole = _show_whole(words, streams, room)
    if whole is not None:
        return Presented(text=whole, evidence=None, total_bytes=total)
    return Presented(
        text=_show_within(words, streams, room),
        evidence=_keep_within(streams, limits.evidence_mib * MIB),
        total_bytes=total,
    )


def _show_whole(words: str, streams: list[_Stream], room: int) -> str | None:
    """Return everything, or None where that does not fit; decoding never makes it shorter."""
    if sum(one.output.total_bytes for one in streams) > room:
        return None
    if any(one.output.missing_bytes for one in streams):
        return None
    text = _join(words, [(one.name, _decode_whole(one.output)) for one in streams])
    return text if len(text.encode()) <= room else None


def _speaks_for_itself(output: ToolOutput) -> bool:
    """Tell whether the tool's own words replace exit code and stream names."""
    return bool(output.text) and output.ok


def _list_streams(output: ToolOutput) -> list[_Stream]:
    streams: list[_Stream] = []
    for result in output.results:
        alone = _speaks_for_itself(output) and not result.stderr.total_bytes
        if result.stdout.total_bytes:
            streams.append(_Stream("" if alone else "stdout", result.stdout))
        if result.stderr.total_bytes:
            streams.append(_Stream("stderr", result.stderr))
    return streams


def _tell(output: ToolOutput, limits: Limits) -> str:
    words = [clean_text(output.text).text] if output.text else []
    if output.results and not _speaks_for_itself(output):
        words.append(_tell_ending(output.results[-1], output, limits))
    return "\n".join(words)


def _tell_ending(result: CommandResult, output: ToolOutput, limits: Limits) -> str:
    told = _name_ending(result, output, limits)
    if result.detail and result.ending is not Ending.EXITED:
        told += f": {clean_text(result.detail).text[:DETAIL_CHARACTERS]}"
    if result.killed_processes and result.ending is Ending.EXITED:
        told += f"; {result.killed_processes} processes still running then were killed"
    return told


def _name_ending(result: CommandResult, output: ToolOutput, limits: Limits) -> str:
    match result.ending:
        case Ending.EXITED:
            return f"exit code {result.exit_code}"
        case Ending.TIMED_OUT:
            seconds = round(output.timeout_seconds)
            return f"timed out after {seconds} s ({_name_limit(output.timeout_limit)})"
        case Ending.DISK_FULL if result.limit == "inodes":
            return f"too many files (policy limit inodes {limits.inodes})"
        case _:
            return _ENDINGS[result.ending].format(limits=limits)


def _name_limit(name: str) -> str:
    if name == "call_seconds":
        return "policy limit call_seconds"
    return f"budget {name}" if name in {"wall_seconds", "tool_seconds"} else name


def _decode_whole(output: CappedOutput) -> str:
    return decode_output(output.head + output.tail).text


def _join(words: str, bodies: list[tuple[str, str]]) -> str:
    pieces = [words] if words else []
    for name, body in bodies:
        pieces.append(f"{name}:\n{body}" if name else body)
    ended = [one if one.endswith("\n") else one + "\n" for one in pieces[:-1]]
    return "".join([*ended, *pieces[-1:]])


def _show_within(words: str, streams: list[_Stream], room: int) -> str:
    words = cut_text(_whole(words.encode()), room // 4)
    fixed = len(words.encode()) + 1 + sum(len(one.name) + 3 for one in streams)
    wanted = [_wanted_bytes(one.output, room) for one in streams]
    shares = share_room(room - fixed, wanted)
    bodies = [
        (one.name, cut_text(one.output, share)) for one, share in zip(streams, shares, strict=True)
    ]
    return _join(words, bodies)


def _wanted_bytes(output: CappedOutput, room: int) -> int:
    if output.total_bytes > room:
        return room
    return room if output.missing_bytes else len(_decode_whole(output).encode())


def _keep_within(streams: list[_Stream], room: int) -> bytes | None:
    """Return the output as it is where one stream is all there is; else each under a heading."""
    if not streams or not room:
        return None
    first = streams[0].output
    if len(streams) == 1 and not first.missing_bytes and first.total_bytes <= room:
        return first.head + first.tail
    wanted = [len(one.output.head) + len(one.output.tail) + HEADING_BYTES * 2 for one in streams]
    shares = share_room(room - HEADING_BYTES * len(streams), wanted)
    return b"".join(
        _heading(one) + cut_bytes(one.output, share) + b"\n"
        for one, share in zip(streams, shares, strict=True)
    )


def _heading(stream: _Stream) -> bytes:
    output = stream.output
    name = stream.name or "stdout"
    return f"--- {name}: {output.total_bytes} bytes, sha256 {output.sha256}\n".encode()


def _whole(data: bytes) -> CappedOutput:
    digest = digest_bytes(data).removeprefix("sha256:")
    return CappedOutput(head=data, total_bytes=len(data), sha256=digest)
