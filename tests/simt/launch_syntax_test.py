# SPDX-License-Identifier: MIT
"""launch_syntax_test.py LAUNCH_SYNTAX: what the script rewrites, leaves and refuses."""
import pathlib
import subprocess
import sys
import tempfile

REWRITTEN = {
    "f<<<1, 2>>>(a);": "simt_launch(f, 1, 2)(a);",
    "x::f<int, 3><<<dim3(1, 2), n >> 1, 4 * sizeof(float), s>>>(a, b);":
        "simt_launch(x::f<int, 3>, dim3(1, 2), n >> 1, 4 * sizeof(float), s)(a, b);",
    "::x::f<(a > b), g<int>>\n<<<1, (2 >> 1)>>>(a);": "simt_launch(::x::f<(a > b), g<int>>\n, 1, (2 >> 1))(a);",
    "if (a < b) f<<<1, 2>>>(a); else g<<<3, 4>>>();": "if (a < b) simt_launch(f, 1, 2)(a); else simt_launch(g, 3, 4)();",
    "#define L(N) \\\n    f<N> \\\n    <<<1, 2>>>(a)": "#define L(N) \\\n    simt_launch(f<N> \\\n    , 1, 2)(a)",
    "// f<<<1, 2>>>(a)\n/* g<<< */ \"h<<<1, 2>>>(a)\" 1'000'000": "// f<<<1, 2>>>(a)\n/* g<<< */ \"h<<<1, 2>>>(a)\" 1'000'000",
    "void f() { extern __shared__ float x[]; }":
        "void f() { float *x = static_cast<float *>(simt_dynamic_shared()); }",
    "namespace n { void f() { extern __shared__ __align__(16) unsigned char x[]; } }":
        "namespace n { void f() { unsigned char *x = static_cast<unsigned char *>(simt_dynamic_shared()); } }",
    "void f() { extern __shared__\n    float4 x[ ]; int y; }":
        "void f() { float4 *x = static_cast<float4 *>(simt_dynamic_shared());\n int y; }",
    "__shared__ float x[4];": "__shared__ float x[4];",
}
REFUSED = {
    "a;\nf<<<1, 2;": "in.cu:2: not a launch",
    "f<<<1, 2>>>;": "in.cu:1: not a launch",
    "namespace n {\nextern __shared__ float x[];\n}": "in.cu:2: a dynamic shared array outside a function",
}


def run(folder, text):
    (folder / "in.cu").write_text(text, encoding="utf-8")
    return subprocess.run([sys.executable, sys.argv[1], "in.cu", "-o", "out.cpp"], cwd=folder, text=True,
                          stderr=subprocess.PIPE, check=False)


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    for text, expected in REWRITTEN.items():
        status = run(folder, text)
        assert status.returncode == 0, status.stderr
        found = (folder / "out.cpp").read_text(encoding="utf-8")
        assert found == f'#line 1 "in.cu"\n{expected}', f"{text}\nbecame\n{found}\ninstead of\n{expected}"
    for text, expected in REFUSED.items():
        status = run(folder, text)
        assert status.returncode == 1 and status.stderr.startswith(expected), f"{text}\n{status}"
