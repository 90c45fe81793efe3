#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tests `uroce run` itself: what it hands on to programs, and what it says when it cannot work.

One line a case, as run_apps.py. Each case is a function whose name is the sentence it proves.
"""
import argparse
import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import places
import programs
import run_apps

USAGE, CANNOT_WORK, CANNOT_RUN, NOT_FOUND = 2, 125, 126, 127
HOLD_PORT = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); " \
            "s.bind(('', 4791)); print('held', flush=True); input()"


class Skipped(Exception):
    """The case cannot be made here."""


@dataclasses.dataclass
class Result:
    status: int
    out: str
    err: str

    def check(self, status, *words):
        """Fails unless the exit status is this one and the messages hold these words."""
        assert self.status == status, "status %d, not %d: %s" % (self.status, status, self.err)
        for word in words:
            assert word in self.err, "'%s' is not in: %s" % (word, self.err)


class Bench:
    """What the cases need: the program, where it would be installed, a folder to write to, a network.

    The network is not this machine's, where another user may hold the port.
    """

    def __init__(self, uroce, installed, scratch, enter):
        self.uroce = uroce
        self.installed = installed
        self.scratch = pathlib.Path(scratch)
        self.enter = enter
        self.drop = places.drop_words()

    def run(self, *words, env=(), enter=None, uroce=None, command="run",
            cwd=None):
        enter = self.enter if enter is None else enter
        full = {"PATH": os.environ["PATH"], **dict(env)}
        done = subprocess.run([*enter, *self.drop, uroce or self.uroce, command, *words], env=full,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=programs.HANGING_S, check=False, cwd=cwd)
        return Result(done.returncode, done.stdout, done.stderr)

    def script(self, name, text):
        path = self.scratch / name
        path.write_text(text, encoding="ascii")
        path.chmod(0o755)
        return str(path)


def the_exit_status_is_the_programs(bench):
    bench.run("sh", "-c", "exit 7").check(7)


def the_library_is_found_before_others_and_others_stay(bench):
    result = bench.run("sh", "-c", "echo $LD_LIBRARY_PATH", env=[("LD_LIBRARY_PATH", "/opt/mine")])
    folder = str(pathlib.Path(bench.uroce).parent / "lib")
    assert result.out.strip() == folder + ":/opt/mine", result.out


def ping_is_answered_by_a_process_that_speaks_rdma_cm(bench):
    result = bench.run("-c", "2", "-i", "0", "127.0.0.1", command="ping")
    result.check(0)
    assert result.out.count("nobody listens on port 4791") == 2, result.out
    assert "2 asked, 2 answered" in result.out, result.out


def ping_finds_a_program_that_listens_on_the_port(bench):
    for address in "127.0.0.1", "::1":
        listener = [*bench.enter, *bench.drop, bench.uroce, "run", "rping", "-s", "-a", address]
        with subprocess.Popen(listener, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as rping:
            try:
                for _ in range(100):
                    result = bench.run("-c", "1", "-p", "7174", address, command="ping")
                    if "nobody listens" not in result.out:
                        break
                    time.sleep(0.1)
            finally:
                rping.kill()
        assert "accepted: queue pair" in result.out, result.out


def ping_says_what_is_wrong_with_its_words(bench):
    bench.run("-c", "0", "127.0.0.1", command="ping").check(USAGE, "count '0'", "from 1 to 1000000")
    bench.run("-p", "x", "127.0.0.1", command="ping").check(USAGE, "port 'x'")
    bench.run(command="ping").check(USAGE, "an address is missing")
    bench.run("a.b.invalid", command="ping").check(1, "a.b.invalid")


def running_inside_running_changes_nothing_more(bench):
    result = bench.run(bench.uroce, "run", "sh", "-c", "echo $LD_LIBRARY_PATH")
    assert result.out.strip() == str(pathlib.Path(bench.uroce).parent / "lib"), result.out


def options_after_the_program_are_its_own(bench):
    result = bench.run("echo", "-v", "--devices", "none", "--help")
    assert result.out.strip() == "-v --devices none --help", result.out
    result = bench.run("--", "echo", "--", "-n")
    assert result.out.strip() == "-- -n", result.out


def options_become_settings(bench):
    result = bench.run("--devices", "lo", "-v", "env")
    lines = result.out.splitlines()
    assert "UROCE_DEVICES=lo" in lines and "UROCE_LOG=info" in lines, result.out
    assert "UROCE_LOG=debug" in bench.run("-vv", "env").out
    assert "UROCE_FAULT=drop=1%" in bench.run("--fault", "drop=1%", "env").out.splitlines()


def a_dry_run_prints_a_command_line_that_does_the_same(bench):
    result = bench.run("--dry-run", "--devices", "lo", "sh", "-c", "echo \"it's $UROCE_DEVICES\"")
    result.check(0)
    done = subprocess.run(["sh", "-c", result.out], capture_output=True, text=True, check=True)
    assert done.stdout == "it's lo\n", done.stdout


def a_mistake_in_fault_rules_is_told(bench):
    bench.run("--fault", "drop=1%,dorp=1%", "env").check(
        USAGE, "--fault: fault rule 2", "at character 9", "'dorp' is not an action", "drop, cut, dup")
    bench.run("env", env=[("UROCE_FAULT", "delay=1")]).check(
        USAGE, "UROCE_FAULT: ", "'1' should be a time")


def a_wrong_value_is_refused_before_anything_starts(bench):
    for option, text, meant in (
            ("--record-limit", "1x", "a number of bytes from 64K to 1024G"),
            ("--record-limit", "", "a number of bytes"),
            ("--record-limit", "1", "a number of bytes"),
            ("--record-files", "0", "a number from 1 to 1000"),
            ("--record", "", "a path of at most 4095 characters"),
            ("--record", "a\nb", "a path"),
            ("--fault", "", "rules of at most 1023 characters"),
            ("--devices", "", "names of interfaces")):
        result = bench.run(option, text, "echo", "started")
        result.check(USAGE, "%s is '%s' and should be %s" % (option, text.replace("\n", "?"), meant))
        assert len(result.err.splitlines()) == 1 and not result.out, result.err + result.out


def a_wrong_setting_in_the_environment_is_refused_too(bench):
    result = bench.run("echo", "started", env=[("UROCE_SPIN", "fast"), ("UROCE_GSO", "perhaps")])
    result.check(USAGE, "UROCE_GSO is 'perhaps' and should be on or off",
                 "UROCE_SPIN is 'fast' and should be a number of polls")
    assert len(result.err.splitlines()) == 2 and not result.out, result.err + result.out
    bench.run("true", env=[("UROCE_CONFIG", "/no/such")]).check(USAGE, "UROCE_CONFIG is '/no/such'")
    bench.run("true", env=[("UROCE_SPIN", "")]).check(0)


def an_option_wins_over_a_wrong_variable(bench):
    result = bench.run("--record-limit", "1M", "env", env=[("UROCE_RECORD_LIMIT", "1x")])
    result.check(0)
    assert "UROCE_RECORD_LIMIT=1M" in result.out.splitlines() and not result.err, result.err


def a_variable_that_is_no_setting_is_noted(bench):
    bench.run("true", env=[("UROCE_WINDWO", "4K")]).check(0, "UROCE_WINDWO is not a setting")
    result = bench.run("true", env=[("UROCE_WINDOW", "4K")])
    assert not result.err, result.err


def no_device_opens_with_a_mistake_in_fault_rules(bench):
    words = ["env", "UROCE_FAULT=drop:op=NOTHING", "ibv_devinfo"]
    result = bench.run(*words)
    assert result.status != 0, result.out
    assert "uroce: UROCE_FAULT: fault rule 1" in result.err, result.err


def a_recording_that_cannot_be_made_is_told_before_anything_starts(bench):
    for path, reason in (("/no/such/folder/a", "No such file or directory"),
                         ("/etc/passwd/a", ""), ("/proc/self/a/b", "No such file")):
        result = bench.run("--record", path, "echo", "started")
        result.check(USAGE, "--record: no file can be made in %s: %s" % (os.path.dirname(path), reason))
        assert not result.out and len(result.err.splitlines()) == 1, result.out + result.err
    bench.run("--record", "/tmp/%p/a", "true").check(0)
    bench.run("--record", "/a", "true").check(0 if os.access("/", os.W_OK) and not bench.drop else USAGE)


def a_recording_that_fails_later_stops_nothing(bench):
    bench.run("env", "UROCE_RECORD=/no/such/folder/a", "ibv_devinfo").check(
        0, "uroce: cannot record to /no/such/folder/a.", "No such file or directory")


def a_recording_stays_where_it_was_asked_for(bench):
    result = bench.run("--record", "a.pcapng", "--record-limit", "1M", "--record-files", "2", "env",
                       cwd="/tmp")
    lines = result.out.splitlines()
    assert "UROCE_RECORD=/tmp/a.pcapng" in lines, result.out
    assert "UROCE_RECORD_LIMIT=1M" in lines and "UROCE_RECORD_FILES=2" in lines, result.out


def a_program_that_is_not_there_is_told(bench):
    bench.run("no-such-program").check(NOT_FOUND, "no-such-program", "was not found")
    bench.run("/no/such/program").check(NOT_FOUND, "/no/such/program")


def a_file_that_is_no_program_is_told(bench):
    bench.run("/etc/passwd").check(CANNOT_RUN, "/etc/passwd", "not an executable")
    bench.run("/tmp").check(CANNOT_RUN, "/tmp")


def a_static_program_is_told(bench):
    bench.run("/sbin/ldconfig", "-p").check(CANNOT_RUN, "statically linked")


def a_set_user_id_program_is_told(bench):
    bench.run("/usr/bin/passwd").check(CANNOT_RUN, "set-user-ID", "copy")


def a_program_with_capabilities_is_told(bench):
    if not places.is_root():
        raise Skipped("needs root, to give a file capabilities")
    path = bench.scratch / "capable"
    shutil.copy("/bin/true", path)
    if subprocess.run(["setcap", "cap_net_raw+ep", path], check=False,
                      capture_output=True).returncode != 0:
        raise Skipped("setcap does not work here")
    bench.run(str(path)).check(CANNOT_RUN, "file capabilities")


def a_missing_library_is_told(bench):
    alone = bench.scratch / "alone"
    alone.mkdir(mode=0o755)
    shutil.copy(bench.uroce, alone)
    if bench.installed.exists():
        raise Skipped("%s is there: uroce is installed" % bench.installed)
    bench.run("true", uroce=str(alone / "uroce")).check(CANNOT_WORK, "libibverbs.so.1", "make build")


def a_launcher_of_other_processes_gets_advice(bench):
    path = bench.script("mpirun", "#!/bin/sh\nexit 0\n")
    bench.run(path).check(0, "note on mpirun", "-x LD_LIBRARY_PATH")


def a_host_without_a_usable_interface_is_told(bench):
    with places.Namespaces() as namespaces:
        _, enter = namespaces.new()
        places.command(enter, "ip link set lo down")
        bench.run("true", enter=enter).check(CANNOT_WORK, "no network interface is up")
        places.command(enter, "ip link set lo up")
        bench.run("true", enter=enter).check(0)


def an_unknown_interface_is_told(bench):
    bench.run("--devices", "nothere0", "true").check(
        USAGE, "--devices: no interface 'nothere0'", "ip -brief address")
    bench.run("true", env=[("UROCE_DEVICES", "lo, nothere0,")]).check(
        USAGE, "UROCE_DEVICES: no interface 'nothere0'")
    bench.run("--devices", "lo,uroce_lo", "true").check(0)


def an_unknown_interface_in_the_configuration_file_is_told(bench):
    path = bench.script("uroce.conf", "devices = nothere0\n")
    bench.run("true", env=[("UROCE_CONFIG", path)]).check(CANNOT_WORK, "nothere0")


def a_port_that_another_user_holds_is_told(bench):
    if not places.is_root():
        raise Skipped("needs root, to be two users")
    with places.Namespaces() as namespaces:
        _, enter = namespaces.new()
        holder = subprocess.Popen([*enter, sys.executable, "-c", HOLD_PORT], text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            assert holder.stdout.readline() == "held\n"
            bench.run("true", enter=enter).check(CANNOT_WORK, "port 4791", "user root", "ss -lunp")
        finally:
            holder.communicate("\n")
        bench.run("true", enter=enter).check(0)


def no_program_at_all_is_a_usage_error(bench):
    result = bench.run()
    result.check(USAGE, "ibv_devinfo")
    bench.run("").check(USAGE, "which program?")
    bench.run("", command="ping").check(USAGE, "an address")


def output_that_does_not_get_out_is_a_failure(bench):
    for words in (["--help"], ["--version"], ["devices"], ["run", "--help"], ["stat", "--json"],
                  ["ping", "-c", "1", "127.0.0.1"], ["run", "--dry-run", "true"]):
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([*bench.enter, *bench.drop, bench.uroce, *words], stdout=full,
                                  stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                  timeout=programs.HANGING_S, check=False)
        Result(done.returncode, "", done.stderr).check(1, "standard output")
        assert len(done.stderr.splitlines()) == 1, done.stderr


def nothing_takes_the_place_of_a_closed_output(bench):
    page = bench.script("capture", "") + ".html"
    capture = pathlib.Path(__file__).parent.parent / "golden/captures/cm_rping.pcap"
    for words in (["ping", "-c", "1", "127.0.0.1"], ["pcap", "--html", page, str(capture)]):
        done = subprocess.run([*bench.enter, "sh", "-c", 'exec "$@" >&-', "sh", bench.uroce, *words],
                              stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              timeout=programs.HANGING_S, check=False)
        assert done.returncode != 0
        assert done.stderr == "uroce: cannot write to standard output: Bad file descriptor\n", done.stderr
    result = bench.run("sh", "-c", "exec >&-; %s run sh -c 'echo a'" % bench.uroce)
    assert result.status != 0 and "uroce" not in result.err, result.err


def who_stops_reading_is_not_complained_about(bench):
    for words in (["devices"], ["run", "--help"], ["stat", "--json"]):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([*bench.enter, *bench.drop, bench.uroce, *words], stdout=writer,
                              stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              restore_signals=False, timeout=programs.HANGING_S, check=False)
        os.close(writer)
        assert not done.stderr, done.stderr


def help_and_version_are_had_in_each_usual_way(bench):
    for words in (["--help"], ["-h"], ["help"], ["help", "run"], ["run", "--help"]):
        result = bench.run(*words[1:], command=words[0])
        result.check(0)
        assert ("--record-limit" in result.out) == ("run" in words), result.out
    for words in (["--version"], ["-V"], ["pcap", "--version"]):
        result = bench.run(*words[1:], command=words[0])
        result.check(0)
        assert result.out.startswith("uroce "), result.out
    result = bench.run(command="nonsense")
    result.check(USAGE, "no command 'nonsense'")
    done = subprocess.run([bench.uroce], capture_output=True, text=True, check=False)
    Result(done.returncode, done.stdout, done.stderr).check(USAGE, "usage: uroce COMMAND")
    assert not done.stdout, done.stdout


CASES = [value for value in list(globals().values())
         if getattr(value, "__code__", None) and value.__code__.co_varnames[:1] == ("bench",)]


def installed_folder(build):
    """Where this build would install the drop-in libraries, and looks for them last."""
    with open(build / "meson-info/intro-buildoptions.json", encoding="utf-8") as text:
        options = {option["name"]: option["value"] for option in json.load(text)}
    return pathlib.Path(options["prefix"]) / options["libdir"] / "uroce"


def run_case(case, bench):
    """Returns the word for the outcome, and what to say about it."""
    try:
        case(bench)
    except (Skipped, places.Unavailable) as reason:
        return "skipped", str(reason)
    except AssertionError as fault:
        return "FAILED", str(fault)
    return "ok", ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build", help="the build folder (default: build)")
    build = pathlib.Path(parser.parse_args().build).resolve()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="uroce-launcher-") as scratch, \
            places.Namespaces() as namespaces:
        os.chmod(scratch, 0o755)
        staged = pathlib.Path(scratch) / "staged"
        staged.mkdir()
        uroce = run_apps.stage(build, places.drop_words(), staged)
        bench = Bench(uroce, installed_folder(build), scratch,
                      places.loopback(namespaces).client.enter)
        for case in CASES:
            word, text = run_case(case, bench)
            failed += word == "FAILED"
            print("%-8s %s" % (word, case.__name__))
            if text:
                print("    " + text)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
