# SPDX-License-Identifier: BSD-2-Clause
"""The table of cases: which stock program, with which arguments, where, and what must come out.

An expectation is a function of a finished run that returns what is wrong with it, or None.
"""
import dataclasses
import re

import programs

ALL_SIZES = [1 << power for power in range(1, 24)]  # -a of perftest, which takes half a second each

# Messages of stock programs on the way to an exit status of 0.
TROUBLE = re.compile(
    r"invalid data|fail(ed|ure)|couldn'?t|unable to|not supported|cannot|completion with error"
    r"|segmentation|bad key|lost \d+ packets", re.I)
# ... and those that mean nothing here.
HARMLESS = re.compile(r"cpu frequency|cpufreq|tag matching not supported", re.I)


@dataclasses.dataclass(frozen=True)
class Case:
    program: str
    arguments: str = ""
    family: str = "ipv4"  # of the GID: ipv4, ipv6
    expect: object = None
    env: tuple = ()
    pair: bool = True  # a server and a client; else one process
    # Connected by RDMA CM: what tells each side who it is, with {address} and {port} of
    # the server, and {own} address.
    serve: str = ""
    connect: str = ""
    partner: str = ""    # the server's program, if it is another
    stays: bool = False  # the server goes on when its client has ended
    ready: str = ""      # what the server says when its client may come
    label: str = ""      # for the name: what sets the case apart and is no argument of both sides

    @property
    def name(self):
        settings = " ".join("%s=%s" % pair for pair in self.env)
        return " ".join(word for word in (self.program, self.arguments, self.label, self.family, settings)
                        if word)


@dataclasses.dataclass(frozen=True)
class Run:
    """What a finished run left: output and exit status of each side; a lone process is the client."""

    case: Case
    client: str
    client_status: int
    server: str = ""
    server_status: int = 0

    def option(self, letter, default):
        """Value of a one-letter option in the arguments."""
        found = re.search(r"(?:^| )-%s (\S+)" % letter, self.case.arguments)
        return found.group(1) if found else default


def trouble(run):
    """What goes for every run: both sides end well and complain of nothing."""
    for side, status, output in (("client", run.client_status, run.client),
                                 ("server", run.server_status, run.server)):
        if status != 0:
            return "the %s ended with status %s" % (side, status)
        for line in output.splitlines():
            if TROUBLE.search(line) and not HARMLESS.search(line):
                return "the %s says: %s" % (side, line.strip())
    return None


def pingpong(run):
    """Both sides counted all the bytes."""
    default = 1024 if run.case.program == "ibv_ud_pingpong" else 4096
    expected = 2 * int(run.option("s", default)) * int(run.option("n", 1000))
    for side, output in (("client", run.client), ("server", run.server)):
        found = re.search(r"^(\d+) bytes in [\d.]+ seconds", output, re.M)
        if not found:
            return "the %s did not count its bytes" % side
        if int(found.group(1)) != expected:
            return "the %s counts %s bytes, not %d" % (side, found.group(1), expected)
    return None


def xsrq_pingpong(run):
    """Both sides say at their end that all came."""
    for side, output in (("client", run.client), ("server", run.server)):
        if not re.search(r"^success$", output, re.M):
            return "the %s does not say success" % side
    return None


def rows(output):
    """The table that perftest prints: lists of numbers, the size first; a deviation may be nan."""
    found = []
    for line in output.splitlines():
        line = line.partition("uroce:")[0]  # perftest does not end its last line
        if re.fullmatch(r"\s*\d+(\s+([\d.]+|-?nan)){3,}\s*", line):
            found.append([float(word) for word in line.split()])
    return found


def sizes_expected(run):
    words = run.case.arguments.split()
    if "atomic" in run.case.program:
        return [8]
    if "-a" in words:
        mtu = int(run.option("m", 4096))
        return [size for size in ALL_SIZES if run.option("c", "RC") != "UD" or size <= mtu]
    return [int(run.option("s", 65536 if run.case.program.endswith("_bw") else 2))]


