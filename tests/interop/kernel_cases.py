# SPDX-License-Identifier: BSD-2-Clause
"""The table of cases against the kernel: which program, with which arguments, at which path MTU.

Each is run with uroce as the server and as the client, over each address family that it names.
"""
import collections
import dataclasses
import pathlib
import re
import struct
import sys

import cases
import cm_cases
import places
import programs
import transfers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "golden/captures"))
import check_icrc  # noqa: E402

WIDE = 4096    # path MTU of jumbo frames (MTU 9000)
NARROW = 1024  # ... and of ordinary Ethernet (MTU 1500)
BOTH = (WIDE, NARROW)


@dataclasses.dataclass(frozen=True)
class Row:
    """A case and where it is run. Of its serve and connect, {address} is the server's, {own} the
    side's own, {gid} the index of that, {port} a port."""

    case: cases.Case
    group: str
    mtus: tuple = BOTH
    clients: int = 1       # how many, one after the other
    over_tcp: bool = True  # the server listens on a TCP port, not by RDMA CM
    netem: str = ""        # how the guest's traffic control treats packets, both ways
    shown: str = ""        # what the case's arguments do not say
    kernel_expect: object = None  # where the kernel serves, if that is something else
    may_fail: bool = False  # expect judges all, the sides' statuses too
    capture: object = None  # what is wrong with what the guest's interface saw, a file, or None

    def path_mtu(self, widest):
        """Of its packets: what it says, or the largest that there is."""
        said = re.search(r"(?:^| )(?:-m|--mtu) (\d+)(?: |$)", self.case.arguments)
        return int(said.group(1)) if said else widest

    @property
    def program(self):
        return " ".join(filter(None, (self.case.program, self.case.arguments, self.shown)))

    @property
    def name(self):
        return " ".join(filter(None, (self.case.name, self.shown, self.netem)))


def rows(group, found, **how):
    return [Row(case, group, **how) for case in found]


def pingpongs(program, *lines, mtus=BOTH):
    return rows("verbs", cases.pingpongs(program, *lines), mtus=mtus)


def perftests(program, *lines, mtus=BOTH, families=("ipv4", "ipv6")):
    return rows("verbs", [case for line in lines for family in families
                          for case in cases.perftests(program, line, family=family)], mtus=mtus)


def connected(program, *lines, clients=1, mtus=BOTH, **how):
    return rows("RDMA CM", cm_cases.connected(program, *lines, **how), clients=clients,
                over_tcp=False, mtus=mtus)


def perftests_connected(program, *lines):
    """By IPv4 alone, as perftest 4.5 does with -R."""
    return connected(program, *lines, families=("ipv4",), expect=cases.perftest,
                     serve="-p {port}", connect="{address} -p {port}")


# --- RDMA CM ---

def answered(run):
    """uroce ping: each question got its answer."""
    asked, _, heard = re.search(r"^(\d+) asked, ((\d+) answered)?", run.client, re.M).groups()
    return None if asked == heard else "%s of %s answered" % (heard, asked)


RPING = {"expect": cm_cases.rping, "serve": "-s -a {address} -p {port}",
         "connect": "-c -a {address} -p {port}"}
PERSISTENT = {**RPING, "serve": "-s -P -a {address} -p {port}", "stays": True}

RDMACM = [
    *rows("RDMA CM", [cases.Case("uroce ping", "-c 3", family, answered, pair=False)
                      for family in ("ipv4", "ipv6")]),
    *connected("rping", "-C 10 -V -v", "-C 5 -V -v -S 9999", **RPING),
    *connected("rping", "-C 3 -V -v", clients=3, **PERSISTENT),
    *connected("ucmatose", "", "-c 10 -C 5 -S 3000", expect=cm_cases.FINISHED),
    *connected("udaddy", "", "-c 3 -S 1000", expect=cm_cases.FINISHED, serve="-b {address}",
               connect="-s {address}"),
    *connected("cmtime", "-c 20", expect=cm_cases.cmtime, stays=True),
    *connected("rdma_client", "", partner="rdma_server", serve="-s {address} -p {port}",
               expect=cm_cases.says(r": end 0$")),
    *connected("rdma_xclient", "", partner="rdma_xserver", families=("ipv4",), serve="-p {port}",
               expect=cm_cases.says(r": end 0$")),
    # IPv4 alone: Linux joins no IPv6 group on RoCE v2.
    *rows("RDMA CM", cm_cases.multicasts("ipv4", "239.1.2.3"), over_tcp=False),
    *rows("RDMA CM", cm_cases.multicasts("ipv4", "239.1.2.3", "-o"), over_tcp=False,
          shown="-o of the sender"),
    *perftests_connected("ib_send_bw", "-R -F -n 20", "-R -F -n 50 -c UD -s 1024"),
    *perftests_connected("ib_write_bw", "-R -F -n 20 -q 4"),
    *perftests_connected("ib_read_bw", "-R -F -n 20"),
    *perftests_connected("ib_write_lat", "-R -F -n 50"),
    *perftests_connected("ib_atomic_lat", "-R -F -n 50"),
]

