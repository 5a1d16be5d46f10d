"""Kill processes of a training at random, let the launcher start them again, and compare the weights at the end.

    python -m tools.elastic FOLDER --kills 20                           one torchrun with two processes
    python -m tools.elastic FOLDER --kills 20 --agents 2 --nodes 1:2    two torchruns with a process each, as on two machines

FOLDER gets a drawn image set, the run of two processes that nobody kills, and a run for every training with kills. A kill is
SIGKILL of a process that trains or of a torchrun, at a random moment. A torchrun that has ended is started again by the same
words, as a scheduler does. Prints a line per kill, and for each run whether its weights have the SHA-256 of the undisturbed one.
"""

import argparse
import hashlib
import os
import random
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from aevlp.experiments.demo.scenes import write_world
from aevlp.training.run_folder import RunFolder

LOOK_EVERY = 0.2  # seconds
STUCK = 600.0  # seconds without a new epoch
AGAIN = 1.0  # seconds until a torchrun is started again
ENVIRONMENT = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "OMP_NUM_THREADS": "1"}


@dataclass
class Training:
    """One training by one or more torchruns."""

    run: RunFolder
    commands: list[list[str]]
    log: Path
    agents: list[subprocess.Popen[bytes] | None] = field(default_factory=list)
    ended: list[float] = field(default_factory=list)  # when each torchrun was last seen to have ended
    starts: int = 0
    was_alone: bool = False  # for some time only one process trained

    def __post_init__(self) -> None:
        """Begin with no torchrun."""
        self.agents, self.ended = [None] * len(self.commands), [0.0] * len(self.commands)

    @property
    def epochs(self) -> int:
        """Finished epochs."""
        metrics = self.run.path / "metrics.jsonl"
        return len(metrics.read_text().splitlines()) if metrics.is_file() else 0

    def keep_running(self) -> bool:
        """Start torchruns that do not run; return whether the training has ended well."""
        for slot, agent in enumerate(self.agents):
            if agent is not None and agent.poll() is None:
                continue
            if agent is not None and agent.returncode == 0 and self.run.result.is_file():
                return True
            if agent is not None:
                self.agents[slot], self.ended[slot] = None, time.monotonic()
            elif time.monotonic() - self.ended[slot] > AGAIN:
                self.starts += 1
                with self.log.open("ab") as log:
                    self.agents[slot] = subprocess.Popen(
                        self.commands[slot], env={**os.environ, **ENVIRONMENT}, stdout=log, stderr=log
                    )
        return False

    def processes(self) -> list[tuple[str, psutil.Process]]:
        """Return the living torchruns and the processes that train, each with its name."""
        found = []
        for number, agent in enumerate(self.agents):
            with suppress(psutil.NoSuchProcess):
                if agent is not None and agent.poll() is None:
                    parent = psutil.Process(agent.pid)
                    found.append((f"torchrun {number}", parent))
                    for child in parent.children():
                        told = child.environ()
                        self.was_alone |= told.get("WORLD_SIZE") == "1"
                        found.append((f"process {told.get('RANK', '?')}", child))
        return found

    def stop(self) -> None:
        """Kill everything that still runs."""
        for _, process in self.processes():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        for agent in self.agents:
            if agent is not None:
                agent.wait()


def train(training: Training, kills: int, rng: random.Random, pause: float) -> list[tuple[str, int]]:
    """Train to the end with at most so many kills, each after up to `pause` seconds; return the victims and the epochs done."""
    killed: list[tuple[str, int]] = []
    due, epochs, progress = time.monotonic() + rng.uniform(0, pause), 0, time.monotonic()
    try:
        while not training.keep_running():
            time.sleep(LOOK_EVERY)
            now, alive = time.monotonic(), training.processes()
            if training.epochs != epochs:
                epochs, progress = training.epochs, now
            if now - progress > STUCK:
                raise SystemExit(f"{training.run.path}: no new epoch in {STUCK:.0f} s; see {training.log}")
            if len(killed) < kills and now > due and alive:
                name, victim = rng.choice(alive)
                with suppress(psutil.NoSuchProcess):
                    victim.kill()
                    killed.append((name, training.epochs))
                    print(f"| {training.run.path.name} | {name} | {training.epochs} |", flush=True)
                due = now + rng.uniform(0, pause)
    finally:
        training.stop()
    return killed


def commands(words: Sequence[str], agents: int, nodes: str) -> list[list[str]]:
    """Return the command line of each torchrun; in all, two processes train."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--max-restarts=3", f"--nproc_per_node={2 // agents}"]
    program = ["-m", "aevlp", "train", *words, "--resume", "auto"]
    if agents == 1:
        return [[*torchrun, "--standalone", *program]]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    meeting = ["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", f"--rdzv-id={port}", "--local-addr=127.0.0.1"]
    return [[*torchrun, f"--nnodes={nodes}", *meeting, *program]] * agents


def digest(run: RunFolder) -> str:
    """Return the SHA-256 of the best model's weights."""
    return hashlib.sha256((run.model / "model.safetensors").read_bytes()).hexdigest()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the tool; exit with 1 if the weights of a run differ from those of the undisturbed one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="for the image set and the runs; one of an earlier call is replaced")
    parser.add_argument("--kills", type=int, default=20, help="in all (20)")
    parser.add_argument("--agents", type=int, choices=(1, 2), default=1, help="torchruns (1)")
    parser.add_argument("--nodes", default="1:2", help="--nnodes of two torchruns: with 2 the training waits for both (1:2)")
    parser.add_argument("--pause", type=float, default=60.0, help="longest time between two kills, in seconds (60)")
    parser.add_argument("--epochs", type=int, default=30, help="of a training (30)")
    parser.add_argument("--images", type=int, default=400, help="of the image set (400)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments and the victims (0)")
    options = parser.parse_args(arguments)
    rng, world = random.Random(options.seed), options.folder / "world"
    shutil.rmtree(options.folder, ignore_errors=True)
    write_world(world, train=options.images, test=options.images // 4)

    def training(name: str) -> Training:
        run = RunFolder(options.folder / name)
        fixed = [
            "--recipe",
            "demo",
            "--device",
            "cpu",
            "--report",
            "false",
            "--train.patience",
            "null",
            "--train.max_drop",
            "null",
        ]
        words = [str(world), "--out", str(run.path), "--store", str(options.folder / f"{name}-store"), *fixed]
        words += ["--epochs", str(options.epochs)]
        return Training(run, commands(words, options.agents, options.nodes), options.folder / f"{name}.log")

    calm = training("calm")
    train(calm, 0, rng, options.pause)
    wanted, left = digest(calm.run), options.kills
    rows: list[tuple[Training, int, str]] = []
    print("| run | killed | after epochs |\n| --- | --- | --- |", flush=True)
    while left > 0:
        one = training(f"run-{len(rows) + 1}")
        killed = train(one, left, rng, options.pause)
        left -= len(killed)
        rows.append((one, len(killed), digest(one.run)))
    print("\n| run | kills | torchruns started | with one process for a while | SHA-256 of the weights |")
    print("| --- | --- | --- | --- | --- |")
    for one, kills, found in [(calm, 0, wanted), *rows]:
        same = "" if one is calm else ", the same" if found == wanted else ", ANOTHER"
        alone = "yes" if one.was_alone else "no"
        print(f"| {one.run.path.name} | {kills} | {one.starts} | {alone} | {found[:16]}{same} |")
    sys.exit(any(found != wanted for _, _, found in rows))


if __name__ == "__main__":
    main()
