# SPDX-License-Identifier: MIT
"""The page in headless Chromium under hands: mouse, touch and keys, modes, slider, thumbnails, curves, light and dark,
1280 and 400 pixels wide, what is there before the scene is; a report, which opens at its top. For `make extra`.

    page_hands.py DSPLAT
"""
import base64
import contextlib
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time


class Browser:
    """A Chromium whose one page is driven through its protocol, over pipes: file descriptors 3 and 4."""

    def __init__(self, program, folder):
        to_browser, self.to = os.pipe()
        self.back, from_browser = os.pipe()
        high = [os.dup2(fd, fd + 100, False) for fd in (to_browser, from_browser)]  # out of the way of 3 and 4

        def place():
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
             "--hide-scrollbars", "--remote-debugging-pipe", f"--user-data-dir={folder}/profile"],
            preexec_fn=place, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for fd in (*high, to_browser, from_browser):
            os.close(fd)
        self.buffer, self.count, self.session, self.fetched = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime"):
            self.call(domain + ".enable")

    def call(self, method, **parameters):
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.buffer:
                part = os.read(self.back, 1 << 20)
                if not part:
                    raise RuntimeError("chromium has ended")
                self.buffer += part
            text, self.buffer = self.buffer.split(b"\0", 1)
            answer = json.loads(text)
            if answer.get("method") == "Network.requestWillBeSent":
                self.fetched.append(answer["params"]["request"]["url"])
            if answer.get("id") == self.count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def value(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait(self, expression, seconds=60):
        end = time.monotonic() + seconds
        while not self.value(expression):
            said = "document.getElementById('note')?.textContent"
            assert time.monotonic() < end, f"never: {expression}; the page says {self.value(said)}"
            time.sleep(0.05)

    def resize(self, width, height, touch=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=touch)
        self.call("Emulation.setTouchEmulationEnabled", enabled=touch, maxTouchPoints=2)

    def media(self, **features):
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": name.replace("_", "-"), "value": value} for name, value in features.items()])

    def open(self, url):
        self.call("Page.navigate", url=url)

    def screenshot(self, selector=None):
        """selector: of the element whose middle is taken, without what lies over its edges."""
        clip = {}
        if selector:
            x, y = self.middle(selector)
            clip = {"clip": {"x": x - 200, "y": y - 150, "width": 400, "height": 300, "scale": 1}}
        return base64.b64decode(self.call("Page.captureScreenshot", format="png", **clip)["data"])

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def drag(self, start, by, button="left"):
        buttons = {"left": 1, "right": 2}[button]
        self.mouse("mousePressed", *start, button=button, buttons=buttons, clickCount=1)
        for k in (1, 2):
            self.mouse("mouseMoved", start[0] + by[0] * k / 2, start[1] + by[1] * k / 2, button=button, buttons=buttons)
        self.mouse("mouseReleased", start[0] + by[0], start[1] + by[1], button=button)

    def fingers(self, *ways):
        """Each way: where a finger is at first and at last."""
        at = lambda part: [{"x": a[0] + part * (b[0] - a[0]), "y": a[1] + part * (b[1] - a[1]), "id": k}
                           for k, (a, b) in enumerate(ways)]
        self.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=at(0))
        for part in (0.5, 1):
            self.call("Input.dispatchTouchEvent", type="touchMove", touchPoints=at(part))
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def key(self, key, until="true"):
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key)
        self.wait(until)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def middle(self, selector):
        box = self.value(f"(e => (r => [r.x + r.width / 2, r.y + r.height / 2])(e.getBoundingClientRect()))"
                         f"(document.querySelector({json.dumps(selector)}))")
        return box

    def click(self, selector):
        x, y = self.middle(selector)
        self.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
        self.mouse("mouseReleased", x, y, button="left", clickCount=1)

    def close(self):
        with contextlib.suppress(Exception):
            self.session = None
            self.call("Browser.close")
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()


# ---- the page's own state

def open_page(browser, url):
    """Until the scene is drawn; `viewer` is then the page's."""
    browser.open("about:blank")
    browser.open(url)
    browser.wait("document.readyState === 'complete' && document.getElementById('note')?.hidden")
    browser.value("{ const own = Viewer.prototype.frame; Viewer.prototype.frame = function (time) "
                  "{ window.viewer = this; return own.call(this, time); }; }")
    browser.click('#reset')
    browser.value("document.getElementById('split').oninput()")
    browser.wait("window.viewer")


