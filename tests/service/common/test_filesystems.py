"""A SQLite store is on a local disk, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshwright_service.common.filesystems import is_network, kind_of
from meshwright_service.store.database import Database

MOUNTS = r"""22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
31 27 0:40 / /srv rw,relatime - nfs4 files:/srv rw,vers=4.2
32 31 8:1 / /srv/local\040disk rw master:1 - xfs /dev/sdb rw
33 27 0:41 / /over rw - ext4 /dev/vdb rw
34 27 0:42 / /over rw - fuse.sshfs there:/ rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib/meshwright", "ext4"),
        ("/srv", "nfs4"),
        ("/srv/meshwright", "nfs4"),
        ("/srv/local disk/meshwright", "xfs"),
        ("/srvmeshwright", "ext4"),
        ("/over/x", "fuse.sshfs"),
    ],
)
def test_a_path_is_on_the_deepest_mount_the_last_of_several(
    tmp_path: Path, path: str, kind: str
) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    assert kind_of(Path(path), mounts) == kind


def test_where_nothing_is_known_nothing_is_refused(tmp_path: Path) -> None:
    assert kind_of(tmp_path, tmp_path / "none") == ""
    assert not is_network("")


def test_this_machine_says_what_its_folders_are_on(tmp_path: Path) -> None:
    assert kind_of(Path("/proc")) == "proc"
    assert kind_of(tmp_path) not in ("", "proc")


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph"])
def test_a_store_on_a_network_file_system_is_refused(tmp_path: Path, kind: str) -> None:
    with pytest.raises(ValueError, match=rf"network file system \({kind}\).*PostgreSQL"):
        Database(f"sqlite:///{tmp_path / 'store.db'}", kind_of=lambda _: kind)
    assert not (tmp_path / "store.db").exists()


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "overlay", "tmpfs", "zfs", "fuseblk", ""])
def test_a_store_on_a_local_one_is_not(tmp_path: Path, kind: str) -> None:
    database = Database(f"sqlite:///{tmp_path / 'store.db'}", kind_of=lambda _: kind)
    database.upgrade()
    assert database.is_current()
    database.close()
