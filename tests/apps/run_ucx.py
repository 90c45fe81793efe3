#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""UCX over uroce, Open MPI and MPICH over UCX, and Open MPI over libfabric, with nothing but RDMA between
the processes. Not on the loopback interface, which libfabric leaves out.

ucx_perftest in its kinds of traffic; mpi_check, of which every byte is checked. Both over the RC and the UD
transport, clean and with loss. Exit status 77: it could not be run.
"""
import contextlib
import pathlib
import shutil
import subprocess
import sys
import tempfile

import places
import programs
import run_apps

RANKS = 4
# UCX would wait a second for each last packet.
LOSS = (("UROCE_FAULT", "drop=0.5%,seed=3"), programs.PATIENCE_AT_LOSS, ("UCX_RC_TIMEOUT", "100ms"))
# The MPIs' headers and compilers are found by these names only: Debian's "mpicc" is whichever came last.
MPI_CHECK = pathlib.Path(__file__).parent / "mpi_check/mpi_check.c"
COMPILER_FLAGS = ("-O1", "-Wall", "-Wextra", "-Werror")


class Bench:
    def __init__(self, runner, host, scratch):
        self.runner = runner
        self.host = host
        self.scratch = scratch
        self.place = places.Place("interface", host, host)

    def env(self, transport, more=()):
        return (("UCX_NET_DEVICES", "uroce_%s:1" % self.host.netdev), ("UCX_TLS", transport + ",self"),
                ("UCX_LOG_LEVEL", "error"), ("UCX_HANDLE_ERRORS", "none"), *more)

    def perftest(self, transport, words, more=()):
        port = programs.free_port()
        server = ["ucx_perftest", "-p", str(port)]
        ends = self.runner.run_pair(self.place, server, [*server, *words.split(), self.host.ipv4], port,
                                    self.env(transport, more), timeout=60)
        for output, status in ends:
            assert status == 0, "%s %s: status %s\n%s" % (transport, words, status, output)
        assert "Final:" in ends[1][0], ends[1][0]

    def mpi(self, name, words, transport, more=()):
        """Builds mpi_check with the MPI of that name and runs it."""
        program = "%s/mpi_check_%s" % (self.scratch, name)
        subprocess.run(["mpicc." + name, *COMPILER_FLAGS, *words["flags"], str(MPI_CHECK), "-o", program],
                       check=True)
        env = (*self.env(transport, more), ("HOME", self.scratch), ("TMPDIR", self.scratch))
        output, status = self.runner.run_alone(
            self.host, ["mpirun." + name, *words["options"], "-np", str(RANKS), program], env, timeout=150)
        assert status == 0 and "mpi_check: %d ranks" % RANKS in output, \
            "%s over %s: status %s\n%s" % (name, transport, status, output)


OPEN_MPI = {
    "flags": (),
    "options": ("--oversubscribe", "--mca", "pml", "ucx", "--mca", "osc", "ucx", "--mca", "btl", "self",
                "--mca", "oob_tcp_if_include", "lo", "--host", "localhost"),
}
# One-sided operations by messages: those that are RDMA's own want a transport of UCX or of a BTL.
LIBFABRIC = {
    "flags": (),
    "options": ("--oversubscribe", "--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca",
                "mtl_ofi_provider_include", "verbs;ofi_rxm", "--mca", "osc", "^rdma,ucx", "--mca", "btl", "self",
                "--mca", "oob_tcp_if_include", "lo", "--host", "localhost"),
}
# Its header tells gcc that MPI_STATUSES_IGNORE is an array.
MPICH = {"flags": ("-Wno-stringop-overflow",), "options": ("-iface", "lo", "-hosts", "localhost")}


def transports_are_listed(bench):
    output, status = bench.runner.run_alone(bench.host, ["ucx_info", "-d"])
    device = "Device: uroce_%s:1" % bench.host.netdev
    lines = [line.strip("# \n") for line in output.splitlines()]
    assert status == 0, output
    for transport in ("rc_verbs", "ud_verbs"):
        at = lines.index("Transport: " + transport)
        assert lines[at + 1] == device, lines[at:at + 2]


def small_messages_and_large(bench):
    for transport in ("rc", "ud"):
        for words in ("-t tag_lat -n 1000", "-t tag_bw -n 2000", "-t stream_bw -n 1000 -s 4096",
                      "-t ucp_am_bw -n 200 -s 100000", "-t tag_sync_lat -n 50 -s 1000000"):
            bench.perftest(transport, words)


def one_sided(bench):
    for transport in ("rc", "ud"):
        for words in ("-t ucp_put_lat -n 1000", "-t ucp_put_bw -n 200 -s 65536", "-t ucp_get -n 50 -s 65536"):
            bench.perftest(transport, words)


def atomics(bench):
    for transport in ("rc", "ud"):
        for kind in ("add", "fadd", "swap", "cswap"):
            bench.perftest(transport, "-t ucp_%s -n 300" % kind)


def over_ipv6(bench):
    index = bench.runner.gid_index(bench.host, "ipv6")
    for transport in ("rc", "ud"):
        bench.perftest(transport, "-t tag_lat -n 300", (("UCX_IB_GID_INDEX", index),))


def with_loss(bench):
    for transport in ("rc", "ud"):
        for words in ("-t tag_bw -n 500 -s 20000", "-t ucp_get -n 50 -s 65536"):
            bench.perftest(transport, words, LOSS)


def open_mpi(bench):
    bench.mpi("openmpi", OPEN_MPI, "rc")
    bench.mpi("openmpi", OPEN_MPI, "ud")


def open_mpi_with_loss(bench):
    bench.mpi("openmpi", OPEN_MPI, "rc", LOSS)


def open_mpi_over_libfabric(bench):
    bench.mpi("openmpi", LIBFABRIC, "rc")
    bench.mpi("openmpi", LIBFABRIC, "rc", LOSS)


def mpich(bench):
    bench.mpi("mpich", MPICH, "rc")
    bench.mpi("mpich", MPICH, "ud")


def mpi_with_loss(bench):
    bench.mpi("mpich", MPICH, "rc", LOSS)


CASES = (transports_are_listed, small_messages_and_large, one_sided, atomics, over_ipv6, with_loss, open_mpi,
         open_mpi_with_loss, open_mpi_over_libfabric, mpich, mpi_with_loss)


@contextlib.contextmanager
def make(runner, host):
    with tempfile.TemporaryDirectory(prefix="uroce-mpi-") as scratch:
        pathlib.Path(scratch).chmod(0o777)
        yield Bench(runner, host, scratch)


if __name__ == "__main__":
    if shutil.which("ucx_perftest") is None:
        print("skipped: ucx_perftest is not there: tools/install-deps test")
        sys.exit(run_apps.SKIPPED)
    sys.exit(run_apps.run_functions(__doc__.splitlines()[0], CASES, make, "interface"))
