# SPDX-License-Identifier: MIT
"""The trainer of `dsplat train`, libdistwar_train: photographs in memory with known cameras become a scene.

    trainer = distwar.Trainer(dict(images=images, viewmats=viewmats, Ks=Ks, points=points, colors=colors))
    trainer.train(budget="10s")
    colors, alphas, meta = distwar.rasterization(**trainer.scene("cuda"), viewmats=..., Ks=..., width=..., height=...)
    trainer.save("scene.ply")

Schedules, defaults and density control are the C library's: distwar_train.h documents the settings. Needs numpy.
"""
from __future__ import annotations

import os
import sys
from ctypes import byref, string_at
from typing import Any, Callable, Mapping, NamedTuple, Optional, Sequence

import numpy

from . import _train, gs

Arrays = dict[str, Any]


class Progress(NamedTuple):
    """distwar_train_progress without the list of losses. views and views_in_all: seen, and to see (under a budget an
    estimate, 0 at first); loss: mean of the last views; seconds: of training."""
    views: int
    views_in_all: int
    steps: int
    gaussians: int
    sh_degree: int
    seconds: float
    loss: float


class Validation(NamedTuple):
    """distwar_train_validation: of the held-out views, and of as many that are trained on."""
    views: int
    psnr: float
    ssim: float
    trained_psnr: float
    trained_ssim: float


Callback = Callable[["Trainer", Progress], Any]


def seconds_of(budget: Any) -> float:
    """The seconds of a budget: 10, "10", "10s", "2m" or "1h"."""
    number = str(budget).rstrip("smh")
    try:
        return float(number) * {"": 1, "s": 1, "m": 60, "h": 3600}[str(budget)[len(number):]]
    except (ValueError, KeyError):
        raise ValueError(f"distwar.Trainer: budget is {budget!r}, not a time such as 10s or 2m") from None


def _settings(lib: Any, given: Mapping[str, Any]) -> Any:
    """As texts for C; None: the default."""
    turns: dict[str, Any] = dict(budget=seconds_of, background=lambda rgb: ",".join(str(float(c)) for c in rgb))
    texts = {name: str(turns.get(name, str)(value)) for name, value in given.items() if value is not None}
    flags = {"True": "1", "False": "0"}
    return lib.settings([f"{name.replace('_', '-')}={flags.get(text, text)}" for name, text in texts.items()])


def _host(what: str, array: Any, dtype: str, shape: Sequence[Optional[int]]) -> Any:
    """A contiguous array of numpy; None in shape: any length."""
    if hasattr(array, "detach"):
        array = array.detach().cpu().numpy()
    array = numpy.asarray(array)
    if dtype == "uint8" and array.dtype == bool:
        array = array.view("uint8")
    if (dtype == "uint8") != (array.dtype == "uint8"):
        raise TypeError(f"distwar.Trainer: {what} has the type {array.dtype}, not {dtype}")
    if array.ndim != len(shape) or any(b is not None and a != b for a, b in zip(array.shape, shape)):
        wanted = "[" + ", ".join("*" if length is None else str(length) for length in shape) + "]"
        raise ValueError(f"distwar.Trainer: {what} has the shape {array.shape}, not {wanted}")
    return numpy.ascontiguousarray(array, dtype)


def camera_of(viewmat: Any, K: Any, width: int, height: int, i: Any = "") -> Any:
    """A pinhole's gs_camera, without a near plane. viewmat [4, 4] or [1, 4, 4]: world to camera; K [3, 3] or
    [1, 3, 3], pixels."""
    view, k = (a[0] if a.ndim == 3 else a for a in (viewmat, K))
    view, k = _host("viewmats", view, "float32", (4, 4)), _host("Ks", k, "float32", (3, 3))
    if k[0, 1] != 0 or view[3].tolist() != [0, 0, 0, 1]:
        raise ValueError(f"distwar.Trainer: view {i}: skew, or last row not 0 0 0 1")
    out: Any = gs.Camera(width=width, height=height, fx=k[0, 0], fy=k[1, 1], cx=k[0, 2], cy=k[1, 2])
    out.rotation[:], out.translation[:] = view[:3, :3].ravel().tolist(), view[:3, 3].tolist()
    return out


