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


def run(folder, text, *options):
    (folder / "in.cu").write_text(text, encoding="utf-8")
    return subprocess.run([sys.executable, sys.argv[1], "in.cu", "-o", "out.cpp", *options], cwd=folder, text=True,
                          stderr=subprocess.PIPE, check=False)


def check_headers(folder):
    """Headers with launches are copied, and those that include them; others stay."""
    (folder / "inc").mkdir()
    (folder / "a.cuh").write_text('#pragma once\n#include "b.cuh"\n#include "plain.h"\n#include <c.cuh>\n')
    (folder / "b.cuh").write_text("// f<<<1, 2>>>()\nvoid b() { extern __shared__ int s[]; }\n")
    (folder / "plain.h").write_text('#include "b.cuh.missing"\n')
    (folder / "inc" / "c.cuh").write_text('#include "c.cuh"\nvoid c() { f<<<1, 2>>>(); }\n')
    status = run(folder, '#include "a.cuh"\n/* #include "b.cuh"\n#include "b.cuh" */\n#include "plain.h"\n',
                 "-I", "inc", "-MF", "out.d")
    assert status.returncode == 0, status.stderr
    real = folder.resolve()
    copies = {path.name.partition("_")[2]: path for path in (real / "out.cpp.headers").iterdir()}
    assert sorted(copies) == ["a.cuh", "b.cuh", "c.cuh"], copies
    expected = {
        folder / "out.cpp": f'#line 1 "in.cu"\n#include "{copies["a.cuh"]}"\n/* #include "b.cuh"\n#include "b.cuh" */\n'
                            '#include "plain.h"\n',
        copies["a.cuh"]: f'#line 1 "{real}/a.cuh"\n#pragma once\n#include "{copies["b.cuh"]}"\n'
                         f'#include "{real}/plain.h"\n#include "{copies["c.cuh"]}"\n',
        copies["b.cuh"]: f'#line 1 "{real}/b.cuh"\n// f<<<1, 2>>>()\n'
                         "void b() { int *s = static_cast<int *>(simt_dynamic_shared()); }\n",
        copies["c.cuh"]: f'#line 1 "{real}/inc/c.cuh"\n#include "{real}/inc/c.cuh"\n'
                         "void c() { simt_launch(f, 1, 2)(); }\n",
    }
    for path, text in expected.items():
        assert path.read_text() == text, f"{path}:\n{path.read_text()}\ninstead of\n{text}"
    depends = (folder / "out.d").read_text().replace("\\\n", "").split()
    read = [f"{real}/{name}" for name in ("a.cuh", "b.cuh", "plain.h", "inc/c.cuh")]
    assert depends == ["out.cpp:", "in.cu", *read], depends


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
    check_headers(folder)
