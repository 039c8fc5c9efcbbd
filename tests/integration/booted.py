"""A system below a folder, booted: systemd as the first process of namespaces of its own
(mounts, processes, network, cgroups), with the kernel's settings and all devices out of its
reach. All of it ends with end().
"""
import os
import pathlib
import re
import shutil
import subprocess

import harness

TOOLS = ["unshare", "nsenter", "pivot_root"]
BOOT = """
set -e
cd "$0"
mount --bind . . && cd "$0"
mount -t tmpfs -o mode=755 tmpfs dev
for name in null zero full random urandom tty; do
    touch dev/$name && mount --bind /dev/$name dev/$name
done
ln -s pts/ptmx dev/ptmx
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs tmpfs run
mkdir run/host
pivot_root . run/host
exec env -i container=kvasir PATH=/usr/sbin:/usr/bin:/sbin:/bin /bin/sh -c '
    umount -l /run/host && rmdir /run/host && exec /lib/systemd/systemd --system --show-status=0'
"""


def cgroups():
    """Where this machine has the second version of cgroups, or None."""
    found = re.search(r"(?m)^\S+ (\S+) cgroup2 ", pathlib.Path("/proc/self/mounts").read_text())
    return pathlib.Path(found[1]) if found else None


def why_not():
    """Why nothing can be booted here, or None."""
    missing = [name for name in TOOLS if not shutil.which(name)]
    if missing:
        return f"not installed: {' '.join(missing)}"
    return None if cgroups() else "no cgroup2 is mounted"


class Booted:
    def __init__(self, root):
        self.group = cgroups() / f"kvasir-test-{os.getpid()}"
        self.group.mkdir()
        self.unshare = subprocess.Popen(
            ["sh", "-c", 'echo $$ >"$0"/cgroup.procs && exec "$@"', self.group, "unshare",
             "--mount", "--pid", "--fork", "--kill-child", "--cgroup", "--ipc", "--uts", "--net",
             "sh", "-c", BOOT, root],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            harness.wait_until(self.is_up, "it is booted", timeout_s=300)
        except BaseException:
            self.end()
            raise

    def first(self):
        """Its first process, once that is systemd."""
        path = pathlib.Path(f"/proc/{self.unshare.pid}/task/{self.unshare.pid}/children")
        for child in path.read_text().split() if path.exists() else ():
            if pathlib.Path(f"/proc/{child}/comm").read_text() == "systemd\n":
                return child
        return None

    def is_up(self):
        if self.unshare.poll() is not None:
            raise RuntimeError("it could not be booted")
        return self.first() is not None and self.run(
            "systemctl", "is-system-running").stdout.strip() in ("running", "degraded")

    def run(self, *words, timeout=harness.IO_TIMEOUT_S):
        """A command of that system, as root."""
        return subprocess.run(
            ["nsenter", "--target", self.first(), "--all", "--root", "--wd=/", "env", "-i",
             "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive",
             "LC_ALL=C.UTF-8", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=timeout, check=False)

    def end(self):
        self.unshare.kill()  # and with it all others
        self.unshare.wait(harness.STOP_TIMEOUT_S)
        folders = sorted(self.group.glob("**/"), reverse=True)
        harness.wait_until(lambda: all(self.remove(folder) for folder in folders),
                           "its cgroups are empty")

    @staticmethod
    def remove(folder):
        try:
            folder.rmdir()
        except FileNotFoundError:
            pass
        except OSError:
            return False
        return True
