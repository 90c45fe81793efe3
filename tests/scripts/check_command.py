#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What `uroce script` says and how it ends, for scripts that hold, do not, or are none.

usage: check_command.py UROCE
"""
import pathlib
import subprocess
import sys
import tempfile

GOOD = """title  nothing is sent by who has nothing to say
rule   IBA 9.7
qp rc
silence 10s
state RTS
"""
WRONG = GOOD + "state ERR\n"
NONE = GOOD + "stat RTS\n"
BINARY = "title t\nrule r\nqp rc\n\x00\x1b[2J\n"
BROKEN = GOOD + "< SEND_ONLY psn=rpsn pkey=0x12345\n"

# name, files, more arguments, exit status, what is in the output, lines of the error output
CASES = [
    ("a script that holds", {"a.roce": GOOD}, [], 0, "ok       ", 0),
    ("a script that does not hold", {"a.roce": GOOD, "b.roce": WRONG}, [], 1,
     "in RTS, expected ERR", 0),
    ("a script that cannot be carried out", {"a.roce": BROKEN}, [], 1, "does not fit in 16 bits", 0),
    ("a file that is no script", {"a.roce": GOOD, "b.roce": NONE}, [], 2, "1 not understood", 1),
    ("a file of other bytes", {"a.roce": BINARY}, [], 2, "1 not understood", 1),
    ("a folder without scripts", {"a.txt": GOOD}, [], 2, "0 passed, 0 failed, 1 not understood", 1),
    ("scripts that are only read", {"a.roce": WRONG}, ["--check"], 0, "1 passed", 0),
    ("an expectation that is made wrong", {"a.roce": GOOD}, ["--mutate"], 0, "1 passed", 0),
    ("a file that is not there", {"a.roce": GOOD}, ["/nowhere.roce"], 2, "1 not understood", 1),
    ("a script on standard input", {"a.roce": GOOD}, ["-"], 0, "ok       -: nothing is sent", 0),
    ("a link that leads nowhere", {"a.roce": GOOD, "b.roce": None}, [], 2, "1 not understood", 1),
    ("a port that is none", {"a.roce": GOOD}, ["--peer", "127.0.0.1,x"], 2, "", 2),
    ("a port that is too large", {"a.roce": GOOD}, ["--peer", "127.0.0.1,65537"], 2, "", 2),
    ("a peer without a name", {"a.roce": GOOD}, ["--peer", ",1"], 2, "", 2),
    ("a peer that is not there", {"a.roce": GOOD}, ["--peer", "127.0.0.1,1"], 2, "", 1),
    ("a PSN that is none", {"a.roce": GOOD}, ["--psn", "0x1000000"], 2, "", None),
]


def trouble(uroce, case):
    """Returns what is wrong, or None."""
    _, files, arguments, status, said, error_lines = case
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            if text is None:
                (pathlib.Path(folder) / name).symlink_to("/nowhere")
            else:
                (pathlib.Path(folder) / name).write_text(text, encoding="utf-8")
        done = subprocess.run([uroce, "script", *arguments, folder], capture_output=True, text=True,
                              input=GOOD, check=False)
    if done.returncode != status:
        return "exit status %d, expected %d" % (done.returncode, status)
    if said not in done.stdout:
        return "'%s' is not in the output" % said
    if error_lines is not None and len(done.stderr.splitlines()) != error_lines:
        return "%d lines of error output: %s" % (len(done.stderr.splitlines()), done.stderr)
    if any(not char.isprintable() for char in (done.stdout + done.stderr).replace("\n", "")):
        return "control characters reach the terminal"
    return None


def main():
    failed = 0
    for case in CASES:
        fault = trouble(sys.argv[1], case)
        failed += fault is not None
        print("%-8s %s%s" % ("FAILED" if fault else "ok", case[0], ": " + fault if fault else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
