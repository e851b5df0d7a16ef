#!/usr/bin/env python3
"""check_sgd.py RONDO_RUN DISTRIBUTED_SGD: trains on 1, 2, 3 and 4 ranks. The losses must agree (they differ only by the
order in which floats are added), the digits must be recognized, the saved networks must be nearly the same, and bad
data must be refused with a reason.

check_sgd.py RONDO_RUN DISTRIBUTED_SGD DRIVER: trains on 3 ranks whose gradients are averaged on devices, by the driver
that RONDO_CUDA_LIBRARY names, else DRIVER. It must come to what 3 ranks come to on the host."""

import os
import re
import struct
import subprocess
import sys
import tempfile

LOSS_TOLERANCE = 1e-4
PARAMETER_TOLERANCE = 1e-3
ACCURACY_WANTED = 90.0


def check(right, text):
    if not right:
        sys.exit(text)


def train(launcher, program, ranks, path, *options):
    command = [launcher, "--no-prefix", "-n", str(ranks), program, "--save", path, *options]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    print(ended.stdout, end="")
    check(ended.returncode == 0, f"{ranks} ranks: got exit status {ended.returncode}, wanted 0: {ended.stderr}")
    # Sums on devices go through the host then.
    said = [line for line in ended.stderr.splitlines() if "this build has no kernels" not in line]
    check(said == [], f"{ranks} ranks: got {said} on stderr, wanted nothing")
    epochs = re.findall(r"^epoch +\d+  loss ([\d.]+)  held-out accuracy ([\d.]+)%", ended.stdout, re.M)
    check(len(epochs) > 1, f"{ranks} ranks: got {len(epochs)} epochs, wanted some")
    accuracy = float(epochs[-1][1])
    check(accuracy > ACCURACY_WANTED, f"{ranks} ranks: got accuracy {accuracy}, wanted over {ACCURACY_WANTED}")
    return [float(loss) for loss, _ in epochs]


def saved(path):
    with open(path, "rb") as file:
        content = file.read()
    magic, count = struct.unpack(">II", content[:8])
    check(magic == 0x0D01, f"{path}: got magic number {magic:#x}, wanted 0xd01")
    return struct.unpack(f">{count}f", content[8:])


def check_alike(what, losses, networks, wanted_losses, wanted_networks):
    off = max(abs(a / b - 1) for a, b in zip(losses, wanted_losses, strict=True))
    print(f"{what}: losses are off by {off:.1e} at most")
    check(off < LOSS_TOLERANCE, f"{what}: got losses {losses}, wanted {wanted_losses}")
    off = max(abs(a - b) for a, b in zip(networks, wanted_networks, strict=True))
    print(f"{what}: parameters are off by {off:.1e} at most")
    check(off < PARAMETER_TOLERANCE, f"{what}: got parameters off by {off}")


def check_device(launcher, program, driver):
    os.environ["RONDO_CUDA_LIBRARY"] = "libno-such-driver.so.1"
    ended = subprocess.run([program, "--device", "cuda"], capture_output=True, text=True, check=False)
    check(ended.returncode == 1, f"no driver: got exit status {ended.returncode}, wanted 1")
    check("--device cuda: there is no CUDA device: libno-such-driver" in ended.stderr, f"got '{ended.stderr}'")

    os.environ["RONDO_CUDA_LIBRARY"] = driver
    with tempfile.TemporaryDirectory() as directory:
        paths = [os.path.join(directory, name) for name in ("host", "device")]
        host = train(launcher, program, 3, paths[0])
        device = train(launcher, program, 3, paths[1], "--device", "cuda")
        check_alike("on devices", device, saved(paths[1]), host, saved(paths[0]))


def check_ranks(launcher, program):
    with tempfile.TemporaryDirectory() as directory:
        paths = {ranks: os.path.join(directory, f"{ranks}.idx") for ranks in (1, 2, 3, 4)}
        losses = {ranks: train(launcher, program, ranks, path) for ranks, path in paths.items()}
        networks = {ranks: saved(path) for ranks, path in paths.items()}
        for ranks in (2, 3, 4):
            check_alike(f"{ranks} ranks", losses[ranks], networks[ranks], losses[1], networks[1])

        command = [launcher, "-n", "2", program, "--data", directory]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        check(ended.returncode == 1, f"no data: got exit status {ended.returncode}, wanted 1")
        check("train-images-idx3-ubyte: cannot open" in ended.stderr, f"no data: got '{ended.stderr}'")

        nowhere = os.path.join(directory, "none")
        command = [program, "--save", os.path.join(nowhere, "network.idx")]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        check(ended.returncode == 2, f"--save to nowhere: got exit status {ended.returncode}, wanted 2")
        wanted = f"--save: {nowhere} is not a directory"
        check(wanted in ended.stderr and ended.stdout == "", f"--save to nowhere: got '{ended}', wanted '{wanted}'")

        for option in ("--batch", "--lr", "--bucket-kib"):
            ended = subprocess.run([program, option, "0"], capture_output=True, text=True, check=False)
            check(ended.returncode == 2, f"{option} 0: got exit status {ended.returncode}, wanted 2")
            wanted = f"{option}: got 0, wanted a positive number"
            check(wanted in ended.stderr, f"{option} 0: got '{ended.stderr}', wanted '{wanted}'")


def main(launcher, program, driver=None):
    if driver is None:
        check_ranks(launcher, program)
    elif "RONDO_CUDA_LIBRARY" not in os.environ:
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)  # speaks of this machine's devices, which DRIVER knows nothing of
        check_device(launcher, program, driver)
    else:
        ended = subprocess.run([program, "--device", "cuda", "--epochs", "0"], capture_output=True, text=True, check=False)
        if "there is no CUDA device" in ended.stderr:
            print(f"SKIP: {ended.stderr}", end="")
            sys.exit(77)
        check_device(launcher, program, os.environ["RONDO_CUDA_LIBRARY"])


main(*sys.argv[1:])