# Not rstream -T a: a client that is slower than its server finds the end of the connection before the
# last data, and takes that for an error, with the distribution's library on both sides too.
# Not udpong: over soft-RoCE, rconnect of the distribution's datagram sockets fails (ENOENT).
STREAMS = rows("rsocket", [
    *cm_cases.streams("rstream", "-T v -I 20 -C 20", "-T v -S 100000 -I 5 -C 5",
                      "-T b -T v -I 20 -C 20", "-T n -T v -I 20 -C 20", "-B 4096 -T v -I 10 -C 20"),
    *cm_cases.streams("riostream", "-T v -I 20 -C 20", "-T a -T v -S 100000 -I 5 -C 5"),
], over_tcp=False)

# --- queue pairs that meet over TCP ---

VERBS = [
    *pingpongs("ibv_rc_pingpong", "-c -n 100"),
    *pingpongs("ibv_rc_pingpong", "-c -n 50 -e -s 10001 -m 256", "-c -n 50 -s 65536 -m 4096",
               mtus=(WIDE,)),
    *pingpongs("ibv_uc_pingpong", "-c -n 100 -s 5000"),
    *pingpongs("ibv_ud_pingpong", "-c -n 100 -s 1024"),
    *pingpongs("ibv_srq_pingpong", "-c -n 100 -q 4"),
    *perftests("ib_send_bw", "-n 20", "-n 20 -b -e", "-n 20 -s 10001 -c UC", "-n 50 -s 1024 -c UD"),
    *perftests("ib_write_bw", "-n 20", "-n 20 -s 10001 -q 4"),
    *perftests("ib_read_bw", "-n 20 -o 16", "-n 20 -o 1 -s 10001", "-n 20 -o 16 -b -s 10001"),
    *perftests("ib_atomic_bw", "-n 50 -o 16 -A FETCH_AND_ADD", "-n 50 -o 16 -A CMP_AND_SWAP"),
    *perftests("ib_send_lat", "-n 50", "-n 50 -s 5000", "-n 50 -c UD"),
    *perftests("ib_write_lat", "-n 50", "-n 50 -s 5000"),
    *perftests("ib_read_lat", "-n 50 -o 16", "-n 50 -o 16 -s 5000"),
    *perftests("ib_atomic_lat", "-n 50 -o 16 -A FETCH_AND_ADD", "-n 50 -o 16 -A CMP_AND_SWAP"),
    # All sizes, to 8 MiB: the emulated machine has no time for latencies of these.
    *(row for program, options in (("ib_send_bw", ""), ("ib_write_bw", ""), ("ib_read_bw", " -o 16"))
      for row in perftests(program, "-a -n 5" + options, mtus=(WIDE,), families=("ipv4",))),
]


def verified(run):
    """Both sides looked at every byte."""
    for side, output in (("client", run.client), ("server", run.server)):
        if not re.search(r"^verified [1-9]\d* operations", output, re.M):
            return "the %s verified nothing" % side
    return None


def verifying(*lines, families=("ipv4", "ipv6"), **how):
    return [cases.Case("verified_transfer", line, family, **{"expect": verified, **how},
                       serve="--port {port} --gid {own}",
                       connect="--port {port} --gid {own} {address}")
            for line in lines for family in families]


# Every size up to some, and odd ones; SEND, WRITE, READ and atomics at once.
DATA = [
    *rows("data", verifying("--mtu 1024 -n 100 -s 5001 -q 2", "--mtu 1024 -n 30 -x -s 10001",
                            "--mtu 1024 -n 60 -x -s 3 -d 8"), mtus=(NARROW,)),
    *rows("data", verifying("--mtu 4096 -n 60 -s 40001 -q 2"), mtus=(WIDE,)),
]

