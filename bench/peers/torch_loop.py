#!/usr/bin/env python3
"""rondo-bench compare's loops on torch.distributed's Gloo backend. Starts its own ranks:

  torch_loop.py -n 2 --loops all_reduce:8,broadcast:65536 --seconds 0.1 --device cuda

Tensors of floats; all_reduce and broadcast, which are what that backend does with CUDA tensors. bench/compare/loop.hpp
says what is timed, and what is printed. A rank waits for its device once, behind the loop, not after each call.
"""

import argparse
import os
import signal
import sys
import tempfile
import time

OPERATIONS = ("all_reduce", "broadcast")
GOOD, WRONG, USAGE, FAILED = 0, 1, 2, 3


def parse_arguments():
    parser = argparse.ArgumentParser(prog="torch_loop.py", description="Loops for rondo-bench compare.")
    parser.add_argument("-n", type=int, required=True, dest="ranks", help="start so many ranks")
    parser.add_argument("--loops", required=True, help="OPERATION:BYTES,...")
    parser.add_argument("--seconds", type=float, default=0.1, help="about, for each loop")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where the tensors are")
    settings = parser.parse_args()
    loops = []
    for text in settings.loops.split(","):
        operation, _, size = text.partition(":")
        if operation not in OPERATIONS or not size.isdecimal():
            parser.error(f"--loops: got '{text}', wanted OPERATION:BYTES with {' or '.join(OPERATIONS)}")
        loops.append((text, operation, max(int(size) // 4, 1)))
    settings.loops = loops
    return settings


class Rank:
    """One rank's part of every loop."""

    def __init__(self, rank, settings, meeting_point):
        import torch
        import torch.distributed

        self.torch = torch
        self.distributed = torch.distributed
        self.rank = rank
        self.settings = settings
        self.device = "cpu"
        if settings.device == "cuda":
            if not torch.cuda.is_available():
                raise RuntimeError("torch sees no CUDA device")
            self.device = f"cuda:{rank % torch.cuda.device_count()}"
            torch.cuda.set_device(self.device)
        self.distributed.init_process_group("gloo", init_method=f"file://{meeting_point}", rank=rank,
                                            world_size=settings.ranks)

    def run(self):
        self.distributed.barrier()
        self.say(f"ready tcp torch.distributed {self.torch.__version__}, Gloo, tensors on {self.settings.device}")
        status = GOOD
        for text, operation, count in self.settings.loops:
            microseconds, wrong = self.time_loop(operation, count)
            self.say(f"time {text} {microseconds:.4f} {wrong}")
            if wrong:
                status = WRONG
        self.distributed.barrier()
        return status

    def say(self, line):
        if self.rank == 0:
            print(line, flush=True)

    def fold(self, value, how):
        """A number of all ranks."""
        cell = self.torch.tensor([value], dtype=self.torch.float64)
        self.distributed.all_reduce(cell, op=getattr(self.distributed.ReduceOp, how))
        return cell.item()

    def wait_for_device(self):
        if self.settings.device == "cuda":
            self.torch.cuda.synchronize()

    def time_loop(self, operation, count):
        tensor = self.torch.full((count,), float(self.rank + 1), device=self.device)
        call = {"all_reduce": lambda: self.distributed.all_reduce(tensor),
                "broadcast": lambda: self.distributed.broadcast(tensor, src=0)}[operation]
        call()
        ranks = self.settings.ranks
        expected = ranks * (ranks + 1) / 2 if operation == "all_reduce" else 1.0
        wrong = int(self.fold(float((tensor != expected).sum().item()), "SUM"))
        tensor.zero_()  # so that no sum grows
        iterations = 1
        while True:
            seconds = self.time(call, iterations)
            if seconds >= self.settings.seconds / 4:
                break
            iterations *= 2
        iterations = max(1, round(iterations * self.settings.seconds / seconds))
        return self.time(call, iterations) / iterations * 1e6, wrong

    def time(self, call, iterations):
        """Of so many calls, the longest over the ranks."""
        self.wait_for_device()
        self.distributed.barrier()
        begin = time.perf_counter()
        for _ in range(iterations):
            call()
        self.wait_for_device()
        return self.fold(time.perf_counter() - begin, "MAX")


def run_rank(rank, settings, meeting_point):
    try:
        return Rank(rank, settings, meeting_point).run()
    except Exception as error:
        print(f"torch_loop.py: rank {rank}: {error}", file=sys.stderr, flush=True)
        return FAILED


def main():
    settings = parse_arguments()
    children = []
    worst = GOOD
    with tempfile.TemporaryDirectory(prefix="rondo-torch-") as folder:
        for rank in range(settings.ranks):  # before any of them knows CUDA, which does not survive a fork
            child = os.fork()
            if child == 0:
                os._exit(run_rank(rank, settings, os.path.join(folder, "ranks")))
            children.append(child)
        while children:
            child, status = os.wait()
            children.remove(child)
            code = os.waitstatus_to_exitcode(status)
            worst = max(worst, code if code >= 0 else FAILED)
            if worst == FAILED:  # the others would wait for it
                for other in children:
                    os.kill(other, signal.SIGKILL)
    return worst


if __name__ == "__main__":
    sys.exit(main())
