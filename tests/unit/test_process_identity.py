"""Holders of leases: told apart from every other process, also after the pid is used again."""

import os
import subprocess

from runner.adapters.process_identity import is_holder_gone, make_holder


def test_a_living_process_is_not_gone() -> None:
    assert not is_holder_gone(make_holder(os.getpid()))


def test_a_process_that_ended_is_gone() -> None:
    with subprocess.Popen(["sleep", "30"]) as child:
        holder = make_holder(child.pid)
        child.kill()

    assert is_holder_gone(holder)


def test_another_process_with_the_same_pid_is_another_holder() -> None:
    host, boot, pid, start = make_holder(os.getpid()).split(":")

    assert is_holder_gone(f"{host}:{boot}:{pid}:{int(start) - 1}")


def test_a_process_of_an_earlier_boot_is_gone() -> None:
    host, _, pid, start = make_holder(os.getpid()).split(":")

    assert is_holder_gone(f"{host}:other-boot:{pid}:{start}")


def test_a_holder_of_another_host_is_never_called_gone() -> None:
    _, boot, pid, start = make_holder(os.getpid()).split(":")

    assert not is_holder_gone(f"elsewhere:{boot}:{pid}:{start}")


def test_a_holder_that_cannot_be_read_is_never_called_gone() -> None:
    assert not is_holder_gone("nonsense")
