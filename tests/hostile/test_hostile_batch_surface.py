"""Privileges, kernel, network and others, from a real task (CASES.md: 1-5, 7, 9-11, 20, 39-47).

`ended` has checked the host, the sibling and the stored outcome before each test looks at a call.
"""

from __future__ import annotations

import docker
import pytest
from hostile_builders import CANARY, read_all_objects
from hostile_calls import SYSCALLS

pytestmark = [pytest.mark.engine, pytest.mark.slow]

TASK = "surface"


def test_case_1_system_calls_answer_as_the_golden_file_says(ended):
    answers = {name: one["answer"] for name, one in SYSCALLS.items()}

    assert ended.calls["1 sweep"].json == answers
    # routes are readable, as every resolver needs; there is one interface, and it is loopback
    allowed = {name for name, answer in answers.items() if answer == "ALLOWED"}
    assert allowed == {"socket AF_NETLINK route"}


def test_case_2_no_command_and_no_child_of_one_has_a_capability(ended):
    lines = ended.calls["2 capabilities"].text.split("stdout:\n")[1].split()

    sets = dict(zip(lines[::2], lines[1::2], strict=True))
    assert sorted(sets) == sorted(lines[:14:2])  # the child's are the same names
    assert lines.count("0000000000000000") == 10
    assert (sets["NoNewPrivs:"], sets["Seccomp:"]) == ("1", "2")


def test_case_3_a_set_user_id_shell_gives_nothing_and_the_image_has_none(ended):
    assert ended.calls["3 setuid"].text == "exit code 0\nstdout:\n1000\n1000\n1000\n"


def test_case_4_a_command_has_three_descriptors_and_chooses_no_directory(ended):
    lines = ended.calls["4 descriptors"].text.splitlines()
    links = [line.split(" -> ")[1] for line in lines if " -> " in line]

    assert links[0] == "/dev/null"
    assert [one.split(":")[0] for one in links[1:3]] == ["pipe", "pipe"]
    assert (len(links), lines[-1]) == (4, "4")  # the fourth is what ls reads
    assert ended.calls["4 cwd"].reason == "bad_arguments"
    assert ended.calls["4 cwd"].execution is None


def test_case_5_nothing_outside_of_the_volume_can_be_written_or_removed(ended):
    called = ended.calls["5 overwrite"]

    assert called.text.split("stdout:\n")[1].split("\nstderr:")[0] == "tried"
    assert called.execution.exit_code == 1


def test_case_7_no_mount_is_made_or_lifted_and_no_other_tasks_is_seen(ended, yard):
    seen = ended.calls["7 mounts"].json

    refused = {name: seen[name] for name in ("mount", "bind", "remount", "umount", "chroot")}
    assert refused == dict.fromkeys(refused, "EPERM")
    assert {"forkyard", "workspace", ".dockerenv"} <= set(seen["top"])
    others = {one.task.task_id for name, one in yard.ended.items() if name != TASK}
    assert [one for one in others if one in seen["mountinfo"]] == []


def test_case_9_no_port_and_no_socket_is_reached(ended):
    assert ended.calls["9 sockets and ports"].json == {"ports": [], "sockets": []}


def test_case_10_the_residents_are_out_of_reach_and_the_task_goes_on(ended):
    seen = ended.calls["10 init"].json

    assert len(seen) == 18
    assert set(seen.values()) == {"EPERM", "EACCES"}
    assert "Operation not permitted" in ended.calls["10 kill all"].text
    assert ended.calls["10 after"].text == "exit code 0\nstdout:\nstill here\n"


def test_case_11_a_crash_dumps_no_core_inside_or_outside(ended):
    text = ended.calls["11 core"].text

    assert text.split("stdout:\n")[1].split("\nstderr:")[0] == "0"
    assert "Segmentation fault (core dumped)" not in text


def test_case_20_the_clock_cannot_be_set(ended):
    text = ended.calls["20 clock"].text

    assert "cannot set date: Operation not permitted" in text
    assert "PermissionError" in text


def test_case_39_there_is_no_route_for_any_protocol(ended):
    assert ended.calls["39 routes"].json == {"reached": [], "interfaces": ["lo"]}


def test_case_46_a_sibling_that_listens_meanwhile_is_not_to_be_found(ended):
    called = ended.calls["46 sibling"]

    # one line of headings in the table of neighbours, no process of the sibling's, one mount
    assert called.text.split("stdout:\n")[1].split("\nstderr:")[0] == "1\n0\nbase.git"
    assert "secret of the sibling" not in called.text


def test_case_47_a_secret_of_the_runner_is_nowhere(ended, yard):
    app = yard.app
    assert CANARY in app.services.passed_environment.values()
    text = ended.calls["47 environment"].text
    assert "HOSTNAME=sandbox" in text
    assert CANARY[:11] not in text

    # what the engine was told and what it said of live containers, commands' output included
    assert any(one.endswith("/json") and "/containers/" in one for one in yard.engine.requests)
    assert CANARY.encode() not in yard.engine.seen
    client = docker.APIClient()
    try:
        image = app.services.host.resolve_image("python")
        assert CANARY not in str(client.history(image))
        assert CANARY not in str(client.inspect_image(image))
    finally:
        client.close()
    assert CANARY.encode() not in read_all_objects(yard.snapshots(TASK))
    kept = [one for one in yard.folder.rglob("*") if one.is_file()]
    assert {"log", "store.db", "report.html", "rollout.jsonl"} <= {one.name for one in kept}
    assert [one for one in kept if CANARY.encode() in one.read_bytes()] == []
