import pytest

from sandbox import Command, CommandRefusedError
from sandbox.vetting import vet_command


@pytest.mark.parametrize(
    "command",
    [
        Command(argv=()),
        Command(argv=("",)),
        Command(argv=("echo", "a\0b")),
        Command(argv=("echo", "\udcff")),
        Command(argv=("echo", "x" * 131_072)),
        Command(argv=("echo", *["x"] * 100_000)),
        Command(argv=("echo", *["x" * 100_000] * 12)),
        Command(argv=("true",), environment=(("A\0", "1"),)),
        Command(argv=("true",), environment=(("A", "\0"),)),
        Command(argv=("true",), environment=(("A=B", "1"),)),
        Command(argv=("true",), environment=(("", "1"),)),
        Command(argv=("true",), environment=(("LD_PRELOAD", "/workspace/x.so"),)),
        Command(argv=("true",), environment=(("BASH_ENV", "/workspace/x"),)),
        Command(argv=("true",), cwd="workspace"),
        Command(argv=("true",), cwd="/proc/self/fd/7"),
        Command(argv=("true",), cwd="/workspace/../proc"),
        Command(argv=("true",), cwd="/workspace/"),
        Command(argv=("true",), cwd="/workspace//a"),
        Command(argv=("true",), cwd="/workspaces"),
    ],
)
def test_a_malformed_command_is_refused_before_anything_is_started(command):
    with pytest.raises(CommandRefusedError):
        vet_command(command)


@pytest.mark.parametrize("cwd", ["/", "/workspace", "/workspace/a b/c", "/home/agent", "/tmp/x"])
def test_plain_directories_of_the_task_are_accepted(cwd):
    vet_command(Command(argv=("true",), cwd=cwd, environment=(("PYTHONPATH", "/workspace"),)))
