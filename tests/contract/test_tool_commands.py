"""The tools on real files, their commands run by the shell of this machine in a scratch folder."""

import os
import stat
import subprocess
from dataclasses import replace
from hashlib import sha256

import pytest

from policies import Limits
from runner.application.tools import TOOL_NAMES, ToolContext, make_tools
from runner.domain.task import VerifySpec
from sandbox import CappedOutput, Command, CommandResult, Ending

TOOLS = make_tools(TOOL_NAMES)


def capped(data: bytes, keep: int) -> CappedOutput:
    digest = sha256(data).hexdigest()
    if len(data) <= keep:
        return CappedOutput(head=data, total_bytes=len(data), sha256=digest)
    head, tail = data[: keep // 2], data[-(keep // 2) :]
    return CappedOutput(head=head, tail=tail, total_bytes=len(data), sha256=digest)


class FolderSandbox:
    """Runs commands in a folder of this machine; remembers them."""

    sandbox_id = "folder"

    def __init__(self, folder) -> None:
        self.folder = folder
        self.commands: list[Command] = []

    def run(self, command, *, stop=None):
        self.commands.append(command)
        environment = {"PATH": os.environ["PATH"], **dict(command.environment)}
        try:
            ran = subprocess.run(
                command.argv,
                cwd=self.folder,
                env=environment,
                input=command.stdin,
                capture_output=True,
                check=False,
                timeout=command.timeout_seconds,
            )
        except subprocess.TimeoutExpired:
            return CommandResult(ending=Ending.TIMED_OUT, exit_code=None)
        return CommandResult(
            ending=Ending.EXITED,
            exit_code=ran.returncode,
            stdout=capped(ran.stdout, command.output_bytes),
            stderr=capped(ran.stderr, command.output_bytes),
            wall_seconds=0.25,
        )

    def take_snapshot(self):
        raise NotImplementedError

    def take_start(self):
        raise NotImplementedError

    def restore(self, snapshot):
        raise NotImplementedError


@pytest.fixture
def context(tmp_path):
    return ToolContext(sandbox=FolderSandbox(tmp_path), limits=Limits())


def call(name, context, **arguments):
    tool = TOOLS[name]
    return tool.run(tool.arguments.model_validate(arguments), context)


def stdout_of(output) -> bytes:
    return b"".join(one.stdout.head for one in output.results)


NAMES = [
    "plain.txt",
    "-n",
    "--help",
    "a b'c\"$(id);.txt",
    "new\nline",
    "ünï/cödé.txt",
    "deep/er/x",
]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_can_be_written_read_edited_and_found(name, context, tmp_path):
    written = call("write_file", context, path=name, content="one\ntwo\n")
    read = call("read_file", context, path=name)
    edited = call("edit_file", context, path=name, old="two", new="three")
    found = call("search", context, pattern="thr.e$", path=name)

    assert [one.ok for one in (written, read, edited, found)] == [True] * 4
    assert stdout_of(read) == b"one\ntwo\n"
    assert (tmp_path / name).read_bytes() == b"one\nthree\n"
    assert b":2:three" in stdout_of(found)
    assert list(tmp_path.rglob(".forkyard*")) == []


def test_reading_takes_a_part_by_lines(context, tmp_path):
    (tmp_path / "ten").write_text("".join(f"{line}\n" for line in range(1, 11)))

    part = call("read_file", context, path="ten", offset=4, limit=2)
    rest = call("read_file", context, path="ten", offset=9)

    assert stdout_of(part) == b"4\n5\n"
    assert part.text == "ten, lines 4 to 5:"
    assert stdout_of(rest) == b"9\n10\n"


def test_what_cannot_be_read_is_told_apart(context, tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")

    outputs = [call("read_file", context, path=name) for name in ("folder", "pipe", "absent")]

    assert [one.ok for one in outputs] == [False] * 3
    assert [one.results[0].stderr.head for one in outputs] == [
        b"it is a directory\n",
        b"it is not a regular file\n",
        b"there is no such file\n",
    ]


def test_writing_keeps_the_mode_of_a_file_and_obeys_the_umask_for_a_new_one(context, tmp_path):
    script = tmp_path / "run.sh"
    script.write_text("old")
    script.chmod(0o755)

    call("write_file", context, path="run.sh", content="new")
    call("write_file", context, path="fresh", content="")

    assert stat.S_IMODE(script.stat().st_mode) == 0o755
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE((tmp_path / "fresh").stat().st_mode) == 0o666 & ~umask


def test_a_link_stays_a_link_and_its_target_is_written(context, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "target\n").write_text("old")
    (tmp_path / "link").symlink_to("real/target\n")

    written = call("write_file", context, path="link", content="new")

    assert written.ok
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "target\n").read_text() == "new"


def test_a_directory_or_a_file_in_the_way_is_refused_and_nothing_changes(context, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("kept")

    outputs = [
        call("write_file", context, path="folder", content="x"),
        call("write_file", context, path="file/below", content="x"),
    ]

    assert [one.ok for one in outputs] == [False, False]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["file", "folder"]
    assert (tmp_path / "file").read_text() == "kept"


def test_a_write_that_is_killed_leaves_the_old_bytes_and_no_part(context, tmp_path):
    (tmp_path / "file").write_text("old")

    class Killed(FolderSandbox):
        def run(self, command, *, stop=None):
            result = super().run(command)
            if len(self.commands) > 1:
                return result
            part = command.argv[5]
            (self.folder / part).write_text("half")
            (self.folder / "file").write_text("old")
            return replace(result, ending=Ending.TIMED_OUT, exit_code=None)

    output = call(
        "write_file", replace(context, sandbox=Killed(tmp_path)), path="file", content="new"
    )

    assert output.reason == "timed_out"
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_an_edit_leaves_every_other_byte(context, tmp_path):
    before = b"\xff\xfe a\r\nlast = 1\r\nkeep\x00\r\n\xe2\x80"
    (tmp_path / "odd").write_bytes(before)

    edited = call("edit_file", context, path="odd", old="a\nlast = 1\n", new="a\nlast = 2\n")

    assert edited.ok
    assert edited.text == "odd: replaced 1 occurrence, at line 1"
    assert (tmp_path / "odd").read_bytes() == before.replace(b"1", b"2")


def test_an_edit_does_not_show_the_file_but_counts_its_time(context, tmp_path):
    (tmp_path / "file").write_text("secret = 1\n")

    edited = call("edit_file", context, path="file", old="1", new="2")

    assert stdout_of(edited) == b""
    assert sum(one.wall_seconds for one in edited.results) == 0.5


@pytest.mark.parametrize(
    ("old", "reason", "words"),
    [
        ("absent", "no_match", "occurs 0 times"),
        ("aa", "ambiguous_match", "occurs 3 times in it, at lines 1, 1, 2"),
        ("same", "no_change", "nothing would change"),
    ],
)
def test_an_edit_that_is_not_exact_is_refused_with_the_count(
    old, reason, words, context, tmp_path
):
    (tmp_path / "file").write_text("aaa\naa\nsame\n")

    edited = call("edit_file", context, path="file", old=old, new="same")

    assert (edited.ok, edited.reason) == (False, reason)
    assert words in edited.text
    assert (tmp_path / "file").read_text() == "aaa\naa\nsame\n"


def test_replace_all_replaces_all(context, tmp_path):
    (tmp_path / "file").write_text("x = y\nx = z\n")

    edited = call("edit_file", context, path="file", old="x", new="xx", replace_all=True)

    assert edited.ok
    assert (tmp_path / "file").read_text() == "xx = y\nxx = z\n"


def test_a_file_that_cannot_be_read_whole_is_not_edited(context, tmp_path):
    (tmp_path / "large").write_bytes(b"a" * (1 << 20) + b"needle")
    small = replace(context, limits=Limits(evidence_mib=1))

    edited = call("edit_file", small, path="large", old="needle", new="pin")

    assert edited.reason == "too_large"
    assert (tmp_path / "large").read_bytes().endswith(b"needle")


def test_listing_is_ordered_capped_in_depth_and_leaves_git_out(context, tmp_path):
    for name in ("b/c/d/e", ".git/hooks", "a\nb"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "b" / "-file").touch()
    os.mkfifo(tmp_path / "pipe")

    listed = call("list_files", context, depth=2)

    assert stdout_of(listed) == b"a\\nb/\nb/\nb/-file\nb/c/\npipe\n"
    assert listed.text == "., 2 levels deep, without .git: 5 names"


def test_listing_what_is_no_directory_fails(context, tmp_path):
    (tmp_path / "file").touch()

    assert not call("list_files", context, path="file").ok


def test_search_without_a_match_is_no_failure_and_a_bad_pattern_is_one(context, tmp_path):
    (tmp_path / "file").write_text("text\n")

    nothing = call("search", context, pattern="absent")
    bad = call("search", context, pattern="(")

    assert (nothing.ok, nothing.text) == (True, "no line in . matches")
    assert (bad.ok, bad.reason) == (False, "nonzero_exit")


def test_search_takes_a_pattern_that_looks_like_an_option(context, tmp_path):
    (tmp_path / "file").write_text("--include=x\nTEXT\n")

    option = call("search", context, pattern="--include=x")
    anycase = call("search", context, pattern="text", ignore_case=True)

    assert stdout_of(option) == b"./file:1:--include=x\n"
    assert stdout_of(anycase) == b"./file:2:TEXT\n"


def test_shell_runs_bash_and_reports_a_failing_command_as_a_result(context):
    output = call("shell", context, command="[[ a == a ]] && exit 3")

    assert (output.ok, output.reason) == (False, "nonzero_exit")
    assert output.results[0].exit_code == 3


def test_the_smaller_time_limit_applies_and_is_named(context):
    own = call("shell", context, command="exec sleep 30", timeout_seconds=1)
    policy = call("shell", replace(context, timeout_seconds=1), command="exec sleep 30")

    assert own.reason == policy.reason == "timed_out"
    assert (own.timeout_seconds, own.timeout_limit) == (1, "the call's own timeout_seconds")
    assert (policy.timeout_seconds, policy.timeout_limit) == (1, "call_seconds")


def test_verification_runs_with_its_environment_and_without_one_says_so(context):
    verify = VerifySpec(argv=("/bin/sh", "-c", 'echo "$MODE"'), env={"MODE": "strict"})

    ran = call("run_verify", replace(context, verify=verify))
    absent = call("run_verify", context)

    assert stdout_of(ran) == b"strict\n"
    assert (absent.ok, absent.reason) == (False, "no_verification")


def test_our_own_scripts_ignore_the_agents_path(context, tmp_path):
    (tmp_path / "file").write_text("x")

    call("read_file", context, path="file")
    call("search", context, pattern="x")

    assert {dict(one.environment)["PATH"] for one in context.sandbox.commands} == {"/usr/bin:/bin"}


def test_finish_runs_nothing(context):
    assert call("finish", context, summary="done").ok
    assert context.sandbox.commands == []