# --- exact operations, and their errors ---

FLUSHED, INVALID, ACCESS, OPERATION, RNR = 5, 9, 10, 11, 13  # of enum ibv_wc_status


def statuses(*wanted):
    """The client's requests end so."""
    def judge(run):
        found = tuple(int(word) for word in
                      re.findall(r"^send wr \d+ status (\d+)", run.client, re.M))
        if found != wanted:
            return "requests ended with %s, not %s" % (found, wanted)
        status = 3 if any(wanted) else 0
        return None if run.client_status == status else "status %s" % run.client_status
    return judge


def operations(line, *wanted, options="-m 1024", kernel=None, families=("ipv4", "ipv6")):
    """kernel: what comes of it where the kernel is the responder, if that is something else."""
    for family in families:
        case = cases.Case("rxeops", options, family, statuses(*wanted),
                          serve="-T 18 -g {gid} -p {port} -l",
                          connect="-T 18 -g {gid} -p {port} {address} " + line)
        yield Row(case, "operations", (WIDE,), shown=line,
                  kernel_expect=statuses(*kernel) if kernel else None, may_fail=True)


def succeed(line, **how):
    sent = [part for word in line.split() if not re.match("(l?recv|srv|sleep)", word)
            for part in word.split("+") if part != "fence"]
    return operations(line, *[0] * len(sent), **how)


OPERATIONS = [
    *succeed("recv:8192:12 send:100 send:1501 send:3003 send_imm:101 send_imm:3001 write:102 "
             "write:3003 write_imm:103 write_imm:3001 read:1 read:1501 read:3003 cas fadd"),
    *succeed("recv:20000:12 send:4096 send:8001 send_imm:12287 write:4097 write:12288 "
             "write_imm:8001 read:4095 read:12289 cas", options="-m 4096"),
    *succeed("recv:64:4 send:0 send_imm:0 write:0 write_imm:0 read:0"),
    *succeed("recv:4096:8 write:3000+write:3000+send:100+send:100+read:3000+read:100+fadd+write:10"
             "+fence+write:20+cas+send:3000"),
    *succeed("recv:4096:2 lrecv:4096:2 send:3000 srv:send:3000 write:100 srv:write:100 "
             "srv:read:3000 srv:fadd"),
    *succeed("recv:4096:2 write:5000 send:100 read:3000 srv:write:3000",
             options="-m 1024 -s 0xfffffe"),
    *succeed("recv:8192:12 send:100 send:3003 send_imm:101 write:102 write:3003 write_imm:3001",
             options="-m 1024 -t uc"),
    *succeed("recv:4096:2 send_inv:10"),
    *succeed("recv:4096:2 send_inv:3000"),
    *succeed("write_mw:10 write_mw:3001 read_mw:10 read_mw:3001"),
    # Linux 6.1 looks at the bounds of the region beneath the window alone.
    *operations("write_mw_oob:3000", ACCESS, kernel=(0,)),
    *operations("recv:4096:2 write_mw:10 send_inv:10 write_mw:10", 0, 0, ACCESS),
    *operations("write:8 write_rkey:3000", 0, ACCESS),
    *operations("write_oob:3000", ACCESS),
    *operations("write_ro:100", ACCESS),
    *operations("read:8 read_rkey:3000", 0, ACCESS),
    *operations("read_oob:3000", ACCESS),
    *operations("read_wo:100", ACCESS),
    *operations("cas cas_rkey", 0, ACCESS),
    *operations("cas_ro", ACCESS),
    *operations("recv:100:4 write:100+write_rkey:100+write:100+send:10", 0, ACCESS, FLUSHED,
                FLUSHED),
    *succeed("recv:4096:1:300 send:3000", options="-m 1024 -r 20"),
    *succeed("recv:0:1:300 write_imm:3000", options="-m 1024 -r 20"),
    *operations("send:100", RNR, options="-m 1024 -r 14 -N 2"),
    *operations("recv:50:1 send:100", INVALID, kernel=(OPERATION,)),
    *operations("recv:1500:1 send:3000", INVALID, kernel=(OPERATION,)),
]

# --- loss: by uroce's faults, and by the guest's traffic control ---

