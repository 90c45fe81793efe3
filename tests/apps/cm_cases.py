# SPDX-License-Identifier: BSD-2-Clause
"""Stock programs that connect by RDMA CM: rdmacm-utils, also those of rsocket, and perftest with -R.

Their ports are of RDMA CM, so that nobody sees from outside whether a server listens already: a
client that was refused asks again (run_apps.py).
"""
import re

import cases
import programs

# What a client says to whom nobody listens.
REFUSED = re.compile(r"refused|RDMA_CM_EVENT_REJECTED|RDMA_CM_EVENT_UNREACHABLE[;,] error: 1\b"
                     r"|Unexpected CM event", re.I)

LOSS = (programs.PATIENCE_AT_LOSS, ("UROCE_FAULT", "drop=0.5%,seed=7"))


def says(*patterns):
    """Both sides have a line like each of these; of one that was stopped nothing is asked."""
    def judge(run):
        for side, output in (("client", run.client), ("server", run.server)):
            if side == "server" and run.case.stays:
                continue
            for pattern in patterns:
                if not re.search(pattern, output, re.M):
                    return "the %s has no line like '%s'" % (side, pattern)
        return None
    return judge


def rping(run):
    """Each message came back as it was sent: the client compares them (-V) and shows them (-v)."""
    found = re.findall(r"^ping data: rdma-ping-(\d+):", run.client, re.M)
    wanted = [str(number) for number in range(int(run.option("C", 0)))]
    return None if found == wanted else "the client shows %d of %d" % (len(found), len(wanted))


def cmtime(run):
    """A row for each step, with a time for each connection."""
    for step in ("resolve addr", "resolve route", "create qp", "connect", "disconnect"):
        if not re.search(r"^%s *: +\d+\.\d+ " % step, run.client, re.M):
            return "the client has no row for '%s'" % step
    return None


def connected(program, *lines, expect, families=("ipv4", "ipv6"), env=(), **how):
    how = {"serve": "-b {address} -p {port}", "connect": "-s {address} -p {port}", **how}
    return [cases.Case(program, line, family, expect, env, **how)
            for line in lines for family in families]


def perftests(program, *lines, **more):
    return connected(program, *lines, expect=cases.perftest, families=("ipv4",),
                     serve="-p {port}", connect="{address} -p {port}", **more)


def streams(program, *lines, **more):
    """rstream and riostream compare what they get (-T v), and show a row when all came."""
    finished = says(r"^custom +\S+ +\d+ +\S+ +\S+ +[\d.]+s")
    expect = cases.suffers(finished) if more.get("env") else finished
    return connected(program, *lines, expect=expect, **more)


def datagrams(*lines, **more):
    """The client of udpong shows a row; datagrams may be lost, and it sends again."""
    def judge(run):
        return None if re.search(r"^custom +\S+ +\d+", run.client, re.M) else "the client has no row"
    return connected("udpong", *lines, expect=judge, stays=True, **more)


FINISHED = says(r"^test complete$", r"^return status 0$")


def rdmacm(env=()):
    """What sends enough for faults to meet some of it."""
    expect = cases.suffers if env else lambda judge: judge
    return [
        *connected("rping", "-C 200 -V -v", expect=expect(rping), env=env,
                   serve="-s -a {address} -p {port}", connect="-c -a {address} -p {port}"),
        *connected("ucmatose", "-c 50", expect=expect(FINISHED), env=env),
        *connected("cmtime", "-c 100", expect=expect(cmtime), env=env, stays=True),
        *perftests("ib_write_bw", "-R -F -n 500", env=env),
        *perftests("ib_read_lat", "-R -F -s 5000 -n 200", env=env),
    ]


CLEAN = [
    *rdmacm(),
    *connected("rping", "-C 10 -V -v -S 1000", expect=rping, serve="-s -a {address} -p {port}",
               connect="-c -a {address} -p {port}"),
    *connected("rping", "-C 20 -V -v", expect=rping, stays=True, label="-P",
               serve="-s -P -a {address} -p {port}", connect="-c -a {address} -p {port}"),
    *connected("ucmatose", "-c 3 -C 5 -S 10000", "-c 3 -t 8", expect=FINISHED),
    *connected("ucmatose", "-c 2000 -C 1", families=("ipv4",), expect=FINISHED),  # all at once
    *connected("udaddy", "", "-c 5 -S 1000", expect=FINISHED, serve="-b {address}",
               connect="-s {address}"),
    *connected("rdma_client", "", partner="rdma_server", serve="-s {address} -p {port}",
               expect=says(r": end 0$")),
    *connected("rdma_xclient", "", "-c x", partner="rdma_xserver", families=("ipv4",),
               serve="-p {port}", expect=says(r": end 0$")),
    *perftests("ib_send_bw", "-R -F -n 500", "-R -F -n 500 -c UD -s 1024", "-R -F -q 4 -n 200"),
    *perftests("ib_write_lat", "-R -F"),
    *perftests("ib_read_bw", "-R -F -n 500"),
    *perftests("ib_send_lat", "-R -F"),
    *perftests("ib_atomic_bw", "-R -F"),
    *perftests("ib_atomic_lat", "-R -F"),
]