def camera(browser):
    """Eye, pivot, rotation and distance."""
    return browser.value("(c => ({eye: c.eye, pivot: c.pivot, rotation: c.rotation, away: c.distance()}))(viewer.camera)")


def apart(a, b):
    return math.dist(a, b)


def moves(browser, before, what, **expected):
    """What a hand has changed, by name: True or False."""
    now = camera(browser)
    for name, changed in expected.items():
        size = abs(now[name] - before[name]) if name == "away" else apart(now[name], before[name])
        assert (size > 1e-3) == changed, f"{what}: {name} changes by {size}"
    return now


def middle_of_scene(browser):
    return browser.middle("#canvas")


def check_before_the_scene(browser, url):
    """A scene that never comes: how many Gaussians are awaited."""
    waits = browser.call("Page.addScriptToEvaluateOnNewDocument", source="""window.DecompressionStream = class {
        constructor() { return new TransformStream({ transform: () => new Promise(() => {}) }); } };""")["identifier"]
    browser.open(url)
    browser.wait("document.getElementById('note')?.textContent.startsWith('Loading ')")
    browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=waits)


def check_mouse_and_keys(browser):
    x, y = middle_of_scene(browser)
    at = camera(browser)
    browser.drag((x, y), (60, 20))
    at = moves(browser, at, "drag", eye=True, pivot=False, rotation=True, away=False)
    browser.drag((x, y), (40, 0), "right")
    at = moves(browser, at, "right button", eye=True, pivot=True, rotation=False, away=False)
    browser.mouse("mouseWheel", x, y, deltaX=0, deltaY=-200)
    browser.wait(f"viewer.camera.distance() < {0.9 * at['away']}")
    at = moves(browser, at, "wheel", eye=True, pivot=False, rotation=False, away=True)
    for key in ("ArrowLeft", "ArrowUp"):
        browser.key(key, f"Math.hypot(...viewer.camera.eye.map((x, i) => x - {at['eye']}[i])) > 0.01")
        at = moves(browser, at, key, eye=True, pivot=False, rotation=True, away=False)
    for key, mode in zip("4321", (3, 2, 1, 0)):  # 2 and 3 need a view with a photograph: R goes to one
        if key == "3":
            browser.key("r")
            browser.wait("viewer.view === 0")
        browser.key(key)
        assert browser.value("viewer.mode") == mode, f"key {key}"
    browser.key(".")
    browser.wait("viewer.view === 1")
    browser.key(",")
    browser.wait("viewer.view === 0")


def check_touch(browser):
    browser.resize(400, 800, touch=True)
    x, y = middle_of_scene(browser)
    at = camera(browser)
    browser.fingers(((x, y), (x + 60, y + 20)))
    at = moves(browser, at, "one finger", eye=True, pivot=False, rotation=True, away=False)
    browser.fingers(((x - 40, y), (x - 10, y)), ((x + 40, y), (x + 70, y)))
    at = moves(browser, at, "two fingers", eye=True, pivot=True, rotation=False)
    browser.fingers(((x - 40, y), (x - 80, y)), ((x + 40, y), (x + 80, y)))
    now = moves(browser, at, "pinch", eye=True, rotation=False, away=True)
    assert now["away"] < at["away"], "fingers that part come nearer"
    wide = browser.value("document.documentElement.scrollWidth")
    assert wide <= 400, f"{wide} pixels wide on a screen of 400"
    browser.resize(1280, 800)


def check_thumbnails(browser):
    facts = "JSON.parse(document.getElementById('facts').textContent)"
    count = browser.value("document.querySelectorAll('#views button').length")
    assert count == 5 and browser.value("document.querySelectorAll('#views img').length") == 5, count
    browser.click("#views button:nth-child(3)")
    browser.wait("viewer.view === 2")
    there = browser.value(f"{facts}.views[2].rotation")
    assert apart(camera(browser)["rotation"], there) < 1e-6, "not at the view of the thumbnail"
    assert browser.value("document.querySelector('#views button:nth-child(3)').getAttribute('aria-pressed')") == "true"


def check_modes(browser):
    pictures, legends = [], []
    for mode in range(4):
        browser.click(f"#modes button:nth-child({mode + 1})")
        browser.wait(f"viewer.mode === {mode} && !viewer.queued")
        pictures.append(browser.screenshot("#canvas"))
        legends.append(browser.value("(l => l.hidden ? '' : l.textContent)(document.getElementById('legend'))"))
    assert len(set(pictures)) == 4, "two modes show the same"
    assert legends[:2] == ["", ""] and legends[2].startswith("Error 0") and legends[3].startswith("Depth "), legends
    browser.click("#modes button:nth-child(2)")
    divider = "parseFloat(document.getElementById('divider').style.left)"
    assert browser.value(divider) == 50
    half, start = browser.screenshot(), browser.middle("#split")
    browser.drag(start, (200, 0))
    assert browser.value(divider) > 60, "the slider does not move"
    browser.wait("!viewer.queued")
    assert browser.screenshot() != half
    browser.click("#modes button:nth-child(1)")


