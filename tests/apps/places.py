# SPDX-License-Identifier: BSD-2-Clause
"""Where a pair of programs runs: networks made for the test and gone with it.

A network namespace lives as long as a process of ours holds it, so nothing is left behind
however the test ends. Root makes namespaces as they are and drops to an ordinary user for the
programs; anybody else makes them inside a user namespace, where the kernel allows that.
"""
import dataclasses
import os
import subprocess
import time

NOBODY = 65534
SOMEBODY = 65533  # another user without rights

# Against hanging only. No run is judged by the time it takes: on a busy machine two programs that
# spin take a hundred times as long as on an idle one.
HANGING_S = 180


class Unavailable(Exception):
    """This machine does not let us make that place; the text says why."""


@dataclasses.dataclass(frozen=True)
class Host:
    """One end: how to get there, and the addresses of its interface."""

    enter: tuple  # command words in front of what shall run there
    netdev: str
    ipv4: str
    ipv6: str
    env: tuple = ()  # more environment for its programs, pairs
    user: int = NOBODY  # as whom root runs its programs
    holder: int = None  # the user that holds the port already


@dataclasses.dataclass(frozen=True)
class Place:
    name: str
    server: Host
    client: Host

    @property
    def one_address(self):
        return self.server is self.client


def is_root():
    return os.geteuid() == 0


def drop_words(user=NOBODY, capability=None):
    """Command words in front of a program: it dies with us, and root becomes an ordinary user, with
    one capability perhaps."""
    words = ["setpriv", "--pdeathsig", "KILL"]
    if is_root():
        words += ["--reuid", str(user), "--regid", str(user), "--clear-groups",
                  "--inh-caps", "-all", "--bounding-set", "-all"]
    if is_root() and capability:
        words[-1] += ",+" + capability
        words[-3] += ",+" + capability
        words += ["--ambient-caps", "+" + capability]
    return (*words, "--")


class Namespaces:
    """Makes network namespaces. Use as a context manager."""

    def __init__(self):
        self._holders = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for holder in self._holders:
            holder.stdin.close()
            holder.wait()
            holder.stdout.close()

    def _enter(self, holder):
        words = ["nsenter", "--target", str(holder.pid), "--net"]
        if not is_root():
            words += ["--user", "--preserve-credentials"]
        return tuple(words + ["--"])

    def new(self):
        """Makes a namespace with loopback up. Returns (pid of its holder, words to enter it)."""
        words = ["unshare", "--net"]
        if not is_root():
            if self._holders:
                # All in one user namespace, or the two ends could not be joined.
                first = str(self._holders[0].pid)
                words = ["nsenter", "--target", first, "--user", "--preserve-credentials",
                         "--"] + words
            else:
                words += ["--user", "--map-root-user"]
        words += ["--", "sh", "-c", "echo ready; exec cat"]
        holder = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True)
        self._holders.append(holder)
        line = holder.stdout.readline().strip()
        if line != "ready":
            raise Unavailable("cannot make a network namespace: %s" % line)
        enter = self._enter(holder)
        # Addresses must be usable at once: no wait for duplicate address detection.
        command(enter, "sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0")
        command(enter, "ip link set lo up")
        return holder.pid, enter


def command(enter, line):
    """Runs one set-up command there; what cannot be set up makes the place unavailable."""
    done = subprocess.run([*enter, *line.split()], capture_output=True, text=True)
    if done.returncode != 0:
        raise Unavailable("'%s': %s" % (line, (done.stderr or done.stdout).strip()))


def set_address(enter, netdev, ipv4, ipv6):
    command(enter, "ip address add %s/24 dev %s" % (ipv4, netdev))
    command(enter, "ip -6 address add %s/64 dev %s nodad" % (ipv6, netdev))
    command(enter, "ip link set %s up" % netdev)


def wait_until_up(enter, netdev):
    """The kernel tells of a carrier a little after it is there, and makes the link-local address
    after that: it comes first among the GIDs, so that all indices move when it appears.
    """
    for _ in range(HANGING_S * 20):
        link, local = (subprocess.run([*enter, "ip", "-brief", *words, "dev", netdev],
                                      capture_output=True, text=True, check=False).stdout
                       for words in (["link", "show"], ["-6", "address", "show", "scope", "link"]))
        if link.split()[1:2] == ["UP"] and "fe80:" in local:
            return
        time.sleep(0.05)
    raise Unavailable("%s does not come up: %s %s" % (netdev, link.strip(), local.strip()))


def loopback(namespaces):
    """Both ends on 127.0.0.1. Without namespaces: on the loopback of this machine."""
    try:
        _, enter = namespaces.new()
    except Unavailable:
        enter = ()
    host = Host(enter, "lo", "127.0.0.1", "::1")
    return Place("lo", host, host)


def interface(namespaces):
    """Both ends on the one address of an interface made for them."""
    _, enter = namespaces.new()
    command(enter, "ip link add test0 mtu 9000 type veth peer name cable")
    command(enter, "ip link set cable up")
    set_address(enter, "test0", "10.66.1.1", "fd66:1::1")
    wait_until_up(enter, "test0")
    host = Host(enter, "test0", "10.66.1.1", "fd66:1::1")
    return Place("interface", host, host)


def pair(namespaces, name="pair", mtu=9000):
    """Two hosts with a cable between them."""
    ends = []
    pid, client_enter = namespaces.new()
    _, server_enter = namespaces.new()
    command(server_enter, "ip link add test0 mtu %d type veth peer name test0 mtu %d netns %d"
            % (mtu, mtu, pid))
    for number, enter in ((1, server_enter), (2, client_enter)):
        addresses = ("10.66.2.%d" % number, "fd66:2::%d" % number)
        set_address(enter, "test0", *addresses)
        ends.append(Host(enter, "test0", *addresses))
    for end in ends:
        wait_until_up(end.enter, "test0")
    return Place(name, *ends)


def narrow_pair(namespaces):
    """The same with the MTU of ordinary Ethernet: path MTU 1024."""
    return pair(namespaces, "pair1500", 1500)


def users(namespaces):
    """Both ends on one address, as two users: the client is a guest of the server's user."""
    if not is_root():
        raise Unavailable("cannot be two users")
    _, enter = namespaces.new()
    return Place("users", Host(enter, "lo", "127.0.0.1", "::1"),
                 Host(enter, "lo", "127.0.0.1", "::1", user=SOMEBODY))


def guests(namespaces):
    """Two hosts, on each of which the port is another user's: both ends are guests of its sleeper."""
    if not is_root():
        raise Unavailable("cannot be two users")
    place = pair(namespaces, "guests")
    return Place("guests", *(dataclasses.replace(host, user=SOMEBODY, holder=NOBODY)
                             for host in (place.server, place.client)))


RAW = (("UROCE_RAW", "on"),)  # root leaves programs with this the capability that it needs


def raw(host):
    return dataclasses.replace(host, env=RAW)


def raw_pair(namespaces):
    """Two hosts whose programs see whole frames."""
    place = pair(namespaces, "raw")
    return Place("raw", raw(place.server), raw(place.client))


def raw_client(namespaces):
    """One of them does."""
    place = pair(namespaces, "raw-client")
    return Place("raw-client", place.server, raw(place.client))


def raw_server(namespaces):
    place = pair(namespaces, "raw-server")
    return Place("raw-server", raw(place.server), place.client)


PLACES = {"lo": loopback, "interface": interface, "pair": pair, "pair1500": narrow_pair,
          "users": users, "guests": guests,
          "raw": raw_pair, "raw-client": raw_client, "raw-server": raw_server}
