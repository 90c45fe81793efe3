#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Smallest proof that a program on this host and rdma_rxe in the VM understand
each other's packets: sends a CM REQ for a service nobody listens on to QP 1 of
the peer and expects a CM REJ with reason 8 and a correct ICRC.

usage: smoke.py [PEER-ADDRESS [LOCAL-ADDRESS]]     (default 10.77.0.2; IPv6 works)
       inside the bridge's network namespace, as root (raw socket)
Standard library only.
"""
import ipaddress
import socket
import struct
import sys
import time
import zlib

PORT = 4791


def icrc(ip_header, udp_header, rest):
    """ip_header, udp_header as on the wire; rest: BTH and what follows, no ICRC"""
    h, u, r = bytearray(ip_header), bytearray(udp_header), bytearray(rest)
    if h[0] >> 4 == 4:
        h[1] = h[8] = h[10] = h[11] = 0xff
    else:
        h[0] |= 0x0f
        h[1] = h[2] = h[3] = h[7] = 0xff
    u[6] = u[7] = 0xff
    r[4] = 0xff
    return zlib.crc32(bytes(h + u + r), zlib.crc32(b"\xff" * 8)) & 0xffffffff


def gid(a):
    return a.packed if a.version == 6 else b"\0" * 10 + b"\xff\xff" + a.packed


def cm_req(src, dst, port):
    ip_cm = struct.pack(">BBH", 0x00, src.version << 4, 7777)
    for a in (src, dst):
        ip_cm += a.packed.rjust(16, b"\0")
    req = struct.pack(">IIQQII", 0x01020304, 0, 0x0000000001060000 | port,
                      0x5254000000000001, 0, 0)
    req += struct.pack(">IIII", 0x000011 << 8 | 1,       # local QPN, responder res.
                       1,                                # local EECN, initiator depth
                       20 << 3,                          # remote EECN, timeout
                       0x000000 << 8 | 20 << 3 | 7)      # starting PSN, timeout, retry
    req += struct.pack(">HBB", 0xffff, 3 << 4 | 7, 15 << 4)   # P_Key, MTU 1024, retries
    req += struct.pack(">HH", 0xffff, 0xffff) + gid(src) + gid(dst)
    req += struct.pack(">IBBBB", 0x3a, 0, 64, 0, 19 << 3)
    req += b"\0" * 44                                    # no alternate path
    req += ip_cm.ljust(92, b"\0")
    mad = struct.pack(">BBBBHHQHHI", 1, 7, 2, 3, 0, 0, 0x1122334455667788, 0x0010, 0, 0)
    mad = mad + req
    assert len(mad) == 256, len(mad)
    bth = struct.pack(">BBHII", 0x64, 0x00, 0xffff, 1, 0x80000000 | 1)
    deth = struct.pack(">II", 0x80010000, 1)
    return bth + deth + mad


def main():
    dst = ipaddress.ip_address(sys.argv[1] if len(sys.argv) > 1 else "10.77.0.2")
    v4 = dst.version == 4
    fam = socket.AF_INET if v4 else socket.AF_INET6
    if len(sys.argv) > 2:
        src = ipaddress.ip_address(sys.argv[2])
    else:
        p = socket.socket(fam, socket.SOCK_DGRAM)
        p.connect((str(dst), PORT))
        src = ipaddress.ip_address(p.getsockname()[0])
        p.close()
    s = socket.socket(fam, socket.SOCK_DGRAM)
    if v4:   # IP_MTU_DISCOVER = IP_PMTUDISC_DO: DF, and with it an ID of 0
        s.setsockopt(socket.IPPROTO_IP, 10, 2)
    s.bind((str(src), PORT))
    raw = socket.socket(fam, socket.SOCK_RAW, socket.IPPROTO_UDP)
    raw.settimeout(0.5)
    body = cm_req(src, dst, 9999)
    size = 8 + len(body) + 4
    if v4:
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + size, 0, 0x4000, 64, 17, 0) + src.packed + dst.packed
    else:
        ip = struct.pack(">IHBB", 0x60000000, size, 17, 64) + src.packed + dst.packed
    udp = struct.pack(">HHHH", PORT, PORT, size, 0)
    pkt = body + struct.pack("<I", icrc(ip, udp, body))
    for attempt in range(5):
        s.sendto(pkt, (str(dst), PORT))
        end = time.time() + 3
        while time.time() < end:
            try:
                got, frm = raw.recvfrom(65535)
            except socket.timeout:
                continue
            if ipaddress.ip_address(frm[0].split("%")[0]) != dst:
                continue
            if v4:
                hlen = (got[0] & 15) * 4
                rip, got = got[:hlen], got[hlen:]
            else:    # raw IPv6 sockets give no header, but all that counts is known
                rip = struct.pack(">IHBB", 0x60000000, len(got), 17, 64) + dst.packed + src.packed
            if struct.unpack_from(">H", got, 2)[0] != PORT or len(got) < 288:
                continue
            rudp, rest, crc = got[:8], got[8:-4], struct.unpack("<I", got[-4:])[0]
            attr = struct.unpack_from(">H", rest, 20 + 16)[0]
            reason = struct.unpack_from(">H", rest, 20 + 24 + 10)[0]
            good = icrc(rip, rudp, rest) == crc
            print("answer: MAD attribute 0x%04x, reason %d, ICRC %s%s" % (
                attr, reason, "right" if good else "WRONG",
                ", IP ID 0x%04x" % struct.unpack_from(">H", rip, 4)[0] if v4 else ""))
            if attr == 0x0012 and reason == 8 and good:
                print("ok: the peer accepted our REQ and rejected the service")
                return 0
            return 1
    print("no answer from %s" % dst)
    return 1


if __name__ == "__main__":
    sys.exit(main())