def perftest(run):
    """One row for each size, with a speed or a latency that is not nothing."""
    # A busy machine can make a few small messages take so long that their bandwidth rounds to 0.
    table = rows(run.client)
    sizes = [int(row[0]) for row in table]
    if sizes != sizes_expected(run):
        return "the client has rows for sizes %s" % sizes
    # The average: column 3 of bandwidth; in a latency table 5, or 2 with a duration.
    column = 3 if run.case.program.endswith("_bw") else (2 if "-D" in run.case.arguments else 5)
    for row in table:
        if row[column] <= 0 and (row[0] >= 4096 or column != 3):
            return "the client measured nothing at size %d" % row[0]
    return None


def devices(run):
    """A line for the device, with a node GUID."""
    if not re.search(r"^\s+uroce_\S+\s+(?!0{16})[0-9a-f]{16}$", run.client, re.M):
        return "no uroce device with a node GUID"
    return None


def devinfo(run):
    """An active Ethernet port whose first GID is there, RoCE v2, and without holes after it."""
    for text in (r"transport:\s+InfiniBand", r"state:\s+PORT_ACTIVE", r"link_layer:\s+Ethernet",
                 r"GID\[\s*0\]:\s+\S+, RoCE v2"):
        if not re.search(text, run.client):
            return "no line like '%s'" % text
    indices = [int(index) for index in re.findall(r"GID\[\s*(\d+)\]", run.client)]
    if indices != list(range(len(indices))):
        return "GID indices %s" % indices
    return None


def prints_ok(run):
    return None if run.client.strip().endswith("ok") else "it did not get to its end"


PYVERBS = """
import pyverbs.device as d
names = [x.name.decode() for x in d.get_device_list()]
assert names, 'no device'
for name in names:
    context = d.Context(name=name)
    attr = context.query_device()
    assert attr.phys_port_cnt == 1, attr.phys_port_cnt
    port = context.query_port(1)
    assert port.gid_tbl_len > 0, port.gid_tbl_len
    gids = context.query_gid_table(port.gid_tbl_len)
    assert gids, 'no GIDs'
    assert str(context.query_gid(1, 0)) != '0000:0000:0000:0000:0000:0000:0000:0000'
    context.close()
print('ok')
""".strip()

TOOLS = [
    Case("ibv_devices", expect=devices, pair=False),
    Case("ibv_devinfo", "-v", expect=devinfo, pair=False),
    Case("python3 pyverbs", expect=prints_ok, pair=False),
]


def pingpongs(program, *lines):
    return [Case(program, line, family, pingpong)
            for line in lines for family in ("ipv4", "ipv6")]


def xsrq_pingpongs(*lines):
    return [Case("ibv_xsrq_pingpong", line, family, xsrq_pingpong)
            for line in lines for family in ("ipv4", "ipv6")]


PINGPONG = [
    *pingpongs(
        "ibv_rc_pingpong",
        "-c", "-c -e", "-c -s 1", "-c -s 64", "-c -s 65536", "-c -e -s 65536 -m 4096",
        *("-c -s 10001 -m %d" % mtu for mtu in (256, 512, 1024, 2048, 4096)),
        "-c -N", "-c -N -e", "-c -n 5000 -s 16", "-c -r 1"),
    *pingpongs(
        "ibv_uc_pingpong",
        "-c", "-c -e", "-c -s 1", "-c -s 64", "-c -s 65536", "-c -e -s 65536 -m 4096",
        *("-c -s 10001 -m %d" % mtu for mtu in (256, 512, 1024, 2048, 4096))),
    *pingpongs(
        "ibv_ud_pingpong", "-c", "-c -e", "-c -s 1", "-c -s 64", "-c -s 1024", "-c -s 4096"),
    *pingpongs(
        "ibv_srq_pingpong",
        "-c", "-c -e", "-c -s 1", "-c -s 65536", "-c -q 1", "-c -q 4 -e", "-c -s 10001 -m 256"),
    *xsrq_pingpongs("", "-e", "-n 1000", "-n 200 -e -s 10001 -m 256", "-s 65536 -m 4096"),
]

