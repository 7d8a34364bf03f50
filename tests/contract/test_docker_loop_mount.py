"""Loop mounts by system calls, on the real kernel."""

import errno
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sandbox.docker.loop_mount import copy_sparse, mount_image, unmount

MIB = 1024 * 1024

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 and os.environ.get("CI") != "true", reason="mounting needs root"
)


@pytest.fixture
def template(tmp_path: Path) -> Path:
    image = tmp_path / "template"
    with image.open("xb") as file:
        file.truncate(64 * MIB)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True)
    return image


def mounts() -> str:
    return Path("/proc/self/mountinfo").read_text()


def test_a_mounted_copy_of_a_template_holds_files_and_its_options(template, tmp_path) -> None:
    copy, point = tmp_path / "copy", tmp_path / "point"
    point.mkdir()
    copy_sparse(template, copy)

    mount_image(copy, point)
    try:
        (point / "file").write_text("kept")
        line = next(line for line in mounts().splitlines() if str(point) in line)
    finally:
        unmount(str(point))

    assert {"nosuid", "nodev", "noatime"} <= set(line.split()[5].split(","))
    assert not (point / "file").exists()


def test_a_copy_is_equal_and_no_bigger_on_disk(template, tmp_path) -> None:
    copy = tmp_path / "copy"

    copy_sparse(template, copy)

    assert copy.read_bytes() == template.read_bytes()
    assert copy.stat().st_blocks <= template.stat().st_blocks + 8


def test_a_copy_never_replaces_a_file(template, tmp_path) -> None:
    (tmp_path / "copy").write_text("mine")

    with pytest.raises(FileExistsError):
        copy_sparse(template, tmp_path / "copy")


def test_the_loop_device_is_free_again_after_the_unmount(template, tmp_path) -> None:
    point = tmp_path / "point"
    point.mkdir()
    mount_image(template, point)

    unmount(str(point))

    listed = subprocess.run(["losetup", "-j", str(template)], capture_output=True, check=True)
    assert listed.stdout == b""


def test_a_busy_mount_says_so_and_can_be_detached(template, tmp_path) -> None:
    point = tmp_path / "point"
    point.mkdir()
    mount_image(template, point)

    with (point / "held").open("w"):
        with pytest.raises(OSError, match="busy") as caught:
            unmount(str(point))
        unmount(str(point), detach=True)

    assert caught.value.errno == errno.EBUSY
    assert str(point) not in mounts()


def test_what_is_no_file_system_is_refused_and_leaves_no_device(tmp_path) -> None:
    image, point = tmp_path / "image", tmp_path / "point"
    image.write_bytes(b"\0" * MIB)
    point.mkdir()

    with pytest.raises(OSError, match="point"):
        mount_image(image, point)

    listed = subprocess.run(["losetup", "-j", str(image)], capture_output=True, check=True)
    assert listed.stdout == b""


def test_many_at_once_each_get_a_device_of_their_own(template, tmp_path) -> None:
    def make(number: int) -> str:
        copy, point = tmp_path / f"copy{number}", tmp_path / f"point{number}"
        point.mkdir()
        copy_sparse(template, copy)
        mount_image(copy, point)
        (point / "name").write_text(str(number))
        return str(point)

    with ThreadPoolExecutor(8) as pool:
        points = list(pool.map(make, range(16)))

    found = [Path(point, "name").read_text() for point in points]
    for point in points:
        unmount(point)
    assert found == [str(number) for number in range(16)]
