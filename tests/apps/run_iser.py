#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A disk over iSER: Debian's tgtd exports a file, programs of libiscsi log in, read, write and verify.

tgtd takes orders from root only. Nothing is lost here: libiscsi takes a second without an answer for an
error. Exit status 77: it could not be run.
"""
import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import places
import programs
import run_apps

PORT = 3260  # tgtd listens there for RDMA whatever it is told
DISK_LEN = 4 << 20
TARGET = "iqn.2026-11.example:disk"
INITIATOR = "iqn.2026-11.example:initiator"  # has to be named: that its address may come is not enough
ORDERS = (
    "--mode target --op new --tid 1 -T " + TARGET,
    "--mode logicalunit --op new --tid 1 --lun 1 -b {disk}",
    "--mode target --op bind --tid 1 -I ALL",
    "--mode target --op bind --tid 1 -Q " + INITIATOR,
)


# libiscsi 1.19 takes what malloc gives for zeroes: it must be fresh, and meson has malloc fill it.
FRESH_MEMORY = (("MALLOC_PERTURB_", "0"),)


class Bench:
    def __init__(self, runner, host, scratch):
        self.runner = runner
        self.host = host
        self.disk = scratch / "disk"
        self.disk.write_bytes(os.urandom(DISK_LEN))
        self.env = (("TGT_IPC_SOCKET", str(scratch / "tgtd")),)
        self.target = None

    def start(self):
        self.target = self.runner.start(self.host, ["tgtd", "-f"], self.env, user=0)
        deadline = time.monotonic() + programs.HANGING_S
        while not programs.listens(self.target.pid, PORT):
            assert self.target.alive() and time.monotonic() < deadline, self.target.output
            time.sleep(0.05)
        for order in ORDERS:
            words = ["tgtadm", "--lld", "iser", *order.format(disk=self.disk).split()]
            subprocess.run([*self.host.enter, *words], check=True, env={**os.environ, **dict(self.env)})

    def initiator(self, program, options=""):
        """What one of libiscsi's programs says of the disk; it has to end well."""
        url = "iscsi://%s:%d/%s/1?iser" % (self.host.ipv4, PORT, TARGET)
        output, status = self.runner.run_alone(
            self.host, [program, "-i", INITIATOR, *options.split(), url], FRESH_MEMORY)
        assert status == 0, "%s: status %s\n%s\n%s" % (program, status, output, self.target.output)
        return output

    def test(self, *names):
        """Tests of iscsi-test-cu, each in a process: a second connection has used memory."""
        for name in names:
            output = self.initiator("iscsi-test-cu", "--dataloss -t SCSI." + name)
            assert re.search(r"Test: \w+ \.\.\.passed", output), output
            assert re.search(r"asserts +(\d+) +\1 +\1 +0 ", output), output


def the_disk_says_what_it_is(bench):
    bench.start()
    assert "VIRTUAL-DISK" in bench.initiator("iscsi-inq")
    assert "Total size:%d" % DISK_LEN in bench.initiator("iscsi-readcapacity16")


def what_is_read_is_what_is_there(bench):
    """VERIFY sends back what READ brought, and the target compares; a bit more and it must differ."""
    bench.start()
    bench.test("Read10.Simple", "Verify16.Simple", "Verify16.Mismatch")


def what_is_written_is_in_the_file(bench):
    bench.start()
    before = bench.disk.read_bytes()
    bench.test("Write10.Simple", "WriteVerify16.Simple")
    assert bench.disk.read_bytes() != before, "the file is as before"


CASES = (the_disk_says_what_it_is, what_is_read_is_what_is_there, what_is_written_is_in_the_file)


@contextlib.contextmanager
def make(runner, host):
    with tempfile.TemporaryDirectory(prefix="uroce-iser-") as scratch:
        bench = Bench(runner, host, pathlib.Path(scratch))
        try:
            yield bench
        finally:
            if bench.target is not None:
                bench.target.kill()


if __name__ == "__main__":
    if not places.is_root() or shutil.which("tgtd") is None or shutil.which("iscsi-test-cu") is None:
        print("skipped: it takes root, and tgtd and libiscsi: tools/install-deps iscsi")
        sys.exit(run_apps.SKIPPED)
    sys.exit(run_apps.run_functions(__doc__.splitlines()[0], CASES, make))
