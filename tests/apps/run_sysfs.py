#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What programs under `uroce run` find in /sys/class/infiniband and /dev/infiniband.

Stock tools (sh, cat, ls, find, python) look by all the calls that they have. Exit status 77: it could not
be run.
"""
import contextlib
import os
import sys
import tempfile

import programs
import run_apps

PORT = "/sys/class/infiniband/uroce_lo/ports/1"


class Shell:
    def __init__(self, runner, host):
        self.runner = runner
        self.host = host

    def says(self, line, env=()):
        output, status = self.runner.run_alone(self.host, ["sh", "-c", line], env)
        assert status == 0, "'%s' ended with %s: %s" % (line, status, output)
        return output.split()


def devices_are_listed(shell):
    assert shell.says("ls /sys/class/infiniband") == ["uroce_lo"]
    assert shell.says("ls /sys/class/infiniband/uroce_lo/device/net") == ["lo"]
    assert "uverbs0" in shell.says("ls /sys/class/infiniband_verbs")
    assert shell.says("cat /sys/class/infiniband_verbs/uverbs0/ibdev") == ["uroce_lo"]


def files_agree_with_ibv_devinfo(shell):
    verbose = " ".join(shell.says("ibv_devinfo -v"))
    assert "node_guid: " + shell.says("cat /sys/class/infiniband/uroce_lo/node_guid")[0] in verbose
    assert "fw_ver: " + shell.says("cat /sys/class/infiniband/uroce_lo/fw_ver")[0] in verbose
    assert shell.says("cat %s/state" % PORT) == ["4:", "ACTIVE"]
    assert "PORT_ACTIVE" in verbose
    for index in shell.says("ls %s/gids" % PORT):
        assert shell.says("cat %s/gid_attrs/types/%s" % (PORT, index)) == ["RoCE", "v2"]
        assert shell.says("cat %s/gid_attrs/ndevs/%s" % (PORT, index)) == ["lo"]


def device_node_is_a_character_device_that_can_be_opened(shell):
    shell.says("test -c /dev/infiniband/uverbs0 -a -r /dev/infiniband/uverbs0 "
               "-a -w /dev/infiniband/uverbs0 && : <>/dev/infiniband/uverbs0")


def every_call_finds_it(shell):
    code = ("import glob, os; p = '/sys/class/infiniband/uroce_lo'; "
            "assert os.path.isdir(p) and os.path.islink(p) and os.access(p, os.R_OK); "
            "assert os.listdir(p + '/ports') == ['1']; "
            "assert [e.name for e in os.scandir('/sys/class/infiniband')] == ['uroce_lo']; "
            "assert glob.glob('/sys/class/infiniband/*/ports/1/state'); "
            "d = os.open(p, os.O_RDONLY); assert os.open('fw_ver', os.O_RDONLY, dir_fd=d) > 0; "
            "assert os.path.realpath(p).endswith('/uroce_lo'); "
            "assert not os.path.exists('/sys/class/infinibandit'); print('good')")
    assert shell.says('python3 -c "%s"' % code) == ["good"]
    assert shell.says("find -L /sys/class/infiniband -name fw_ver")
    assert shell.says("cd %s/counters && cat port_xmit_data" % PORT) == ["0"]


def other_paths_are_left_alone(shell):
    assert shell.says("cat /proc/self/comm") == ["cat"]
    assert "lo" in shell.says("ls /sys/class/net")
    shell.says("test ! -e /sys/class/infiniband/none && test ! -e /dev/infinibandit")


def switched_off_nothing_is_redirected(shell):
    with_it, without = (shell.says("ls -d /sys/class/infiniband/uroce_lo 2>&1 || :", env)
                        for env in ((), (("UROCE_SYSFS", "off"),)))
    assert with_it != without, without
    assert shell.says("env | grep -c UROCE_SYSFS_ROOT || :", (("UROCE_SYSFS", "off"),)) == ["0"]


def a_program_with_verbs_sees_its_own_gid_table(shell):
    """An address that comes while a device is open: the file and ibv_query_gid agree."""
    code = """
import ctypes, subprocess, time
path = '/sys/class/infiniband/uroce_lo/ports/1/'
verbs = ctypes.CDLL('libibverbs.so.1')
verbs.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
verbs.ibv_open_device.restype = ctypes.c_void_p
verbs.ibv_open_device.argtypes = [ctypes.c_void_p]
verbs.ibv_query_gid.argtypes = [ctypes.c_void_p, ctypes.c_uint8, ctypes.c_int, ctypes.c_void_p]
context = verbs.ibv_open_device(verbs.ibv_get_device_list(None)[0])
def table():
    found, gid = [], (ctypes.c_uint8 * 16)()
    while verbs.ibv_query_gid(context, 1, len(found), gid) == 0 and any(gid):
        found.append(bytes(gid).hex())
    return found
before = table()
subprocess.run(['ip', 'address', 'add', '127.9.9.9/32', 'dev', 'lo'], check=True)
for _ in range(200):
    if len(table()) > len(before):
        break
    time.sleep(0.05)
for index, gid in enumerate(table()):
    assert open(path + 'gids/%d' % index).read().replace(':', '').strip() == gid, (index, gid)
    ndev = open(path + 'gid_attrs/ndevs/%d' % index).read()
    assert ndev == 'lo\\n', (index, ndev)
assert len(table()) == len(before) + 1, (before, table())
unused = open(path + 'gid_attrs/types/%d' % len(table())).read()
assert unused == '', repr(unused)
print('good')
"""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
        script.write(code)
        script.flush()
        os.chmod(script.name, 0o644)
        line = ("unshare -cn --keep-caps sh -c 'ip link set lo up; exec %s run -d lo -- python3 %s' 2>&1 || :"
                % (shell.runner.uroce, script.name))
        said = shell.says(line)
    assert said[-1:] == ["good"], said


def counters_are_those_of_now(shell):
    port = str(programs.free_port())
    words = ["ib_write_bw", "-F", "-x", shell.runner.gid_index(shell.host, "ipv4"), "-n", "20000000",
             "-p", port]
    ends = [shell.runner.start(shell.host, words)]
    try:
        while not programs.listens(ends[0].pid, int(port)):
            assert ends[0].alive(), ends[0].output
        ends.append(shell.runner.start(shell.host, [*words, shell.host.ipv4]))
        line = ("cd %s/counters; while [ $(cat port_xmit_packets) -lt 1000 ]; do sleep 0.1; done; "
                "first=$(cat port_xmit_data); echo $first; "
                "while [ $(cat port_xmit_data) = $first ]; do sleep 0.1; done; cat port_xmit_data; "
                "cat ../hw_counters/rx_write_requests" % PORT)
        first, second, writes = map(int, shell.says(line))
    finally:
        for end in ends:
            end.kill()
    assert 0 < first < second and writes > 0, (first, second, writes)


CASES = (devices_are_listed, files_agree_with_ibv_devinfo,
         device_node_is_a_character_device_that_can_be_opened, every_call_finds_it,
         other_paths_are_left_alone, switched_off_nothing_is_redirected,
         a_program_with_verbs_sees_its_own_gid_table, counters_are_those_of_now)


if __name__ == "__main__":
    sys.exit(run_apps.run_functions(
        __doc__.splitlines()[0], CASES, lambda *where: contextlib.nullcontext(Shell(*where))))
