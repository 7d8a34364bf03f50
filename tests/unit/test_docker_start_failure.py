from dataclasses import replace

import pytest

from sandbox import CappedOutput, Command, Ending
from sandbox.docker.exec import ExecEnded
from sandbox.docker.start_failure import correct_start_failure

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
    corrected = correct_start_failure(
        ended(126, b"OCI runtime exec failed: exec failed: " + said), COMMAND
    )

    assert corrected.exit_code == exit_code
    assert text in corrected.stderr.head.decode()
    assert (corrected.stdout.head, corrected.stdout.total_bytes) == (b"", 0)


def test_a_command_that_we_killed_while_it_started_keeps_our_cause_and_says_nothing():
    said = b"OCI runtime exec failed: exec failed: read init-p: connection reset by peer"
    killed = replace(ended(126, said), cause=Ending.STOPPED)

    corrected = correct_start_failure(killed, COMMAND)

    assert corrected.cause is Ending.STOPPED
    assert (corrected.stdout.head, corrected.stderr.head) == (b"", b"")


def test_a_command_that_ran_and_exited_126_is_left_alone():
    ran = ended(126, b"its own words")
    failed = ended(1, b"OCI runtime exec failed: really")

    assert correct_start_failure(ran, COMMAND) is ran
    assert correct_start_failure(failed, COMMAND) is failed