class Trainer:
    """A run of training.

    data, of numpy's arrays or tensors on any device, which are copied to the host: images, of each view [height, width, 3],
    uint8; viewmats [V, 4, 4], world to camera; Ks [V, 3, 3], pixels. A start: points [N, 3] and colors [N, 3], uint8; or
    parameters, as parameters() returns them. Optional, of each view: masks [height, width], whose pixels of 0 do not
    count; alphas [height, width], uint8, of pictures blended with the background; inverse_depths [height, width], NaN:
    unknown. everywhere: the points are random. near_plane, if it is not to follow from where the cameras are:
    near_plane() says what it is.

    settings: by keyword here or in train(), with the names and defaults that distwar_train.h lists, with _ for -: iterations,
    budget, seed, batch, max_gaussians, density, retire, sh_degree, background, random_background, antialias, exposure,
    refine_poses, reproducible, validate, teachers; depth_weight, at the first step. budget may be text: "10s", "2m".

    backend: "cuda" or "simt" (a CPU); None: a GPU if there is one. Of GPUs the current one of CUDA. An object is used by
    one thread at a time.
    """

    def __init__(self, data: Mapping[str, Any], backend: str | None = None, **settings: Any) -> None:
        self._at: Any = None
        self._lib: Any = _train.library(backend)
        self._given = dict(settings)
        _settings(self._lib, settings)
        self._start = {name: data.get(name) for name in ("points", "colors", "parameters", "everywhere")}
        self._kept: list[Any] = []
        images = data["images"]
        for name in ("viewmats", "Ks", "masks", "alphas", "inverse_depths"):
            if data.get(name) is not None and len(data[name]) != len(images):
                raise ValueError(f"distwar.Trainer: there are {len(data[name])} {name} of {len(images)} images")
        self._views: Any = (_train.View * len(images))()
        for i, view in enumerate(self._views):
            picture = _host("images", images[i], "uint8", (None, None, 3))
            height, width, _ = picture.shape
            view.camera = camera_of(data["viewmats"][i], data["Ks"][i], width, height, i)
            view.camera.near_plane = data.get("near_plane") or 0
            view.pixels = picture.ctypes.data
            self._kept.append(picture)
            for name, dtype in (("masks", "uint8"), ("alphas", "uint8"), ("inverse_depths", "float32")):
                if data.get(name) is not None:
                    self._kept.append(_host(name, data[name][i], dtype, (height, width)))
                    setattr(view, name[:-1], self._kept[-1].ctypes.data)

    def _opened(self) -> Any:
        """The run, which begins at the first question about it."""
        if self._at is not None:
            return self._at
        start = self._start
        data: Any = _train.Data(views=self._views, view_count=len(self._views), everywhere=bool(start["everywhere"]))
        given = dict(self._given)
        if start["parameters"] is not None:
            arrays, data.scene = self._gaussians(start["parameters"])
            self._kept += arrays.values()
            given["sh_degree"] = data.scene.sh_degree
        elif start["points"] is not None:
            points = _host("points", start["points"], "float32", (None, 3))
            colors = numpy.full(points.shape, 128, "uint8") if start["colors"] is None else start["colors"]
            colors = _host("colors", colors, "uint8", points.shape)
            data.points, data.colors, data.point_count = points.ctypes.data, colors.ctypes.data, len(points)
            self._kept += [points, colors]
        self._at = self._lib.check(self._lib.open(byref(data), _settings(self._lib, given)))
        return self._at

    @staticmethod
    def _gaussians(p: Mapping[str, Any]) -> tuple[Arrays, Any]:
        """Arrays by the names of gs_gaussians, and the struct."""
        n, coefficients = p["sh"].shape[:2]
        shapes = dict(mean=(n, 3), log_scale=(n, 3), quaternion=(n, 4), opacity_logit=(n,), sh=(n, None, 3))
        arrays = {name: _host(name, p[name], "float32", shape) for name, shape in shapes.items()}
        degree = round(coefficients**0.5) - 1
        if (degree + 1)**2 != coefficients or degree > 3:
            raise ValueError(f"distwar.Trainer: sh has {coefficients} coefficients, not 1, 4, 9 or 16")
        return arrays, gs.Gaussians(count=n, sh_degree=degree, **{k: a.ctypes.data for k, a in arrays.items()})

    def train(self, callback: Callback | None = None, every: int = 100, progress: bool = False,
              **settings: Any) -> Progress:
        """Trains until the iterations are done or the budget is used, and returns the last progress. settings: as of
        Trainer(); only before the first step. callback(trainer, progress): after every `every` steps, which then waits
        for the device; a result that is true ends the call, and train() goes on later. progress: a line on stderr."""
        if settings and self._at is not None:
            raise RuntimeError("distwar.Trainer: training has begun, and its settings stay")
        given = {**self._given, **settings}
        _settings(self._lib, given)
        self._given = given
        steps = 0
        while self.step():
            steps += 1
            now = self.progress if (callback or progress) and steps % every == 0 else None
            if now and progress:
                print(f"\r{now.views} of {now.views_in_all or '?'} views, {now.gaussians} Gaussians, "
                      f"{now.seconds:.1f} s, loss {now.loss:.4f} ", end="", file=sys.stderr, flush=True)
            if now and callback and callback(self, now):
                break
        if progress:
            print(file=sys.stderr)
        return self.progress

    def step(self) -> bool:
        """One step, of one view or several, which does not wait for the device. False, and nothing is done, once
        training is over."""
        if self._lib.is_over(self._opened()):
            return False
        self._lib.check(self._lib.step(self._at))
        return True

    def _progress(self) -> Any:
        return self._lib.get("progress", _train.Progress, self._opened())

    @property
    def progress(self) -> Progress:
        """Waits for the device, as do all that follow."""
        now = self._progress()
        return Progress(*(getattr(now, name) for name in Progress._fields))

    def losses(self) -> Any:
        """The losses of all views seen so far, in their order."""
        now = self._progress()
        return numpy.array(now.losses[:now.loss_count])

    def validate(self) -> Validation:
        """Measures the views that the setting `validate` holds out."""
        found = self._lib.get("validate", _train.Validation, self._opened())
        return Validation(*(getattr(found, name) for name in Validation._fields))

    def parameters(self) -> Arrays:
        """The Gaussians as they are stored, arrays by the names of gs_gaussians: mean [N, 3], log_scale [N, 3],
        quaternion [N, 4], opacity_logit [N], sh [N, K, 3]."""
        now = self.progress
        n, k = now.gaussians, (now.sh_degree + 1)**2
        arrays, out = self._gaussians({name: numpy.empty((n, *shape), "float32") for name, shape in dict(
            mean=(3,), log_scale=(3,), quaternion=(4,), opacity_logit=(), sh=(k, 3)).items()})
        self._lib.check(self._lib.scene(self._at, byref(out)))
        return arrays

    def scene(self, device: Any = None) -> Arrays:
        """Arguments of rasterization(): means, quats, scales, opacities, colors, sh_degree and rasterize_mode. Tensors on
        the device; None: arrays of numpy."""
        p, antialias = self.parameters(), self._given.get("antialias", False)
        out: Arrays = dict(means=p["mean"], quats=p["quaternion"], scales=numpy.exp(p["log_scale"]),
                           opacities=1 / (1 + numpy.exp(-p["opacity_logit"])), colors=p["sh"])
        if device is not None:
            import torch
            out = {name: torch.from_numpy(array).to(device) for name, array in out.items()}
        return dict(out, sh_degree=round(p["sh"].shape[1]**0.5) - 1,
                    rasterize_mode="antialiased" if antialias else "classic")

    def cameras(self) -> tuple[Any, Any]:
        """viewmats [V, 4, 4] and Ks [V, 3, 3] as they are now: with refine_poses they move."""
        viewmats, Ks = (numpy.tile(numpy.eye(n, dtype="float32"), (len(self._views), 1, 1)) for n in (4, 3))
        for i, (view, K) in enumerate(zip(viewmats, Ks)):
            c = self._lib.get("camera", gs.Camera, self._opened(), i)
            view[:3, :3], view[:3, 3] = numpy.reshape(c.rotation, (3, 3)), c.translation[:]
            K[0, 0], K[1, 1], K[:2, 2] = c.fx, c.fy, (c.cx, c.cy)
        return viewmats, Ks

    def near_plane(self) -> float:
        """The depth before which nothing is drawn: near_plane of rasterization()."""
        return float(self._lib.get("camera", gs.Camera, self._opened(), 0).near_plane)

    def picture(self, viewmat: Any, K: Any, width: int, height: int) -> Any:
        """The scene as it is: [height, width, 3], uint8."""
        out, camera = numpy.empty((height, width, 3), "uint8"), camera_of(viewmat, K, width, height)
        camera.near_plane = self.near_plane()
        self._lib.check(self._lib.picture(self._opened(), byref(camera), out.ctypes.data))
        return out

    def checkpoint(self) -> bytes:
        """The whole state of training, for resume()."""
        saved = bytearray()

        def write(_: Any, at: int, count: int) -> bool:
            saved.extend(string_at(at, count))
            return True
        self._lib.check(self._lib.save(self._opened(), _train.WRITE(write), None))
        return bytes(saved)

    def resume(self, saved: bytes) -> None:
        """Goes on where a Trainer of the same data and settings was; with `reproducible` with the same bits."""
        self._lib.check(self._lib.resume(self._opened(), saved, len(saved)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the scene as a PLY file with the names of the original program, as dsplat and viewers read it."""
        p = self.parameters()
        n = len(p["mean"])
        rest = p["sh"][:, 1:].transpose(0, 2, 1).reshape(n, -1)
        columns = dict(x=p["mean"], nx=numpy.zeros((n, 3), "float32"), f_dc_=p["sh"][:, 0], f_rest_=rest,
                       opacity=p["opacity_logit"][:, None], scale_=p["log_scale"], rot_=p["quaternion"])
        alone = dict(x=("x", "y", "z"), nx=("nx", "ny", "nz"), opacity=("opacity",))
        names = [name for of, a in columns.items() for name in alone.get(of) or [f"{of}{i}" for i in range(a.shape[1])]]
        comment = "comment SplatRenderMode: mip\n" if self._given.get("antialias") else ""
        head = f"ply\nformat binary_little_endian 1.0\n{comment}element vertex {n}\n" + \
            "".join(f"property float {name}\n" for name in names) + "end_header\n"
        unfinished = os.fspath(path) + ".part"
        with open(unfinished, "wb") as file:
            file.write(head.encode() + numpy.hstack(list(columns.values())).astype("<f4").tobytes())
        os.replace(unfinished, path)

    def close(self) -> None:
        """Frees the memory on the device. Also done when the object is deleted."""
        at, self._at = self._at, None
        if at is not None:
            self._lib.close(at)

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, *reason: Any) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()