# For an MTU of 1500: what fits there.
PINGPONG_NARROW = [
    *pingpongs("ibv_rc_pingpong", "-c", "-c -e -s 65536"),
    *pingpongs("ibv_uc_pingpong", "-c", "-c -s 65536"),
    *pingpongs("ibv_ud_pingpong", "-c -s 1024"),
    *pingpongs("ibv_srq_pingpong", "-c"),
    *xsrq_pingpongs("-s 65536"),
]

NEW_API = (("UROCE_VENDOR_PART_ID", "4119"),)  # makes perftest post with the ibv_wr_* calls


def perftests(program, *lines, family="ipv4", env=()):
    return [Case(program, line, family, perftest, env) for line in lines]


BANDWIDTH = [
    *perftests(
        "ib_send_bw",
        "-a -n 5", "-a -n 5 -c UC", "-a -n 100 -c UD", "-q 4 -n 500", "-e", "-e -c UD -s 1024",
        "-I 128 -s 128", "-b", "-b -e -q 4 -n 500", "-b -c UC", "-D 1", "-D 1 -b", "-m 256 -n 500",
        "-s 1000 -Q 1", "-c XRC", "-c XRC -b -q 4 -n 500"),
    *perftests("ib_send_bw", "-s 10001 -n 500", "-c UC", "-c UD -s 1024", family="ipv6"),
    *perftests("ib_send_bw", "-s 10001 -n 500", "-c UD -s 1024", env=NEW_API),
    *perftests(
        "ib_write_bw",
        "-a -n 5", "-a -n 5 -c UC", "-q 4 -n 500", "-I 128 -s 128", "-b -n 1000", "-b -q 4 -n 500",
        "-D 1", "-D 1 -c UC", "-m 256 -n 500", "-s 1", "-c XRC -q 4 -n 500"),
    *perftests("ib_write_bw", "-s 10001 -n 500", "-c UC", family="ipv6"),
    *perftests("ib_write_bw", "-s 10001 -n 500", "-I 64 -s 64", env=NEW_API),
    *perftests(
        "ib_read_bw", "-a -n 5", "-q 4 -n 500", "-e", "-b", "-b -q 4 -n 500", "-D 1", "-o 1 -n 500",
        "-m 256 -n 500", "-c XRC -n 500"),
    *perftests("ib_read_bw", "-s 10001 -n 500", family="ipv6"),
    *perftests("ib_read_bw", "-s 10001 -n 500", env=NEW_API),
    *perftests(
        "ib_atomic_bw",
        "-A FETCH_AND_ADD", "-A CMP_AND_SWAP", "-q 4", "-e", "-b", "-D 1", "-o 1", "-c XRC"),
    *perftests("ib_atomic_bw", "-A CMP_AND_SWAP", family="ipv6"),
    *perftests("ib_atomic_bw", "-A FETCH_AND_ADD", env=NEW_API),
]

LATENCY = [
    *perftests(
        "ib_send_lat",
        "-a -n 10", "-a -n 10 -c UC", "-a -n 10 -c UD", "-e", "-e -c UD", "-I 64 -s 64", "-D 1",
        "-m 256 -s 5000", "-c XRC"),
    *perftests("ib_send_lat", "-s 10001", "-c UC", "-c UD", family="ipv6"),
    *perftests("ib_send_lat", "-s 10001", env=NEW_API),
    *perftests("ib_write_lat", "-a -n 10", "-a -n 10 -c UC", "-I 64 -s 64", "-D 1", "-m 256 -s 5000"),
    *perftests("ib_write_lat", "-s 10001", "-c UC", family="ipv6"),
    *perftests("ib_write_lat", "-s 10001", env=NEW_API),
    *perftests("ib_read_lat", "-a -n 10", "-e", "-D 1", "-o 1", "-m 256 -s 5000"),
    *perftests("ib_read_lat", "-s 10001", family="ipv6"),
    *perftests("ib_atomic_lat", "-A FETCH_AND_ADD", "-A CMP_AND_SWAP", "-e", "-D 1"),
    *perftests("ib_atomic_lat", "-A FETCH_AND_ADD", family="ipv6"),
]