# So few packets that chance would meet none of them: the third is lost, and each third after it.
FEW_LOST = (programs.PATIENCE_AT_LOSS, ("UROCE_FAULT", "drop:every=3:count=4"))
FEW = [
    *connected("rdma_client", "", partner="rdma_server", serve="-s {address} -p {port}",
               expect=cases.suffers(says(r": end 0$")), env=FEW_LOST),
    *connected("rdma_xclient", "", "-c x", partner="rdma_xserver", families=("ipv4",),
               serve="-p {port}", expect=cases.suffers(says(r": end 0$")), env=FEW_LOST),
    # The first message of SIDR is lost, and the first answer. Datagrams udaddy and mckey miss for ever,
    # over any adapter: they count them and send none again.
    *connected("udaddy", "-c 5", expect=cases.suffers(FINISHED), serve="-b {address}", connect="-s {address}",
               env=(programs.PATIENCE_AT_LOSS, ("UROCE_FAULT", "drop:dir=out:count=1"))),
]


# The one who sends starts when the other hears: neither waits for anybody, and mckey takes six seconds.
def multicasts(family, group, sender=""):
    return connected("mckey", "-c 3 -S 1000", families=(family,), expect=FINISHED,
                     serve="-m %s -b {address}" % group,
                     connect="-m %s -s -b {own} %s" % (group, sender),
                     ready=r"receiving data transfers")


MULTICAST = multicasts("ipv4", "239.1.2.3", "-o") + multicasts("ipv6", "ff0e::77:1")

RSOCKET = [
    *streams("rstream", "-T v -I 30 -C 30", "-T v -S 100000 -I 5 -C 10", "-T a -T v -I 30 -C 30"),
    *streams("rstream", "-T b -T v -I 30 -C 30", "-T n -T v -I 30 -C 30", "-T r -T v -I 30 -C 30",
             "-B 4096 -T v -I 10 -C 20", "-T a -T n -T v -S 5000 -I 10 -C 10",
             families=("ipv4",)),
    *streams("riostream", "-T v -I 30 -C 30"),
    *streams("riostream", "-T a -T v -S 100000 -I 5 -C 10", families=("ipv4",)),
    *datagrams("-T e -C 50 -S 500"),
    *datagrams("-C 100 -S 500", "-T a -T e -C 50 -S 500", families=("ipv4",)),
]

RSOCKET_FAULTS = [
    *streams("rstream", "-T v -S 3000 -I 20 -C 20", env=LOSS),
    *streams("riostream", "-T v -S 3000 -I 20 -C 20", env=LOSS),
]

# As users who share the port: a guest's listener is found by others, too.
USERS = [
    *connected("rping", "-C 100 -V -v", expect=rping, serve="-s -a {address} -p {port}",
               connect="-c -a {address} -p {port}"),
    *connected("ucmatose", "-c 20", expect=FINISHED),
    *connected("udaddy", "", expect=FINISHED, serve="-b {address}", connect="-s {address}"),
    *perftests("ib_write_bw", "-R -F -n 500"),
]

# Whole frames on both sides, and on one.
RAW = [
    *cases.RAW,
    *connected("rping", "-C 50 -V -v -S 1000", expect=rping, serve="-s -a {address} -p {port}",
               connect="-c -a {address} -p {port}"),
]

GROUPS = {
    "raw": [("raw", RAW), ("raw-client", RAW[::2]), ("raw-server", RAW[1::2])],
    "rdmacm": [("lo", CLEAN), ("pair", CLEAN + MULTICAST)],
    "rdmacm-faults": [("lo", rdmacm(LOSS) + FEW)],
    "rsocket": [("lo", RSOCKET), ("pair", RSOCKET), ("lo", RSOCKET_FAULTS)],
    "rdmacm-users": [("users", USERS), ("guests", USERS)],
}
