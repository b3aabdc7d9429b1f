# SPDX-License-Identifier: GPL-2.0-only
"""The SPIN models of tests/spin: what they claim holds in every state, and the faults planted in them are found."""

import os
import re
import shutil
import subprocess
import time
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor

from tree import rule

LINE = re.compile(r"\*\s(run|plant): (never|progress)((?: +[A-Z_]+(?:=\d+)?)+)(?: +(\S.*))?$")
# never: assertions, every state. progress: the ltl claim, under weak fairness.
COMPILE = {"never": ["-DSAFETY"], "progress": ["-DNFAIR=3"]}
SEARCH = {"never": ["-m2000000"], "progress": ["-a", "-f", "-m2000000"]}
SECONDS = 120

Job = namedtuple("Job", "model kind claim defines text")


def jobs(tree):
    for name in tree.match(r"tests/spin/.*\.pml"):
        for line in tree.text(name).splitlines():
            if match := LINE.match(line.strip()):
                yield Job(name, match[1], match[2], match[3].split(), match[4])


class Broken(Exception):
    """The tools did not get as far as an answer."""


def run(command, cwd):
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False,
                              timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise Broken(f"{command[0]}: no end after {SECONDS} s") from None
    if done.returncode and command[0] != "./pan":
        raise Broken((done.stdout + done.stderr).strip()[:300])
    return done.stdout + done.stderr


def search(tree, job, place):
    """What pan says after looking at every state, or until the first error. Made in `place`, below build/."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    defines = [f"-D{word}" for word in job.defines] + ["-DPROGRESS"] * (job.claim == "progress")
    run(["gcc", "-E", "-P", "-x", "c", "-I.", *defines, job.model, "-o", str(place / "model.pml")], tree.root)
    run(["spin", "-a", "model.pml"], place)
    effort = "-O2" if job.kind == "run" else "-O0"  # a fault is found soon: compiling is what takes time
    run(["gcc", effort, "-w", "-DMEMLIM=2048", *COMPILE[job.claim], "-o", "pan", "pan.c"], place)
    return run(["./pan", *SEARCH[job.claim]], place)


def judge(job, out):
    """(states stored, what is wrong or None)"""
    errors = re.search(r"errors: (\d+)", out)
    states = re.search(r"(\S+) states, stored", out)
    if not errors or not states:
        return 0, "no result: " + out.strip()[-300:]
    states = int(float(states[1]))
    found = re.search(r"pan:1: (.*?) \(at depth", out)
    if job.kind == "plant":
        return states, None if int(errors[1]) else "the planted fault is NOT found"
    if int(errors[1]):
        return states, f"broken: {found[1] if found else 'see the trail'}"
    if "max search depth too small" in out or "Search not completed" in out:
        return states, "not every state was looked at"
    dead = re.findall(r'"state = (S_\w+)"', out)  # of the table's rows, those that were never taken
    return states, f"rows of the table that lead to {', '.join(dead)} were never taken" if dead else None


def answer(tree, job, number):
    """(states stored, what is wrong or None, seconds)"""
    began = time.monotonic()
    place = tree.root / "build" / "spin" / f"{job.model.split('/')[-1].removesuffix('.pml')}-{number}"
    try:
        states, fault = judge(job, search(tree, job, place))
    except Broken as broken:
        states, fault = 0, str(broken)
    return states, fault, time.monotonic() - began


@rule("spin: the models of tests/spin hold, and the faults planted in them are found",
      {"tests/spin/a.pml": "/* SPDX-License-Identifier: GPL-2.0-only\n * plant: never FAULT not there\n */\n"
                           "init { assert(true) }\n"},
      {"tests/spin/a.pml": "/* SPDX-License-Identifier: GPL-2.0-only\n * run: never SIZE=1\n * plant: never FAULT it fails\n */\n"
                           "#ifdef FAULT\ninit { assert(false) }\n#else\ninit { assert(true) }\n#endif\n"})
def spin(tree):
    if not shutil.which("spin"):
        yield "spin is not installed: scripts/setup"
        return
    for name in tree.match(r"tests/spin/.*\.pml"):
        if not {"run", "plant"} & {job.kind for job in jobs(tree) if job.model == name}:
            yield f"{name}: no lines 'run:' and 'plant:': nothing of it would be checked"
    todo = list(jobs(tree))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        answers = list(pool.map(lambda number: answer(tree, todo[number], number), range(len(todo))))
    for job, (states, fault, seconds) in zip(todo, answers):
        what = " ".join(job.defines)
        if fault:
            yield f"{job.model}: {job.claim} {what}: {fault}"
        elif tree.root == tree.home:
            said = f"planted fault found: {job.text or what}" if job.kind == "plant" else f"{job.claim}, {what}: holds"
            print(f"       {states:9} states, {seconds:4.1f} s  {said}", flush=True)