# A receiver on another host that gets no core for a while loses datagrams, and a program that counts
# them, or waits for the last byte of a long message, waits for ever. So where the receiver's buffer
# cannot be seen they leave slowly, and are few; latency is not asked of messages of megabytes there.
PACE = (("UROCE_DATAGRAM_RATE", "100M"),)
ONE_SIZE = {"-a -n 10 -c UC": "-c UC -s 65536", "-a -n 10 -c UD": "-c UD -s 4096"}
HOW_MANY = re.compile(r"(^| )-[naD] ?")


def between_hosts(cases):
    """The cases, with datagrams slowed down."""
    for case in cases:
        if re.search(r"-c U[CD]", case.arguments):
            arguments = ONE_SIZE.get(case.arguments, case.arguments)
            if not HOW_MANY.search(arguments):
                arguments += " -n 100"
            case = dataclasses.replace(case, env=case.env + PACE, arguments=arguments)
        yield case


# As users who share the port: no count of datagrams, which a guest may lose.
USERS = [
    *pingpongs("ibv_rc_pingpong", "-c", "-c -e", "-c -s 1", "-c -s 65536 -m 1024"),
    *pingpongs("ibv_uc_pingpong", "-c"),
    *pingpongs("ibv_ud_pingpong", "-c"),
    *pingpongs("ibv_srq_pingpong", "-c -q 4"),
    *perftests("ib_send_bw", "-s 65536 -n 500", "-b -q 4 -n 200"),
    *perftests("ib_write_bw", "-s 65536 -n 500", "-b -q 4 -n 200"),
    *perftests("ib_read_bw", "-s 65536 -n 500", "-b -q 4 -n 200"),
    *perftests("ib_write_lat", "-s 2"),
]

# Every RC program of the list under loss and reordering in both directions, with its data verified
# where it can do that itself (-c). UC and UD lose what is lost: their programs count messages, or wait
# for each, and cannot end well. Few messages, since a lost last packet costs a time-out of 67 ms.
LOSS = (("UROCE_FAULT", "drop=1%,reorder=1%,seed=7"),)
ALL_FAULTS = (("UROCE_FAULT",
               "drop=1%,dup=1%,reorder=1%,corrupt=1%,delay=50us:jitter=50us,mark=5%,seed=7"),)
POINTED = (("UROCE_FAULT", "drop:op=READ_RESP_MIDDLE:per=message:nth=3:count=20,"
                           "drop:op=ACK+ATOMIC_ACK:every=5:count=20"),)


def suffers(expect):
    """What expect says of a run in which faults happened on both sides, or one."""
    def judge(run):
        hits = [int(word) for word in re.findall(r"packets seen, (\d+) hit", run.client + run.server)]
        if not hits:
            return "neither side tells of its faults"
        return expect(run) if any(hits) else "no packet was hit by a fault"
    return judge


def faulty(expect, env, *rows):
    for program, arguments, family in rows:
        yield Case(program, arguments, family, suffers(expect), (programs.PATIENCE_AT_LOSS, *env))


