import pytest
from sandbox_builders import make_spec, run_shell

from sandbox import (
    Ending,
    EngineUnavailableError,
    SandboxLostError,
    Source,
    SourceKind,
)
from sandbox.testing import Fault, FaultPoint, MemorySandboxHost, SimulatedCrash
from sandbox.testing_programs import FakeProgram, ProgramOutcome

SOURCE = Source(kind=SourceKind.PATH, location="/src")


def make_host(*programs):
    return MemorySandboxHost({"/src": {"a.txt": b"a\n"}}, programs=programs)


def make_memory_spec(host, **changes):
    start = host.start_snapshot(host.import_source(SOURCE), task_id="t1")
    return make_spec(host.resolve_image("python"), task_id="t1", start=start, **changes)


@pytest.mark.parametrize(
    ("script", "exit_code", "stdout"),
    [
        ("echo one; echo two", 0, b"one\ntwo\n"),
        ("false && echo no; echo yes", 0, b"yes\n"),
        ("exit 4; echo no", 4, b""),
        ("echo 'a;b' >x\ncat x", 0, b"a;b\n"),
        ("echo 1 >x && echo 2 >>x && cat x a.txt", 0, b"1\n2\na\n"),
        ("cat nosuch", 1, b""),
        ("nosuch", 127, b""),
        ("rm a.txt && cat a.txt", 1, b""),
    ],
)
def test_the_doubles_shell_knows_lists_quotes_and_redirections(script, exit_code, stdout):
    host = make_host()
    with host.open_sandbox(make_memory_spec(host)) as sandbox:
        result = run_shell(sandbox, script)

    assert (result.exit_code, result.stdout.head) == (exit_code, stdout)


def test_a_tests_own_program_answers_first_and_may_end_in_any_way():
    killed = FakeProgram(
        name="pytest", run=lambda _call: ProgramOutcome(ending=Ending.OUT_OF_MEMORY)
    )
    host = make_host(killed)
    with host.open_sandbox(make_memory_spec(host)) as sandbox:
        result = run_shell(sandbox, "echo start; pytest -q; echo no")

    assert (result.ending, result.exit_code) == (Ending.OUT_OF_MEMORY, None)
    assert result.stdout.head == b"start\n"


def test_a_planned_fault_strikes_once_at_its_point():
    host = make_host()
    host.plan(Fault(FaultPoint.BEFORE_RUN, EngineUnavailableError("gone"), skip=1))
    with host.open_sandbox(make_memory_spec(host)) as sandbox:
        assert run_shell(sandbox, "true").ok
        with pytest.raises(EngineUnavailableError):
            run_shell(sandbox, "true")
        assert run_shell(sandbox, "true").ok


def test_a_lost_sandbox_stays_lost_and_the_effect_of_its_last_command_is_gone():
    host = make_host()
    host.plan(Fault(FaultPoint.AFTER_RUN, SandboxLostError("died")))
    spec = make_memory_spec(host)
    with host.open_sandbox(spec) as sandbox:
        for _ in range(2):
            with pytest.raises(SandboxLostError):
                run_shell(sandbox, "echo x >a.txt")

    with host.open_sandbox(spec) as sandbox:
        assert run_shell(sandbox, "cat a.txt").stdout.head == b"a\n"


def test_a_crash_leaves_the_sandbox_behind_for_the_reaper():
    host = make_host()
    host.plan(Fault(FaultPoint.SNAPSHOT, SimulatedCrash()))

    with pytest.raises(SimulatedCrash), host.open_sandbox(make_memory_spec(host)) as sandbox:
        sandbox.take_snapshot()

    assert len(host.open) == 1
    assert host.reap(list) == 1
    assert host.open == []
