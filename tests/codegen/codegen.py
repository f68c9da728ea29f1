#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compiles kernels.cu for every architecture, without a GPU, and compares each call with what the library promises: the
number of warp instructions in PTX, no stack, no spills, and at most a given number of registers.

    codegen.py --nvcc NVCC --include DIR [--architectures 75,80] [--sass]

--sass also counts shuffles and atomics in the machine code, if the toolkit's cuobjdump is in the PATH. The exit status
is 0, or 1 after a list of the differences. A line that begins with 'skipped:' says that the test could not run.
"""

import argparse
import collections
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

ARCHITECTURES = (75, 80, 86, 89, 90, 100, 120)

# Warp instructions in the code of a kernel, and its maximum number of registers. `redux` is six votes before compute
# capability 8.0. The shuffles of reduce_serial are those of one iteration, which nvcc may unroll.
Promise = collections.namedtuple("Promise", "shuffles votes matches redux atomics registers")
PROMISES = {
    # uniform_key, a whole warp, threshold 0
    "atomic_9_float": Promise(0, 0, 0, 0, 9, 32),
    "serial_9_float": Promise(9, 1, 0, 1, 9, 40),
    "bfly_9_float": Promise(45, 1, 0, 0, 9, 32),
    "bfly_9_double": Promise(90, 1, 0, 0, 9, 48),
    "tree_1_float": Promise(5, 1, 0, 0, 1, 24),
    "tree_4_float": Promise(2 + 1 + 1 + 1 + 1, 1, 0, 0, 1, 24),
    "tree_9_float": Promise(5 + 3 + 2 + 1 + 1, 1, 0, 0, 1, 32),
    "tree_9_double": Promise(24, 1, 0, 0, 1, 40),
    "tree_16_float": Promise(8 + 4 + 2 + 1 + 1, 1, 0, 0, 1, 40),
    "tree_32_float": Promise(16 + 8 + 4 + 2 + 1, 1, 0, 0, 1, 56),
    "tree_33_float": Promise(17 + 9 + 5 + 3 + 2, 1, 0, 0, 2, 56),
    "tree_64_float": Promise(32 + 16 + 8 + 4 + 2, 1, 0, 0, 2, 80),
    "tree_64_double": Promise(2 * 62, 1, 0, 0, 2, 160),
    "fixed_9_float": Promise(2 * 12, 1, 0, 0, 1 + 1, 72),  # 8-byte shuffles are two; an atomic for the flag
    "tree_9_block": Promise(12, 1, 0, 0, 1, 32),
    "tree_9_planes": Promise(12, 1, 0, 0, 1, 32),
    "bfly_9_aligned": Promise(45, 1, 0, 0, 9, 40),
    "tree_9_pointers": Promise(12 + 9, 1, 0, 0, 9, 32),
    "tree_9_arrays": Promise(12, 1, 0, 0, 1, 40),
    "tree_9_fields": Promise(12, 1, 0, 0, 1, 40),
    "append_to_one": Promise(1, 1, 0, 0, 1, 24),
    "fetch_ones": Promise(1, 1, 1, 0, 1, 24),
    "fetch_at_one_key": Promise(5 + 1, 1, 0, 0, 1, 24),
    "tree_9_shared": Promise(12, 1, 0, 0, 1, 40),
    "total_9_minimum": Promise(12, 0, 0, 0, 0, 32),
    # more than 64 values: 31 + 31 + 5, 31 + 31 + 31 + 6, 4 * 31
    "tree_65_float": Promise(67, 1, 0, 0, 3, 80),
    "tree_100_float": Promise(99, 1, 0, 0, 4, 96),
    "tree_128_float": Promise(124, 1, 0, 0, 4, 128),
    # a number of values known at run time: the loop over chunks
    "tree_8_chunks": Promise(4 + 2 + 1 + 1 + 1, 1, 0, 0, 1, 40),
    "tree_16_chunks": Promise(16, 1, 0, 0, 1, 48),
    "tree_32_chunks": Promise(31, 1, 0, 0, 1, 64),
    "bfly_8_chunks": Promise(40, 1, 0, 0, 8, 40),
    "atomic_16_chunks": Promise(0, 0, 0, 0, 16, 64),
    "atomic_16_chunks_aligned": Promise(0, 0, 0, 0, 16 + 16, 64),  # whole chunks, and the last one
    "tree_70_aligned": Promise(31 + 31 + 8, 1, 0, 0, 3, 80),
    "tree_16_chunks_any": Promise(1 + 16 + 1 + 16 + 1 + 16, 3, 1, 1, 16 + 1 + 16 + 1 + 16, 64),
    "bfly_5_half2": Promise(25, 1, 0, 0, 5, 32),
    "tree_5_half2": Promise(3 + 2 + 1 + 1 + 1, 1, 0, 0, 1, 32),
    "tree_9_half2": Promise(12, 1, 0, 0, 1, 32),
    "tree_9_nv_bfloat162": Promise(12, 1, 0, 0, 1, 32),
    "serial_5_nv_bfloat162": Promise(5, 1, 0, 1, 5, 40),
    "atomic_9_aligned_pairs": Promise(0, 0, 0, 0, 9, 32),
    "total_9_minimum_of_pairs": Promise(12, 0, 0, 0, 0, 32),
    # a value to its slot or to the sink, and a compare-and-swap for the slot
    "hot_4_add": Promise(0, 0, 0, 0, 4 + 4 + 1, 40),
    "hot_9_tree": Promise(12, 1, 0, 0, 1 + 1 + 1, 40),
    # any keys and lanes: all paths, and plain atomics
    "serial_9_any": Promise(9, 1, 1, 1, 9 + 9, 40),
    "bfly_9_any": Promise(1 + 45, 2, 0, 0, 9 + 9, 40),
    "tree_9_any": Promise(1 + 12 + 1 + 12 + 1 + 9, 3, 1, 1, 9 + 1 + 9 + 1 + 9, 40),
    "tree_64_any": Promise(1 + 62 + 1 + 62 + 1 + 64, 3, 1, 1, 64 + 2 + 64 + 2 + 64, 160),
    # any keys into fields: 20 values in six arrays, 17 in two
    "atomic_20_fields": Promise(0, 0, 0, 0, 20, 64),
    "serial_20_fields": Promise(20, 1, 1, 1, 20 + 20, 64),
    "bfly_20_fields": Promise(1 + 100, 2, 0, 0, 20 + 20, 64),
    "tree_20_fields": Promise(1 + 21 + 1 + 21, 3, 1, 1, 20 + 1 + 20 + 1, 64),
    "serial_17_fields": Promise(17, 1, 1, 1, 17 + 17, 48),
    "one_call_20_fields": Promise(10 + 5 + 3 + 2 + 1, 1, 0, 0, 1, 40),
    # several keys: of neighbouring lanes neighbouring, all different (K = 1: five shuffles in a loop), one key (a shuffle and a
    # tree), otherwise (K + 1 shuffles and a vote in a loop)
    "one_call_1_float": Promise(1 + 5 + 1 + 5 + 2, 6, 2, 0, 1 + 1 + 1, 24),
    "one_call_4_float": Promise(1 + 6 + 5, 3, 1, 0, 4 + 1 + 4, 32),
    "one_call_2_vector": Promise(1 + 5 + 3, 3, 1, 0, 2 + 1 + 2, 32),
    "one_call_1_half2": Promise(1 + 1 + 5 + 2, 5, 2, 0, 1 + 1 + 1, 24),
    "one_call_4_vector": Promise(1 + 6 + 5, 3, 1, 0, 4 + 1 + 4, 32),
    "one_call_9_float": Promise(1 + 12 + 1 + 12, 3, 1, 1, 9 + 1 + 1, 40),
    "corners_looped": Promise(1 + 5 + 1 + 5 + 2, 6, 2, 0, 1 + 1 + 1, 32),
    "corners_unrolled": Promise(8 * 14, 8 * 6, 8 * 2, 0, 8 * 3, 32),
    "group_27_nodes": Promise(1 + 1 + 5 + 1 + 5 + 3, 3, 1, 1, 1 + 1 + 2 + 2, 48),
    "tree_9_from_memory": Promise(1 + 12 + 1 + 12, 3, 1, 1, 9 + 1 + 1 + 1, 48),
    "one_call_9_from_memory": Promise(1 + 12 + 1 + 12, 3, 1, 1, 9 + 1 + 1, 48),
}
# Atomics from compute capability 9.0 on, which has vector atomics.
VECTOR_ATOMICS = {
    "bfly_9_aligned": 1 + 1 + 1,
    "atomic_9_aligned_pairs": 1 + 1 + 1,
    "atomic_16_chunks_aligned": 4 + 16,
    "one_call_2_vector": 1 + 1 + 1,
    "one_call_4_vector": 1 + 1 + 1,
}
# Additions in PTX: those to shared memory, and those to global memory or to an address of any kind. A pointer to shared
# memory beside a sink made nvcc 13.0 add to the sink by atom.shared.
ADDITIONS = {"hot_4_add": (4, 4), "hot_9_tree": (1, 1)}
# Kernels own_X make a call that stands for the plain atomics of plain_X: with the same code size, stack and atomics.
# CUDA's own atomicAdd of half2 returns the old value and tests the kind of memory; the library's does not.
BETTER_THAN_PLAIN = ("record_half2",)
# Kernels of calls that the host makes, by their mangled names: no stack, at most 64 registers.
HOST_CALLS = "_ZN7distwar6detail"
# Bytes of machine code for sm_90, at most; an instruction has 16. reduce of one value has 40 more than a match alone needs:
# the test for keys that rise by one, and five shuffles where neighbours differ, which let plain atomics go
# without a match (edges to random targets 0.89 -> 1.00 times the atomics, a lane for each column 0.70 -> 0.84, H200).
CODE = {
    "one_call_1_float": 152 * 16,
    "one_call_4_float": 128 * 16,
    "one_call_2_vector": 112 * 16,
    "tree_9_from_memory": 208 * 16,
    "one_call_9_from_memory": 200 * 16,
    "corners_looped": 160 * 16,
    "corners_unrolled": 1056 * 16,  # 8 calls
    "group_27_nodes": 208 * 16,
}
# All atomics of these kernels are of global memory, although their pointers come from memory.
FROM_MEMORY = ("tree_9_from_memory", "one_call_9_from_memory")
# The atomics of each sink at each scope: kernels SINK_at_block, SINK_at_device and SINK_at_system.
SCOPES = {"block": r"\.cta\b", "device": None, "system": r"\.sys\b"}
SCOPED = ("record", "minimum", "planes", "fields", "pointers", "aligned", "half", "pairs", "vectors")
# Kernels whose machine code has the same shuffles and atomics as PTX: no loops or branches, global memory only.
STRAIGHT = [name for name in PROMISES if not re.search("serial|any|shared|fixed|append|fetch|hot|pairs|bfloat", name)]

PTX = {
    "shuffles": r"\bshfl\.sync",
    "votes": r"\bvote\.sync",
    "matches": r"\bmatch\.(any|all)\.sync",
    "redux": r"\bredux\.sync",
    "atomics": r"\b(red|atom)\.",
}
ADDITION = re.compile(r"\b(?:red|atom)\.([\w.:]*)\badd\.")


def skip(why):
    print("skipped:", why)
    sys.exit(0)


def count_ptx(text):
    """{kernel: {instruction: count}} of a PTX file, and {kernel: additions to (shared, other) memory}."""
    found, additions = {}, {}
    for name, body in re.findall(r"\.entry (\w+)\((.*?)\n\}", text, re.S):
        found[name] = {what: len(re.findall(pattern, body)) for what, pattern in PTX.items()}
        spaces = ["shared" in qualifiers for qualifiers in ADDITION.findall(body)]
        additions[name] = (spaces.count(True), spaces.count(False))
    return found, additions


def check_scopes(text, architecture):
    """What is wrong with the scopes of the atomics in the kernels SINK_at_SCOPE of a PTX file."""
    wrong = []
    body = dict(re.findall(r"\.entry (\w+)\((.*?)\n\}", text, re.S))
    for sink in SCOPED:
        for scope, pattern in SCOPES.items():
            kernel = f"{sink}_at_{scope}"
            atomics = re.findall(r"\b(?:red|atom)\.[\w.:]+", body.get(kernel, ""))
            if sink == "aligned" and architecture >= 90:
                wrong += [f"{kernel}: {a} is no vector" for a in atomics if ".v4.f32" not in a]
            if not atomics:
                wrong.append(f"{kernel}, sm_{architecture}: no atomics")
            for atomic in atomics:
                named = re.search(r"\.(cta|sys)\b", atomic)
                right = named and re.search(pattern, atomic) if pattern else not named
                if not right:
                    wrong.append(f"{kernel}, sm_{architecture}: {atomic}")
    return wrong


def read_code(binary):
    """{kernel: machine code} of a cubin: the content of its sections .text.KERNEL (ELF, 64 bits)."""
    with open(binary, "rb") as opened:
        elf = opened.read()
    first, size, count, names = struct.unpack_from("<Q10xHHH", elf, 0x28)
    sections = [struct.unpack_from("<IIQQQQ", elf, first + i * size) for i in range(count)]
    base = sections[names][4]
    named = {elf[base + s[0] : elf.index(b"\0", base + s[0])].decode(): elf[s[4] : s[4] + s[5]] for s in sections}
    return {name[6:]: code for name, code in named.items() if name.startswith(".text.")}


def check_plain(ptx, assembled, code, architecture):
    """Which kernels own_X differ from plain_X."""
    wrong = []
    for plain in [name for name in ptx if name.startswith("plain_")]:
        own = plain.replace("plain_", "own_", 1)
        if code[own] == code[plain]:
            continue
        print("not the same machine code:", own, architecture)
        found = [(len(code[name]), assembled[architecture, name][1], ptx[name]["atomics"]) for name in (own, plain)]
        if found[0] != found[1] and not (plain[6:] in BETTER_THAN_PLAIN and found[0][0] <= found[1][0]):
            wrong.append(f"{own}, sm_{architecture}: (code, stack, atomics) {found[0]}, {plain}: {found[1]}")
    return wrong


def read_ptxas(log):
    """{(architecture, kernel): (registers, stack and spill bytes)} of what ptxas -v says."""
    found = {}
    kernel = None
    for line in log.splitlines():
        entry = re.search(r"Compiling entry function '(\w+)' for 'sm_(\d+)'", line)
        frame = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line)
        used = re.search(r"Used (\d+) registers", line)
        if entry:
            kernel, memory = (int(entry[2]), entry[1]), None
        elif frame and kernel:
            memory = sum(map(int, frame.groups()))
        elif used and kernel and memory is not None:
            found[kernel] = (int(used[1]), memory)
            kernel = None
    return found


def count_sass(cuobjdump, binary, architecture):
    """{kernel: (shuffles, atomics)} of the machine code of an architecture."""
    text = subprocess.run(
        [cuobjdump, "-sass", "-arch", f"sm_{architecture}", binary], check=True, capture_output=True, text=True
    ).stdout
    found = {}
    for part in text.split("Function : ")[1:]:
        found[part.split()[0]] = (
            len(re.findall(r"\bSHFL\.", part)),
            len(re.findall(r"\b(?:RED|REDG|REDS|ATOM|ATOMG|ATOMS)\.", part)),
        )
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nvcc", required=True)
    parser.add_argument("--include", required=True)
    parser.add_argument("--sass", action="store_true")
    parser.add_argument("--architectures", type=lambda text: [int(a) for a in text.split(",")], default=ARCHITECTURES)
    options = parser.parse_args()
    nvcc = shutil.which(options.nvcc)
    if not nvcc:
        skip("no nvcc here")
    listed = subprocess.run([nvcc, "--list-gpu-code"], check=True, capture_output=True, text=True).stdout.split()
    architectures = [a for a in options.architectures if f"sm_{a}" in listed]
    if not architectures:
        skip("this nvcc knows none of the architectures")
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kernels.cu")
    with tempfile.TemporaryDirectory() as folder:
        binary = os.path.join(folder, "kernels.fatbin")
        command = [nvcc, "-std=c++17", "-Werror", "all-warnings", "-I" + os.path.abspath(options.include), "-Xptxas", "-v"]
        command += ["--threads", "0", "--keep", "--keep-dir", folder, "-fatbin", source, "-o", binary]
        for a in architectures:
            command += ["-gencode", f"arch=compute_{a},code=[compute_{a},sm_{a}]"]
        compiled = subprocess.run(command, capture_output=True, text=True, cwd=folder)
        if compiled.returncode != 0:
            sys.exit(compiled.stdout + compiled.stderr)
        ptx, additions, code, wrong = {}, {}, {}, []
        for file in os.listdir(folder):
            if file.endswith(".ptx"):
                with open(os.path.join(folder, file)) as opened:
                    text = opened.read()
                target = int(re.search(r"\.target sm_(\d+)", text)[1])
                ptx[target], additions[target] = count_ptx(text)
                wrong += check_scopes(text, target)
                for name, body in re.findall(r"\.entry (\w+)\((.*?)\n\}", text, re.S):
                    if name in FROM_MEMORY and re.search(r"isspacep|\b(red|atom)\.(?!global)", body):
                        wrong.append(f"{name}, sm_{target}: an atomic is not of global memory")
            elif file.endswith(".cubin"):
                code[int(re.search(r"sm_(\d+)", file)[1])] = read_code(os.path.join(folder, file))
        cuobjdump = options.sass and shutil.which("cuobjdump")
        sass = {a: count_sass(cuobjdump, binary, a) for a in architectures} if cuobjdump else {}
    assembled = read_ptxas(compiled.stdout + compiled.stderr)

    print("kernel            sm shuffles votes matches redux atomics registers")
    for kernel, promised in PROMISES.items():
        for a in architectures:
            if kernel not in ptx.get(a, {}) or (a, kernel) not in assembled:
                wrong.append(f"{kernel}, sm_{a}: not found")
                continue
            registers, memory = assembled[a, kernel]
            found = Promise(**ptx[a][kernel], registers=registers)
            wanted = promised
            if a < 80:
                wanted = promised._replace(votes=promised.votes + 6 * promised.redux, redux=0)
            if a >= 90:
                wanted = wanted._replace(atomics=VECTOR_ATOMICS.get(kernel, wanted.atomics))
            print("%-16s %3d %8d %5d %7d %5d %7d %9d" % (kernel, a, *found))
            if kernel.startswith("serial") and found.shuffles % promised.shuffles == 0 < found.shuffles:
                wanted = wanted._replace(shuffles=found.shuffles)
            for what in PTX:
                if getattr(found, what) != getattr(wanted, what):
                    wrong.append(f"{kernel}, sm_{a}: {getattr(found, what)} {what}, not {getattr(wanted, what)}")
            if registers > promised.registers:
                wrong.append(f"{kernel}, sm_{a}: {registers} registers, more than {promised.registers}")
            if kernel in ADDITIONS and additions[a][kernel] != ADDITIONS[kernel]:
                wrong.append(f"{kernel}, sm_{a}: additions to (shared, other) memory: {additions[a][kernel]}, not "
                             f"{ADDITIONS[kernel]}")
            if memory != 0:
                wrong.append(f"{kernel}, sm_{a}: {memory} bytes of stack and spills")
            if sass and kernel in STRAIGHT and sass[a].get(kernel) != (wanted.shuffles, wanted.atomics):
                wrong.append(f"{kernel}, sm_{a}: machine code has (shuffles, atomics) {sass[a].get(kernel)}")
    for a in architectures:
        wrong += check_plain(ptx[a], assembled, code[a], a)
    if 90 in architectures:
        print("bytes of machine code, sm_90:", {name: len(code[90][name]) for name in CODE})
        wrong += [f"{name}: {len(code[90][name])} bytes of code, more than {most}" for name, most in CODE.items()
                  if len(code[90][name]) > most]
    scoped = {f"{sink}_at_{scope}" for sink in SCOPED for scope in SCOPES}
    extra = {kernel for counted in ptx.values() for kernel in counted} - set(PROMISES) - scoped
    wrong += [f"{kernel}: nothing is promised of it" for kernel in sorted(extra)
              if not kernel.startswith(("plain_", "own_", HOST_CALLS))]
    host = {(kernel, a): found for (a, kernel), found in assembled.items() if kernel.startswith(HOST_CALLS)}
    wrong += [f"{kernel}, sm_{a}: {registers} registers, {memory} bytes of stack and spills"
              for (kernel, a), (registers, memory) in host.items() if registers > 64 or memory != 0]
    if not host:
        wrong.append("the kernels of calls that the host makes: not found")
    if options.sass:
        print("machine code:", "counted" if sass else "not counted, no cuobjdump in the PATH")
    if wrong:
        sys.exit("\n".join(wrong))


main()