FAULTS = (programs.PATIENCE_AT_LOSS, ("UROCE_FAULT", "drop=1%,reorder=1%,seed=7"))
NETEM = "delay 500us loss 1% reorder 2%"


def lossy():
    """What verifies its data, with enough packets that some are hit."""
    faulty = [
        *verifying("--mtu 1024 -n 60 -s 20001 -q 2"),
        *cases.pingpongs("ibv_rc_pingpong", "-c -n 100 -s 10001 -m 1024"),
        *cm_cases.connected("rping", "-C 20 -V -v -S 5000", **RPING),
        *cm_cases.connected("ucmatose", "-c 5 -C 5 -S 5000", expect=cm_cases.FINISHED),
        *cases.perftests("ib_read_bw", "-n 20 -o 16 -m 1024"),
        *cases.perftests("ib_write_bw", "-n 20 -m 1024"),
        *cases.perftests("ib_atomic_bw", "-n 100 -o 16 -A FETCH_AND_ADD"),
    ]
    for case in faulty:
        met = not case.connect or case.program == "verified_transfer"
        yield Row(dataclasses.replace(case, env=FAULTS, expect=cases.suffers(case.expect)), "loss (faults)",
                  (WIDE,), over_tcp=met)
        yield Row(case, "loss (tc)", (WIDE,), over_tcp=met, netem=NETEM)


# --- the identification of IPv4, which the ICRC covers and a UDP socket does not see ---

KERNEL, UROCE = bytes([10, 77, 0, 2]), bytes([10, 77, 0, 1])


def numbered(path):
    """Every packet's ICRC covers the identification that it has: the kernel's run, ours count the
    segments of a batch that a kernel cut."""
    seen = collections.defaultdict(list)
    for _, link, frame in check_icrc.frames(path):
        found = check_icrc.roce(check_icrc.ip_of(link, frame))
        if not found:
            continue
        ihl, ip = found
        identification, fragment = struct.unpack_from(">HH", ip, 4)
        if check_icrc.icrc(ihl, ip) != struct.unpack_from("<I", ip, len(ip) - 4)[0]:
            return "a packet from %s has a wrong ICRC" % ".".join(map(str, ip[12:16]))
        if fragment != 0x4000:
            return "a packet without DF, or a fragment"
        seen[ip[12:16]].append(identification)
    if len(set(seen[KERNEL])) < len(seen[KERNEL]) / 2:
        return "the kernel's identifications do not run"
    if not {0, 1, 2, 3} <= set(seen[UROCE]) or max(seen[UROCE]) >= 64:
        return "uroce's identifications are %s" % sorted(set(seen[UROCE]))
    return None


def told(run):
    """The output of uroce's side, which tells its counters."""
    return run.client if "rcv_datagrams" in run.client else run.server


def accepts_all(run):
    rejected = transfers.counter(told(run), "icrc_error")
    return verified(run) or ("%d ICRCs found wrong" % rejected if rejected else None)


def rejects_some(run):
    return verified(run) or (None if transfers.counter(told(run), "icrc_error") else
                             "no ICRC found wrong")


IDENTIFICATION = [
    *rows("identification", verifying("--mtu 1024 -n 20 -x -s 30001", families=("ipv4",),
                                      expect=accepts_all, env=transfers.COUNTED),
          mtus=(WIDE,), capture=numbered),
    # The kernel sends UDP without a checksum: damage reaches us.
    *rows("identification", verifying("--mtu 1024 -n 60 -s 20001", expect=rejects_some,
                                      env=(*transfers.COUNTED, programs.PATIENCE_AT_LOSS)),
          mtus=(WIDE,), netem="corrupt 2%"),
]

# --- whole frames ---

RAW = [
    *rows("raw", verifying("--mtu 4096 -n 30 -s 20001 -q 2", expect=accepts_all,
                           env=(*transfers.COUNTED, *places.RAW)), mtus=(WIDE,)),
    *rows("raw", cases.perftests("ib_send_bw", "-n 50 -s 10001 -m 4096", env=places.RAW), mtus=(WIDE,)),
    *rows("raw", cm_cases.connected("rping", "-C 5 -V -v -S 9999", env=places.RAW, **RPING),
          mtus=(WIDE,), over_tcp=False),
]

ROWS = [*RDMACM, *STREAMS, *VERBS, *DATA, *OPERATIONS, *lossy(), *IDENTIFICATION, *RAW]