FAULTS = [
    *faulty(pingpong, LOSS,
            ("ibv_rc_pingpong", "-c -n 200", "ipv4"), ("ibv_rc_pingpong", "-c -n 200 -e", "ipv6"),
            ("ibv_rc_pingpong", "-c -n 50 -s 65536 -m 4096", "ipv4"),
            ("ibv_srq_pingpong", "-c -n 200", "ipv4"),
            ("ibv_srq_pingpong", "-c -n 200 -q 4 -e", "ipv6")),
    *faulty(xsrq_pingpong, LOSS,
            ("ibv_xsrq_pingpong", "-s 65536 -n 50", "ipv4"), ("ibv_xsrq_pingpong", "-e -n 200", "ipv6")),
    *faulty(pingpong, ALL_FAULTS, ("ibv_rc_pingpong", "-c -n 50", "ipv4")),
    *faulty(perftest, LOSS,
            ("ib_send_bw", "-n 200", "ipv4"), ("ib_send_bw", "-q 4 -n 100 -b -e", "ipv4"),
            ("ib_write_bw", "-n 200", "ipv4"), ("ib_write_bw", "-q 4 -n 100 -b", "ipv6"),
            ("ib_read_bw", "-n 200", "ipv4"), ("ib_read_bw", "-q 4 -n 100 -e", "ipv4"),
            ("ib_atomic_bw", "-A FETCH_AND_ADD -n 500", "ipv4"),
            ("ib_send_lat", "-s 5000 -n 200", "ipv4"), ("ib_write_lat", "-s 5000 -n 200", "ipv4"),
            ("ib_read_lat", "-s 5000 -n 200", "ipv4"),
            ("ib_atomic_lat", "-A CMP_AND_SWAP -n 500", "ipv4")),
    *faulty(perftest, POINTED,
            ("ib_read_bw", "-n 100", "ipv4"), ("ib_atomic_bw", "-A CMP_AND_SWAP -n 200", "ipv4")),
]

# Kernels that lack a feature, and one that lacks all three.
LACKING = [(("UROCE_GSO", "off"),), (("UROCE_GRO", "off"),), (("UROCE_BPF", "off"),)]
LACKING.append(tuple(env for (env,) in LACKING))
FALLBACKS = [
    dataclasses.replace(case, env=env)
    for env in LACKING
    for case in (
        *pingpongs("ibv_rc_pingpong", "-c -n 200"), *pingpongs("ibv_srq_pingpong", "-c -n 200 -q 4"),
        *perftests("ib_send_bw", "-s 10001 -n 200"), *perftests("ib_write_bw", "-b -q 4 -n 50"),
        *perftests("ib_read_bw", "-s 65536 -n 50"), *perftests("ib_send_lat", "-s 2 -e"))
]

# What is run with whole frames; cm_cases.py says where.
RAW = [
    *pingpongs("ibv_rc_pingpong", "-c -s 65536 -m 4096"),
    *pingpongs("ibv_ud_pingpong", "-c"),
    *perftests("ib_send_bw", "-s 65536 -n 500"), *perftests("ib_send_bw", "-s 10001 -n 200", family="ipv6"),
    *perftests("ib_write_bw", "-b -q 4 -n 100"), *perftests("ib_write_bw", "-n 100", family="ipv6"),
    *perftests("ib_read_bw", "-s 65536 -n 200"), *perftests("ib_read_bw", "-n 100", family="ipv6"),
]

# group: (place, cases) in the order in which they run
GROUPS = {
    "faults": [("lo", FAULTS)],
    "fallbacks": [("lo", FALLBACKS), ("pair1500", FALLBACKS[-len(FALLBACKS) // len(LACKING):])],
    "tools": [("lo", TOOLS), ("interface", TOOLS)],
    "pingpong-one-address": [("lo", PINGPONG), ("interface", PINGPONG)],
    "pingpong-two-namespaces": [("pair", PINGPONG), ("pair1500", PINGPONG_NARROW)],
    "two-users": [("users", USERS), ("guests", USERS)],
    "bandwidth-one-address": [("lo", BANDWIDTH)],
    "bandwidth-two-namespaces": [("pair", [*between_hosts(BANDWIDTH)])],
    "latency-one-address": [("lo", LATENCY)],
    "latency-two-namespaces": [("pair", [*between_hosts(LATENCY)])],
}
