import io
import os
import stat
import tarfile
import zipfile

import pytest
from git_builders import run_git

from sandbox import Source, SourceError, SourceKind
from sandbox.git import ArchiveLimits, GitRepositories

FILES = {"a.txt": b"1\n", "d/run.sh": b"#!/bin/sh\n"}


def entry(name, kind=tarfile.REGTYPE, **fields):
    info = tarfile.TarInfo(name)
    info.type = kind
    for key, value in fields.items():
        setattr(info, key, value)
    return info


def write_tar(path, members, mode="w:gz"):
    with tarfile.open(path, mode) as archive:
        for info, content in members:
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def write_zip(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content, mode in members:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            archive.writestr(info, content)


def import_archive(tmp_path, archive, **limits):
    home = GitRepositories(tmp_path / "home", archive_limits=ArchiveLimits(**limits))
    imported = home.import_source(Source(kind=SourceKind.ARCHIVE, location=str(archive)))
    return home.base_repository(imported.repository_id, imported.commit, imported.history)


def plain_members():
    return [
        (entry("d", tarfile.DIRTYPE, mode=0o755), b""),
        (entry("./a.txt"), b"1\n"),
        (entry("d/run.sh", mode=0o755), b"#!/bin/sh\n"),
        (entry("link", tarfile.SYMTYPE, linkname="/etc/passwd"), b""),
        (entry("d/hard", tarfile.LNKTYPE, linkname="a.txt"), b""),
    ]


EXPECTED = "100644 a.txt\n100644 d/hard\n100755 d/run.sh\n120000 link"


def base_listing(repository):
    return run_git(
        repository, "ls-tree", "-r", "--format=%(objectmode) %(path)", "refs/forkyard/base"
    )


def test_a_tar_becomes_one_commit_with_modes_and_links(tmp_path):
    write_tar(tmp_path / "x.tar.gz", plain_members())

    repository = import_archive(tmp_path, tmp_path / "x.tar.gz")

    assert base_listing(repository) == EXPECTED
    assert run_git(repository, "show", "refs/forkyard/base:link") == "/etc/passwd"
    assert run_git(repository, "rev-list", "--count", "refs/forkyard/base") == "1"


def test_equal_files_give_the_same_commit_whatever_holds_them(tmp_path):
    write_tar(tmp_path / "x.tar", [(entry(n, mtime=5), c) for n, c in FILES.items()], "w")
    write_zip(tmp_path / "y.zip", [(n, c, 0o100644) for n, c in reversed(FILES.items())])

    one = import_archive(tmp_path, tmp_path / "x.tar")
    two = import_archive(tmp_path, tmp_path / "y.zip")

    assert one.name == two.name


def test_a_folder_named_like_the_archive_is_left_away(tmp_path):
    members = [(entry(f"lib-1.0/{name}"), content) for name, content in FILES.items()]
    write_tar(tmp_path / "lib-1.0.tar.gz", members)
    write_tar(tmp_path / "other.tar.gz", members)

    named = import_archive(tmp_path, tmp_path / "lib-1.0.tar.gz")
    other = import_archive(tmp_path, tmp_path / "other.tar.gz")

    assert base_listing(named).endswith("100644 d/run.sh")
    assert base_listing(other).startswith("100644 lib-1.0/")


@pytest.mark.parametrize(
    "members",
    [
        [(entry("/etc/x"), b"1")],
        [(entry("../x"), b"1")],
        [(entry("a/../../x"), b"1")],
        [(entry(".git/config"), b"1")],
        [(entry("a/.GIT/hooks/x"), b"1")],
        [(entry("a/git~1/x"), b"1")],
        [(entry("a\\..\\x"), b"1")],
        [(entry("a//x"), b"1")],
        [(entry("x", tarfile.CHRTYPE), b"")],
        [(entry("x", tarfile.BLKTYPE), b"")],
        [(entry("x", tarfile.FIFOTYPE), b"")],
        [(entry("x", tarfile.LNKTYPE, linkname="/etc/shadow"), b"")],
        [(entry("x", tarfile.LNKTYPE, linkname="../x"), b"")],
        [(entry("x", tarfile.LNKTYPE, linkname="later"), b""), (entry("later"), b"1")],
        [(entry("x"), b"1"), (entry("x"), b"2")],
        [(entry("x"), b"1"), (entry("./x"), b"2")],
        [(entry("x", tarfile.SYMTYPE, linkname="/etc"), b""), (entry("x/passwd"), b"1")],
        [(entry("x/passwd"), b"1"), (entry("x", tarfile.SYMTYPE, linkname="/etc"), b"")],
        [(entry("x", tarfile.SYMTYPE, linkname="y" * 5000), b"")],
        [],
    ],
)
def test_a_hostile_tar_is_refused_whole(tmp_path, members):
    write_tar(tmp_path / "x.tar.gz", members)

    with pytest.raises(SourceError):
        import_archive(tmp_path, tmp_path / "x.tar.gz")

    assert list(tmp_path.glob("home/repos/*/base/*")) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "x.tar.gz"]


@pytest.mark.parametrize(
    "members",
    [
        [("../x", b"1", 0o100644)],
        [("/x", b"1", 0o100644)],
        [(".git/config", b"1", 0o100644)],
        [("x", b"1", stat.S_IFCHR | 0o644)],
        [("x", b"y" * 5000, stat.S_IFLNK | 0o777)],
        [("x", b"a\0b", stat.S_IFLNK | 0o777)],
    ],
)
def test_a_hostile_zip_is_refused_whole(tmp_path, members):
    write_zip(tmp_path / "x.zip", members)

    with pytest.raises(SourceError):
        import_archive(tmp_path, tmp_path / "x.zip")


def test_limits_stop_bombs(tmp_path):
    write_tar(tmp_path / "big.tar.gz", [(entry("x"), b"0" * 100_000)])
    write_tar(tmp_path / "many.tar.gz", [(entry(f"f{n}"), b"") for n in range(20)])
    write_tar(tmp_path / "sum.tar.gz", [(entry(f"f{n}"), b"0" * 900) for n in range(20)])

    for name in ("big", "many", "sum"):
        with pytest.raises(SourceError, match="more than"):
            import_archive(
                tmp_path, tmp_path / f"{name}.tar.gz", members=10, file_bytes=999, total_bytes=5000
            )


def test_a_name_header_of_gigabytes_is_not_read(tmp_path):
    header = entry("././@LongLink", tarfile.GNUTYPE_LONGNAME, size=4 * 1024**3)
    (tmp_path / "x.tar").write_bytes(header.tobuf(tarfile.GNU_FORMAT) + b"a" * 10_240)

    with pytest.raises(SourceError):
        import_archive(tmp_path, tmp_path / "x.tar")


@pytest.mark.parametrize("content", [b"", b"no archive at all" * 100, b"PK\x05\x06" + b"\0" * 18])
def test_what_is_no_archive_is_said_to_be_none(tmp_path, content):
    (tmp_path / "x.tar.gz").write_bytes(content)

    with pytest.raises(SourceError):
        import_archive(tmp_path, tmp_path / "x.tar.gz")


def test_a_cut_archive_is_refused(tmp_path):
    write_tar(tmp_path / "x.tar.gz", [(entry("x"), os.urandom(50_000))])
    whole = (tmp_path / "x.tar.gz").read_bytes()
    (tmp_path / "x.tar.gz").write_bytes(whole[:30_000])

    with pytest.raises(SourceError):
        import_archive(tmp_path, tmp_path / "x.tar.gz")
