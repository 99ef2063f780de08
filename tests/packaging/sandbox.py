"""Commands with a read-only root, a user id without an entry in passwd, and no home directory."""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

USER = 54321
PLACE = Path("/mnt")
# everything that a command reads is mounted in one place, whatever folders it is in
SCRIPT = """
set -e
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs /mnt
cd /mnt && mkdir base environment dependencies data
mount --bind "$BASE" base
mount --bind "$ENVIRONMENT" environment
mount --bind "$DEPENDENCIES" dependencies
test -z "$WRITABLE" || mount -t tmpfs -o mode=777 tmpfs data
for folder in /mnt/base /mnt/environment /mnt/dependencies /mnt / /tmp /var/tmp /dev/shm; do
    mountpoint --quiet $folder && mount -o remount,ro,bind $folder
done
cd /
exec setpriv --reuid "$USER_ID" --regid 0 --clear-groups env -i PATH=/usr/bin:/bin \
    LD_LIBRARY_PATH=/mnt/base/lib PYTHONPATH="$PACKAGES:/mnt/dependencies" "$@"
"""


def is_possible() -> bool:
    """Whether this process may make such a sandbox."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "setpriv", "mount"))):
        return False
    attempt = ["unshare", "--mount", "sh", "-c", "mount -t tmpfs tmpfs /mnt"]
    return subprocess.run(attempt, capture_output=True, check=False).returncode == 0


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A sandbox of an environment. is_data_writable: whether `/mnt/data` is."""

    environment: Path
    is_data_writable: bool

    def command(self, *words: str) -> list[str]:
        """A command of Python in the sandbox; the process becomes that command."""
        executable = Path(os.path.realpath(sys.executable))
        python = PLACE / "base" / executable.relative_to(os.path.realpath(sys.base_prefix))
        return ["unshare", "--mount", "bash", "-c", SCRIPT, "sandbox", str(python), *words]

    def variables(self) -> dict[str, str]:
        """The environment variables of `command`."""
        (packages,) = self.environment.glob("lib/python*/site-packages")
        return {
            "PATH": os.environ["PATH"],
            "BASE": sys.base_prefix,
            "ENVIRONMENT": str(self.environment),
            "PACKAGES": str(PLACE / "environment" / packages.relative_to(self.environment)),
            "DEPENDENCIES": site.getsitepackages()[0],
            "USER_ID": str(USER),
            "WRITABLE": "yes" if self.is_data_writable else "",
        }
