"""The store is refused where SQLite's WAL loses data."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.adapters.sql.database_file import find_file_system, refuse_shared_file_system
from runner.errors import StoreUnusableError

MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:30 / /home rw shared:2 master:1 - nfs4 server:/home rw
31 30 254:1 / /home/me/local\\040disk rw - xfs /dev/vdb rw
32 22 0:31 / /mnt rw - fuse.sshfs me@host: rw
33 22 0:32 / /twice rw - virtiofs first rw
34 33 0:33 / /twice rw - tmpfs second rw
39 22 0:38 / /odd\u2028name rw - nfs server:/odd rw
35 22 0:34 / /host rw - 9p share rw
36 22 0:35 / /cifs rw - cifs //server/x rw
37 22 0:36 / /blk rw - fuseblk /dev/sdb rw
38 22 0:37 / /vfs rw - virtiofs tag rw
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/", "ext4"),
        ("/var/lib/forkyard", "ext4"),
        ("/homestead", "ext4"),
        ("/home/me", "nfs4"),
        ("/home/me/local disk/forkyard", "xfs"),
        ("/twice/x", "tmpfs"),
    ],
)
def test_the_file_system_of_a_folder_is_that_of_its_closest_and_last_mount(folder, kind):
    assert find_file_system(Path(folder), mountinfo=MOUNTS) == kind


@pytest.mark.parametrize(
    "folder", ["/home/me", "/mnt/x", "/host", "/odd\u2028name/x", "/cifs", "/blk", "/vfs/a/b"]
)
def test_s03_a_shared_file_system_is_refused_by_name(folder):
    with pytest.raises(StoreUnusableError, match=r"WAL.*FORKYARD_HOME"):
        refuse_shared_file_system(Path(folder), mountinfo=MOUNTS)


@pytest.mark.parametrize("folder", ["/", "/home/me/local disk", "/twice"])
def test_a_local_file_system_is_taken(folder):
    refuse_shared_file_system(Path(folder), mountinfo=MOUNTS)


@pytest.mark.parametrize("mountinfo", ["", "nonsense\n", "1 2 3\n"])
def test_an_unknown_file_system_is_refused(mountinfo):
    with pytest.raises(StoreUnusableError, match="nothing says"):
        refuse_shared_file_system(Path("/x"), mountinfo=mountinfo)
