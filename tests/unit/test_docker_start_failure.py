import pytest

from sandbox import CappedOutput, Command
from sandbox.docker.exec import ExecEnded
from sandbox.docker.start_failure import find_start_failure

COMMAND = Command(argv=("nosuch",))


def ended(exit_code, said):
    return ExecEnded(
        cause=None,
        exit_code=exit_code,
        stdout=CappedOutput(head=said, total_bytes=len(said)),
        stderr=CappedOutput(),
        killed_processes=0,
        wall_seconds=0.1,
    )


@pytest.mark.parametrize(
    ("said", "exit_code", "text"),
    [
        (b'exec: "nosuch": executable file not found in $PATH', 127, "'nosuch': not found"),
        (b'exec: "/w/x": permission denied', 126, "'nosuch': cannot be executed"),
        (b'chdir to cwd ("/workspace/no"): no such file or directory', 127, "cannot change to"),
    ],
)
def test_a_command_that_did_not_start_is_told_in_a_shells_words(said, exit_code, text):
    code, output = find_start_failure(
        ended(126, b"OCI runtime exec failed: exec failed: " + said), COMMAND
    )

    assert code == exit_code
    assert text in output.head.decode()
    assert b"OCI" not in output.head


def test_a_command_that_ran_and_exited_126_is_left_alone():
    assert find_start_failure(ended(126, b"its own words"), COMMAND) is None
    assert find_start_failure(ended(1, b"OCI runtime exec failed: really"), COMMAND) is None
