#!/usr/bin/env python3
"""check_output.py EXPECTED COMMAND...: runs the command, whose ranks print lines that begin with "[rank] ", puts the
lines in the order of the ranks and compares them with the file. There, * stands for any text. Nothing may come on
stderr."""

import re
import subprocess
import sys


def matches(expected, line):
    return re.fullmatch(re.escape(expected).replace(r"\*", ".*"), line) is not None


def rank_of(line):
    prefix = re.match(r"\[(\d+)\] ", line)
    return int(prefix.group(1)) if prefix else -1


def main(path, command):
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = sorted(ended.stdout.splitlines(), key=rank_of)
    with open(path, encoding="utf-8") as file:
        expected = file.read().splitlines()
    print("\n".join(lines))
    print(ended.stderr, end="", file=sys.stderr)
    for number in range(max(len(lines), len(expected))):
        got = lines[number] if number < len(lines) else "the end"
        wanted = expected[number] if number < len(expected) else "the end"
        if not matches(wanted, got):
            sys.exit(f"line {number + 1}: got '{got}', wanted '{wanted}'")
    if ended.returncode != 0 or ended.stderr:
        sys.exit(f"the output is right, but the exit status is {ended.returncode}, and stderr got '{ended.stderr}'")


main(sys.argv[1], sys.argv[2:])
