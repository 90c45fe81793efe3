# SPDX-License-Identifier: BSD-2-Clause
"""The virtual machine with the kernel's soft-RoCE, and programs in it (rxe-peer does the work)."""
import contextlib
import itertools
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

import places
import programs

HERE = pathlib.Path(__file__).resolve().parent
NETNS = os.environ.get("RXE_PEER_NETNS", "uroce-interop")
BRIDGE, TAP = "rxebr0", "rxebr0t1"
HOST = places.Host(("nsenter", "--net=/run/netns/" + NETNS, "--"), BRIDGE, "10.77.0.1", "fd77::1")
GUEST = places.Host((), "eth0", "10.77.0.2", "fd77::2")
# The guest's first address is link-local.
GUEST_GID = {"ipv4": "1", "ipv6": "2"}
NETDEV_MTU = {4096: 9000, 1024: 1500}  # by path MTU
ENVIRONMENT = {"RXE_PEER_NETNS": NETNS, "RXE_PEER_SSH_BASE": "20870",
               "RXE_PEER_STATE": "/tmp/uroce-interop-%d" % os.getuid(), "RXE_PEER_NICE": "10"}
KILLED_AFTER_S = 5
CAPTURE_S = 240
READY = "(others may come)"
# Whether somebody listens on a port: of TCP, of RDMA CM.
LISTENS_TCP = "cat /proc/net/tcp /proc/net/tcp6 | grep -q ':%04X 0*:0000 0A'"
LISTENS_CM = "rdma resource show cm_id | grep -Eq 'state LISTEN.*:%d( |$)'"


class Program(programs.Process):
    """A program in the guest; it ends there by itself when the time is over."""

    _numbers = itertools.count()

    def __init__(self, guest, words, timeout, look=""):
        """look: what finds out there that others may come; ready() says so."""
        self._guest = guest
        self._pid_file = "/tmp/program%d.%d" % (os.getpid(), next(self._numbers))
        watch = ""
        if look:
            watch = "(for _ in $(seq 100); do %s && echo '%s' && break; sleep 0.1; done) & " % (
                look, READY)
        line = "echo $$ >%s; %sexec timeout -k %d %d stdbuf -oL %s" % (
            self._pid_file, watch, KILLED_AFTER_S, timeout, shlex.join(words))
        super().__init__([str(HERE / "rxe-peer"), "run", line], guest.env)
        self.words = words

    def ready(self):
        return READY in self.output

    def kill(self):
        if self.alive():
            self._guest.run("kill $(cat %s)" % self._pid_file, check=False)
            self.wait(time.monotonic() + KILLED_AFTER_S)
        super().kill()


class Guest:
    def __init__(self):
        self.env = {**ENVIRONMENT, **os.environ}
        self._mtu = None
        self._netem = ""

    def command(self, *words, check=True, **how):
        return subprocess.run([str(HERE / "rxe-peer"), *words], env=self.env, check=check,
                              stdin=subprocess.DEVNULL, **how)

    def up(self):
        """Raises places.Unavailable where this machine cannot run another."""
        if os.geteuid() != 0:
            raise places.Unavailable("needs root, to make a bridge and a virtual machine")
        if not os.path.exists("/dev/net/tun"):
            raise places.Unavailable("there is no /dev/net/tun on this machine")
        done = self.command("up", check=False, stderr=subprocess.PIPE, text=True)
        sys.stderr.write(done.stderr)
        if done.returncode != 0:
            raise places.Unavailable(done.stderr.strip().rpartition("\n")[2])

    def down(self):
        if os.geteuid() == 0:
            self.command("down", check=False)

    def run(self, line, check=True):
        """Runs a line of shell there. Returns its output."""
        return self.command("run", line, check=check, stdout=subprocess.PIPE, text=True).stdout

    def start(self, words, timeout, look=""):
        return Program(self, words, timeout, look)

    @contextlib.contextmanager
    def capturing(self, path):
        """Writes what the guest's interface sees of RoCE meanwhile to a file here."""
        dump = Program(self, ["tcpdump", "-i", "eth0", "-s", "9500", "-B", "16384", "-U", "-Z", "root", "-w",
                              "/tmp/capture", "udp port 4791"], CAPTURE_S)
        while dump.alive() and "listening on" not in dump.output:
            time.sleep(0.05)
        try:
            yield
            time.sleep(1)  # for what is still on its way to the file
        finally:
            dump.kill()
        if "0 packets dropped by kernel" not in dump.output:
            raise programs.Failure("the capture is not whole\n" + dump.output)
        self.command("get", "/tmp/capture", path)

    def put(self, path):
        """Copies a program there. Returns how to call it."""
        there = "/tmp/" + os.path.basename(path)
        self.command("put", path, there)
        return there

    def hinder(self, netem):
        """Traffic control treats what leaves and what comes so (tc-netem(8)); "" is none."""
        if not netem and not self._netem:
            return
        lines = ["tc qdisc del dev eth0 root 2>/dev/null", "tc qdisc del dev eth0 ingress 2>/dev/null",
                 "ip link del ifb0 2>/dev/null"]
        if netem:
            lines += ["set -e", "modprobe ifb numifbs=0", "ip link add ifb0 type ifb",
                      "ip link set ifb0 up mtu 9000",
                      "tc qdisc add dev eth0 root netem limit 10000 " + netem,
                      "tc qdisc add dev ifb0 root netem limit 10000 " + netem,
                      "tc qdisc add dev eth0 ingress",
                      "tc filter add dev eth0 parent ffff: matchall action mirred egress redirect "
                      "dev ifb0"]
        self.run("\n".join(lines + ["true"]))
        self._netem = netem

    def hindered(self):
        """How many packets traffic control has lost, of the present hindrance."""
        shown = self.run("tc -s qdisc show | grep -A1 netem")
        return sum(int(word) for word in re.findall(r"dropped (\d+)", shown))

    def set_mtu(self, path_mtu):
        """The MTU of both ends and of what is between them."""
        if self._mtu == path_mtu:
            return
        mtu = NETDEV_MTU[path_mtu]
        for netdev in (TAP, BRIDGE):
            places.command(HOST.enter, "ip link set %s mtu %d" % (netdev, mtu))
        self.run("ip link set eth0 mtu %d" % mtu)
        self._mtu = path_mtu


if __name__ == "__main__":
    sys.exit("this is a part of run_interop")
