"""Volumes on this host's own file systems: hard ones need root."""

from __future__ import annotations

import os
import secrets
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from policies import DiskLimit, Limits
from sandbox import EngineError, UnsupportedError
from sandbox.docker.volumes import VolumeOwner, VolumeStore

LIMITS = Limits(disk_mib=16, inodes=500)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="loop mounts need root")


@pytest.fixture
def store(tmp_path) -> VolumeStore:
    return VolumeStore(tmp_path / "work", may_mount=True)


@pytest.fixture
def owner() -> VolumeOwner:
    return VolumeOwner("i1", f"t{secrets.token_hex(4)}", 1)


def make_chain(top: Path, *, depth: int) -> int:
    """Make directories inside each other; return a descriptor of the last."""
    place = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=place)
        below = os.open("d", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = below
    return place


def mounts_below(path: Path) -> int:
    return Path("/proc/self/mountinfo").read_text().count(f" {path}/")


@needs_root
def test_a_hard_volume_holds_what_it_promises_and_no_more(store, owner, tmp_path):
    with store.open_volume("v", owner, limits=LIMITS, disk=DiskLimit.HARD) as volume:
        room = os.statvfs(volume.files)
        free_mib = room.f_bavail * room.f_frsize / 2**20

        assert 15 <= free_mib <= 24
        assert 480 <= room.f_favail <= 600
        assert list(volume.files.iterdir()) == []
        assert not volume.used_up()
        with pytest.raises(OSError, match="No space"):
            (volume.files / "big").write_bytes(bytes(40 << 20))
        assert volume.used_up()

    assert mounts_below(tmp_path) == 0
    assert store.list_owners() == ()


@needs_root
def test_a_file_system_that_the_kernel_refuses_is_no_want_of_room(store, owner, tmp_path):
    with store.open_volume("v", owner, limits=LIMITS, disk=DiskLimit.HARD):
        (template,) = (tmp_path / "work").glob(".template-*")
    template.write_bytes(bytes(1 << 20))

    with (
        pytest.raises(EngineError, match="cannot be made"),
        store.open_volume("v", owner, limits=LIMITS, disk=DiskLimit.HARD),
    ):
        pytest.fail("made")
    assert store.list_owners() == ()


@needs_root
def test_a_mount_that_a_dead_process_left_is_replaced(store, owner, tmp_path):
    left = store.open_volume("v", owner, limits=LIMITS, disk=DiskLimit.HARD)
    volume = left.__enter__()
    (volume.files / "old").touch()
    again = VolumeOwner(owner.instance_id, owner.task_id, 2)

    with store.open_volume("v", again, limits=LIMITS, disk=DiskLimit.HARD) as fresh:
        assert list(fresh.files.iterdir()) == []
        assert mounts_below(tmp_path) == 1
        # the first attempt comes back to life and ends: the second one's volume stays
        left.__exit__(None, None, None)
        assert fresh.files.is_dir()
        assert store.list_owners() == (("v", again),)

    assert mounts_below(tmp_path) == 0


@needs_root
def test_a_volume_that_is_in_use_is_detached(store, owner, tmp_path):
    with store.open_volume("v", owner, limits=LIMITS, disk=DiskLimit.HARD) as volume:
        held = (volume.files / "held").open("wb")

        assert store.remove("v")

    held.close()
    assert mounts_below(tmp_path) == 0


def test_a_watched_volume_is_full_above_its_limits(store, owner):
    with store.open_volume("v", owner, limits=LIMITS, disk=DiskLimit.WATCHED) as volume:
        assert not volume.used_up()
        (volume.files / "big").write_bytes(bytes(17 << 20))
        assert volume.used_up()
        (volume.files / "big").unlink()
        for number in range(501):
            (volume.files / str(number)).touch()
        assert volume.used_up()
        (volume.files / "link").symlink_to("/")  # never followed

    assert store.list_owners() == ()


def test_a_watched_volume_hides_nothing_deep_closed_or_linked(store, owner):
    limits = Limits(disk_mib=1, inodes=10_000)
    with store.open_volume("v", owner, limits=limits, disk=DiskLimit.WATCHED) as volume:
        once = volume.files / "once"
        once.write_bytes(bytes(700_000))
        (volume.files / "twice").hardlink_to(once)
        (volume.files / "out").symlink_to("/usr")
        assert not volume.used_up()

        bottom = make_chain(volume.files, depth=3000)
        big = os.open("big", os.O_WRONLY | os.O_CREAT, dir_fd=bottom)
        os.write(big, bytes(700_000))
        os.close(big)
        os.close(bottom)
        (volume.files / "d").chmod(0)

        assert volume.used_up()
        assert stat.S_IMODE((volume.files / "d").stat().st_mode) == 0


@needs_root
def test_a_home_behind_a_link_leaves_no_mount_and_no_file(tmp_path, owner):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    store = VolumeStore(tmp_path / "link" / "work", may_mount=True)

    with store.open_volume("v", owner, limits=LIMITS, disk=DiskLimit.HARD):
        pass

    assert mounts_below(tmp_path) == 0
    left = {one.name for one in (tmp_path / "real" / "work").iterdir()}
    assert left == {".lock", ".template-16-500"}


def test_several_may_delete_one_tree_at_once(store, tmp_path):
    for number in range(40):
        trash = tmp_path / "work" / f".trash-{number}"
        for folder in range(10):
            (trash / str(folder) / "below").mkdir(parents=True)
            for name in range(10):
                (trash / str(folder) / "below" / str(name)).touch()

    with ThreadPoolExecutor(4) as pool:
        runs = [pool.submit(store.empty_trash) for _ in range(4)]
        for one in runs:
            one.result()

    assert list((tmp_path / "work").iterdir()) == []


def test_removing_is_idempotent_and_spares_another_owners(store, owner):
    with store.open_volume("v", owner, limits=LIMITS, disk=DiskLimit.WATCHED):
        other = VolumeOwner("i1", "other", 1)

        assert not store.remove("v", owner=other)
        assert store.remove("v", owner=owner)
        assert not store.remove("v", owner=owner)


def test_a_removed_volumes_place_is_told_while_nobody_can_take_it(store, owner):
    told: list[tuple[Path, bool]] = []

    def forget(files: Path) -> None:
        told.append((files, files.exists()))

    with store.open_volume("v", owner, limits=LIMITS, disk=DiskLimit.WATCHED) as volume:
        store.remove("v", owner=VolumeOwner("i1", "other", 1), forget=forget)
        store.remove("v", owner=owner, forget=forget)

    assert told == [(volume.files, False)]


def test_what_a_dead_process_had_begun_to_delete_is_deleted(store, owner, tmp_path):
    trash = tmp_path / "work" / ".trash-1" / "deep"
    trash.mkdir(parents=True)
    (trash / "x").touch()
    trash.chmod(0)

    store.empty_trash()

    assert list((tmp_path / "work").iterdir()) == []


@pytest.mark.parametrize("name", ["", "..", "../x", "a/b", ".lock", "-x", "x" * 200])
def test_a_name_that_leads_elsewhere_is_refused(store, owner, name):
    with pytest.raises(UnsupportedError):
        store.remove(name)


def test_without_root_a_hard_limit_is_refused_naming_the_other_mode(tmp_path, owner):
    store = VolumeStore(tmp_path / "work", may_mount=False)

    with (
        pytest.raises(UnsupportedError, match="disk: watched"),
        store.open_volume("v", owner, limits=LIMITS, disk=DiskLimit.HARD),
    ):
        pytest.fail("made")

    assert not (tmp_path / "work").exists()