def check_the_rest(browser):
    assert "Gaussians" in browser.value("document.getElementById('about').textContent")
    notes = browser.value("document.getElementById('notes').textContent")
    assert re.match(r"The \d+ Gaussians of least opacity and size were left out\. .*, harmonics in steps of 0\.0\d+\.$", notes), notes
    others = [url for url in browser.fetched if not url.startswith(("file:", "data:", "blob:", "about:"))]
    assert not others, f"the page asks for {others}"


def check_opens_at_its_top(browser, url, report):
    """Whatever the window, the page shows its title first, and a report its tiles; nothing is wider than the window."""
    brightness = "getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).map(Number)[0]"
    for size in ((1280, 720), (400, 800), (1920, 1080), (400, 500)):  # in the last the thumbnails are further down
        for scheme, is_so in (("dark", lambda x: x < 60), ("light", lambda x: x > 220)):
            browser.resize(*size)
            browser.media(prefers_color_scheme=scheme, prefers_reduced_motion="reduce")
            open_page(browser, url)
            assert browser.value("scrollY") == 0, f"{url} opens {browser.value('scrollY')} pixels down at {size}"
            assert browser.value("document.documentElement.scrollWidth") <= size[0], f"{url} is wider than {size}"
            assert is_so(browser.value(brightness)), (url, scheme)
            top = browser.value("document.getElementById('tiles').getBoundingClientRect().bottom")
            assert not report or 0 < top < size[1], f"the tiles end at {top} of {size}"
    browser.media(prefers_color_scheme="light", prefers_reduced_motion="reduce")


def check_report(browser, url):
    check_opens_at_its_top(browser, url, True)
    said = browser.value("document.getElementById('tiles').innerText")
    assert all(word in said for word in ("PSNR, dB", "SSIM, held out", "iterations a second", "views a step")), said
    assert browser.value("document.title") == "knot", browser.value("document.title")
    assert browser.value("document.querySelectorAll('#report .trio img').length") == 3
    browser.wait("[...document.querySelectorAll('#report img')].every(i => i.complete && i.naturalWidth === 96)")
    assert browser.value("document.querySelectorAll('#report .plots svg').length") >= 3
    curves = browser.value("[...document.querySelectorAll('#report .plots h2')].map(h => h.textContent)")
    assert curves[0].startswith("Loss in training") and any(c.startswith("PSNR") for c in curves), curves


def make_page(dsplat):
    def run(*arguments):
        subprocess.run([dsplat, *arguments], check=True, stdout=subprocess.DEVNULL)

    run("generate", "knot", "--views", "4", "--test-views", "1", "--size", "96", "--gaussians", "1000")
    run("export", "knot/scene.ply", "-o", "page.html", "--cameras", "knot", "--most", "900")
    run("train", os.path.abspath("knot"), "-o", "trained.ply", "--from", "knot/scene.ply", "--iterations", "6",
        "--eval-every", "2", "--report", "report")
    return f"file://{os.getcwd()}/page.html", f"file://{os.getcwd()}/report/index.html"


def main():
    chromium = shutil.which("chromium")
    if not chromium:
        print("skipped: no chromium")
        return 77
    dsplat = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.chdir(folder)
        url, report = make_page(dsplat)
        try:
            browser = Browser(chromium, folder)
        except (RuntimeError, OSError) as error:
            print(f"skipped: chromium does not run here: {error}")
            return 77
        try:
            browser.resize(1280, 800)
            browser.media(prefers_color_scheme="light", prefers_reduced_motion="reduce")
            check_before_the_scene(browser, url)
            open_page(browser, url)
            for check in (check_mouse_and_keys, check_thumbnails, check_modes, check_touch, check_the_rest):
                check(browser)
                print(f"{check.__name__}: as it should be", flush=True)
            check_opens_at_its_top(browser, url, False)
            check_report(browser, report)
            print("check_report: as it should be", flush=True)
        finally:
            browser.close()
            os.chdir("/")
    return 0


if __name__ == "__main__":
    sys.exit(main())
