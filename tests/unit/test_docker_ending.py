import pytest

from sandbox import Ending
from sandbox.docker.ending import EndingFacts, judge_ending


@pytest.mark.parametrize(
    ("facts", "ending", "exit_code"),
    [
        (EndingFacts(), Ending.EXITED, 0),
        (EndingFacts(exit_code=1), Ending.EXITED, 1),
        (EndingFacts(exit_code=255), Ending.EXITED, 255),
        (EndingFacts(cause=Ending.TIMED_OUT, exit_code=137), Ending.TIMED_OUT, None),
        (EndingFacts(cause=Ending.STOPPED, exit_code=0), Ending.STOPPED, None),
        (EndingFacts(cause=Ending.TIMED_OUT, exit_code=137, oom_kills=1), Ending.TIMED_OUT, None),
        (EndingFacts(exit_code=137, oom_kills=1), Ending.OUT_OF_MEMORY, None),
        (EndingFacts(exit_code=0, oom_kills=1), Ending.OUT_OF_MEMORY, 0),
        (EndingFacts(exit_code=137), Ending.KILLED, None),
        (EndingFacts(exit_code=139), Ending.KILLED, None),
        (EndingFacts(exit_code=143), Ending.KILLED, None),
        (EndingFacts(exit_code=2, pids_refused=5), Ending.RESOURCE_LIMIT, 2),
        (EndingFacts(exit_code=0, pids_refused=5), Ending.EXITED, 0),
        (EndingFacts(exit_code=1, disk_full=True), Ending.DISK_FULL, 1),
        (EndingFacts(exit_code=0, disk_full=True), Ending.EXITED, 0),
        (EndingFacts(exit_code=0, disk_over=True), Ending.DISK_FULL, 0),
    ],
)
def test_an_ending_is_judged_from_facts(facts, ending, exit_code):
    judged = judge_ending(facts)

    assert (judged.ending, judged.exit_code) == (ending, exit_code)


def test_a_killed_command_says_which_signal_and_an_exited_one_says_nothing():
    assert judge_ending(EndingFacts(exit_code=137)).detail == "exit status 137: SIGKILL"
    assert judge_ending(EndingFacts(exit_code=3, pids_refused=0)).detail == ""
