# SPDX-License-Identifier: BSD-2-Clause
"""Programs that people run over RDMA CM and that judge for themselves: libfabric, qperf, fio."""
import dataclasses
import re

import cases
import programs

LOSS = "drop=0.5%,seed=7"

# libfabric's thread for connections closes an endpoint when its peer has left, without a look at what
# waits in its completion queue: on a busy machine the last message then counts as lost. So the messages
# of the connection manager come late here, as they do where a kernel handles them.
SLOW_CM = "delay=100ms:op=UD_SEND_ONLY"


def fault(rules):
    return (("UROCE_FAULT", rules), programs.PATIENCE_AT_LOSS) if rules else ()


def endpoints_are_listed(run):
    found = set(re.findall(r"^provider: (\S+)$(?:\n +(?!type).*)*\n +type: (\S+)$", run.client, re.M))
    missing = {("verbs", "FI_EP_MSG"), ("verbs", "FI_EP_DGRAM"), ("verbs;ofi_rxm", "FI_EP_RDM")} - found
    return "not listed: %s" % missing if missing else None


def pingpong_table(run):
    """Both sides have a row for each size, in which all that was sent came back."""
    for side, output in (("client", run.client), ("server", run.server)):
        sizes = re.findall(r"^(\d+[km]?) +10 +=10 ", output, re.M)
        if sizes != ["64", "256", "1k", "4k", "64k", "1m"]:
            return "the %s has rows for sizes %s" % (side, sizes)
    return None


def fi_pingpong(provider, endpoint, family, rules=""):
    six = " -6" if family == "ipv6" else ""
    return cases.Case("fi_pingpong", "-c -p %s -e %s%s" % (provider, endpoint, six), family, pingpong_table,
                      fault(rules), serve="-B {port}", connect="-P {port} {address}")


LIBFABRIC = [
    cases.Case("fi_info", "-p verbs", expect=endpoints_are_listed, pair=False),
    *(fi_pingpong("verbs", "msg", family) for family in ("ipv4", "ipv6")),
    *(fi_pingpong("verbs;ofi_rxm", "rdm", family, SLOW_CM) for family in ("ipv4", "ipv6")),
    fi_pingpong("verbs;ofi_rxd", "rdm", "ipv4"),
]
LIBFABRIC_LOSS = [
    fi_pingpong("verbs", "msg", "ipv4", LOSS),
    fi_pingpong("verbs;ofi_rxm", "rdm", "ipv6", LOSS + "," + SLOW_CM),
]


def qperf_measured(run):
    """Each test that was asked for has a figure, and it is not nothing."""
    for test in run.case.label.split():
        if not re.search(r"^%s:\n +\w+ += +(?!0 )[\d.,]+ " % test, run.client, re.M):
            return "%s measured nothing" % test
    return None


# Its tests of UC and UD, and those that it begins without -cm, know LIDs only: not for Ethernet.
QPERF = [
    cases.Case("qperf", expect=qperf_measured, stays=True, label=tests,
               serve="-lp {port}", connect="-lp {port} -cm 1 -t 1 {address} " + tests)
    for tests in ("rc_bw rc_lat", "rc_rdma_write_bw rc_rdma_read_bw", "ver_rc_compare_swap ver_rc_fetch_add")
]
QPERF_LOSS = [dataclasses.replace(QPERF[1], env=fault(LOSS), expect=cases.suffers(qperf_measured))]


def fio_finished(run):
    """Both sides had as many blocks as there are; who only lends memory has one, a message."""
    blocks = 2 << 20 >> 16
    lent = blocks if run.case.label == "send" else 1
    for side, output, line in (("client", run.client, "total=0,%d," % blocks),
                               ("server", run.server, "total=%d,0," % lent)):
        if "err= 0" not in output or line not in output:
            return "the %s has no '%s' without an error" % (side, line)
    return None


def fio(verb, rules="", serve="", connect=""):
    """SENDs are verified by who receives them: each block has its checksum and number in it. There is
    a receive request for each block at once, since fio has no flow control and asks for no retries.
    """
    return cases.Case("fio", "--thread --eta=never --ioengine=rdma --bs=64k --size=2m", "ipv4", fio_finished,
                      fault(rules), label=verb, serve="--port={port} --name=receiver --rw=read --iodepth=32 " + serve,
                      connect="--port={port} --hostname={address} --name=sender --rw=write --iodepth=8 --verb=%s %s"
                      % (verb, connect), ready="waiting for connection")


FIO = [
    *(fio("send", rules, "--verify=crc32c", "--verify=crc32c --do_verify=0") for rules in ("", LOSS)),
    *(fio(verb, rules) for verb in ("write", "read") for rules in ("", LOSS)),
]

GROUPS = {
    "programs": [("interface", LIBFABRIC + LIBFABRIC_LOSS + QPERF + QPERF_LOSS + FIO), ("pair", LIBFABRIC[3:4] + FIO[:1])],
}
