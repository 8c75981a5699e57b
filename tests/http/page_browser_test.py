#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""page_browser_test.py RIDGE [--look FOLDER [MODEL]]: the server's live page in headless Chromium: a chat streams an answer, and
the panels show what /metrics and /debug/activity say. With --look it only saves screenshots of MODEL under load.

Ends with 77, which ctest counts as skipped, where there is no Chromium. It measures no times."""

import base64
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request

SKIPPED = 77
CHROMIUM = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)
RIDGE = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else None
KEY = "sk-12345678"
PATIENCE_S = 60
WORDS = " ".join(f"{i * 7919 % 104729:x}" for i in range(5000))


class Browser:
    """Chromium spoken to over its pipes (the DevTools protocol)."""

    def __init__(self):
        self.profile = tempfile.TemporaryDirectory()
        to_read, self.to = os.pipe()
        self.back, back_write = os.pipe()

        def place():
            kept = os.dup(to_read), os.dup(back_write)
            os.dup2(kept[0], 3)
            os.dup2(kept[1], 4)
        self.process = subprocess.Popen(
            [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={self.profile.name}", "--remote-debugging-pipe"],
            close_fds=False, preexec_fn=place, stderr=subprocess.DEVNULL)  # pylint: disable=subprocess-popen-preexec-fn
        os.close(to_read)
        os.close(back_write)
        self.number, self.waiting, self.events = 0, b"", []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for name in ["Page", "Runtime", "Log", "Network"]:
            self.ask(name + ".enable")

    def ask(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if not method.startswith("Target.") and hasattr(self, "session"):
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.waiting:
                got = os.read(self.back, 1 << 16)
                if not got:
                    raise AssertionError("the browser has ended")
                self.waiting += got
            text, self.waiting = self.waiting.split(b"\0", 1)
            reply = json.loads(text)
            if reply.get("id") == self.number:
                if "error" in reply:
                    raise AssertionError(f"{method}: {reply['error']}")
                return reply["result"]
            self.events.append(reply)

    def run(self, script):
        got = self.ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in got:
            raise AssertionError(got["exceptionDetails"])
        return got["result"].get("value")

    def await_true(self, script):
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            if self.run(script):
                return
            time.sleep(0.05)
        raise AssertionError(f"never true: {script}; the page: {self.run('document.body.innerText')}")

    def open(self, url, width=1280, height=1000, dark=False):
        self.size(width, height)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.events.clear()
        self.ask("Page.navigate", url=url)
        self.await_true("document.readyState === 'complete'")

    def size(self, width, height):
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def press(self, key, code, text=None):
        common = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.ask("Input.dispatchKeyEvent", type="keyDown", **common, **({"text": text} if text else {}))
        self.ask("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text):
        self.ask("Input.insertText", text=text)

    def picture(self, path):
        height = self.run("document.documentElement.scrollHeight")
        data = self.ask("Page.captureScreenshot", captureBeyondViewport=True,
                        clip={"x": 0, "y": 0, "width": self.run("innerWidth"), "height": height, "scale": 1})["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))

    def faults(self):
        """What the console says, and requests to others."""
        found = []
        for event in self.events:
            params = event.get("params", {})
            if event.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled"):
                found.append(params)
            url = params.get("request", {}).get("url", "") if event.get("method") == "Network.requestWillBeSent" else ""
            if url and not url.startswith(("http://127.0.0.1:", "data:")):
                found.append(url)
        return found

    def close(self):
        self.ask("Browser.close")  # its helper processes end with it, and write no more into the profile
        self.process.wait(timeout=PATIENCE_S)
        os.close(self.to)
        os.close(self.back)
        self.profile.cleanup()


class Served:
    """ridge serve on a free port."""

    def __init__(self, folder, model, *options, port=0):
        self.process = subprocess.Popen([RIDGE, "serve", model, "--port", str(port), *map(str, options)], cwd=folder, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.url, said = "", []
        for line in self.process.stdout:
            said.append(line)
            found = re.search(r"Listening on (http\S+?),", line)
            self.url = found.group(1) if found else self.url
            if line.startswith("Ready"):
                return
        raise AssertionError("".join(said))

    def get(self, path, key=None):
        request = urllib.request.Request(self.url + path, headers={"Authorization": f"Bearer {key}"} if key else {})
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:
            return reply.read().decode()

    def complete(self, prompt, tokens, key=None):
        body = json.dumps({"prompt": prompt, "max_tokens": tokens, "ignore_eos": True}).encode()
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
        with urllib.request.urlopen(urllib.request.Request(self.url + "/v1/completions", body, headers), timeout=PATIENCE_S) as reply:
            return json.load(reply)

    def metrics(self, key=None):
        lines = [re.match(r"(\w+)\{[^}]*\} (\S+)$", line) for line in self.get("/metrics", key).splitlines()]
        return {line.group(1): float(line.group(2)) for line in lines if line}

    def close(self):
        self.process.terminate()
        self.process.communicate(timeout=PATIENCE_S)


PROBE = """(() => {
  const text = (node) => node.textContent.trim();
  const all = (selector) => Array.from(document.querySelectorAll(selector));
  return {
    facts: Object.fromEntries(all('#now dl').map((each) => [text(each.querySelector('dt')), each.querySelector('dd').firstChild.textContent])),
    latency: all('#latency tbody tr').map((row) => Array.from(row.cells).map(text)),
    legend: all('#blocks .legend span').map(text), lanes: all('#requests .lane').length,
    steps: all('#steps .step').length, points: all('#roofline .point').length,
    roofline: text(document.getElementById('roofline')),
    unnamed: all('svg:not([aria-label]), canvas:not([aria-label])').length,
    wide: document.documentElement.scrollWidth > innerWidth, page: document.body.innerText,
    frames: all('img, iframe, object, embed').length, scripts: all('script').length,
  };
})()"""


def digits(value):
    if value >= 100 or value == 0:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def time_text(ns):
    for factor, unit in [(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1, "ns")]:
        if ns >= 0.9995 * factor or unit == "ns":
            return f"{digits(ns / factor)} {unit}"


def nearest_rank(values, share):
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def make_model(folder):
    """A model of random weights with a tokenizer of as many tokens."""
    def ridge(*arguments):
        subprocess.run([RIDGE, *arguments], cwd=folder, check=True, capture_output=True, timeout=600)
    (folder / "text.txt").write_text(WORDS)
    ridge("train", "--preset", "tiny", "--batch-size", "1", "--seq-len", "16", "--steps", "1", "--save", "model")
    ridge("tokenizer", "train", "text.txt", "--vocab-size", "1000", "--special-token", "<|im_start|>", "--special-token", "<|im_end|>",
          "--out", "words")
    for name in ["tokenizer.json", "tokenizer_config.json"]:
        shutil.copy(folder / "words" / name, folder / "model" / name)
    path = folder / "model" / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "max_position_embeddings": 32768}))


class LivePageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        make_model(cls.folder)
        (cls.folder / "keys").write_text(KEY + "\n")
        cls.browser = Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.scratch.cleanup()

    def serve(self, *options, port=0):
        served = Served(self.folder, "model", "--max-sequences", 2, "--threads", 1, "--context", 8192, "--device", "cpu", *options, port=port)
        self.addCleanup(served.close)
        self.addCleanup(self.browser.open, "about:blank")  # first: a page without a server is a fault
        return served

    def send(self, text):
        self.browser.run("document.getElementById('message').focus()")
        self.browser.type(text)
        self.browser.press("Enter", 13, "\r")

    def expect_sound(self, probe):
        self.assertEqual(self.browser.faults(), [])
        self.assertEqual((probe["unnamed"], probe["frames"], probe["scripts"]), (0, 0, 1))
        self.assertFalse(probe["wide"])
        for word in ["NaN", "undefined", "Infinity", "[object", "cannot be drawn"]:
            self.assertNotIn(word, probe["page"])

    def expect_figures(self, probe, served, key=None):
        """The panels against /metrics and /debug/activity, while nothing runs."""
        metrics, activity = served.metrics(key), json.loads(served.get("/debug/activity", key))
        facts = probe["facts"]
        self.assertEqual(facts["generated"], f"{metrics['ridge_generation_tokens_total']:,.0f}")
        self.assertEqual(facts["steps"], f"{metrics['ridge_engine_steps_total']:,.0f}")
        self.assertEqual((facts["running"], facts["waiting"], facts["KV in use"]), ("0", "0", "0.0%"))
        hits = metrics["ridge_prefix_cache_hits_total"] / metrics["ridge_prefix_cache_queries_total"]
        self.assertEqual(facts["prefix hits"], f"{100 * hits:.1f}%")
        ended = activity["requests"]
        ttft = [each["first_ns"] - each["stages"][0][1] for each in ended if each["first_ns"]]
        tpot = [(each["last_ns"] - each["first_ns"]) / (each["generated_tokens"] - 1) for each in ended if each["generated_tokens"] > 1]
        for row, values, name in zip(probe["latency"], [ttft, tpot], ["time_to_first_token", "time_per_output_token"]):
            total, count = (metrics[f"ridge_{name}_seconds_{part}"] for part in ["sum", "count"])
            self.assertEqual(len(values), count)
            self.assertEqual(row[1:], [*(time_text(nearest_rank(values, share)) for share in [0.5, 0.9, 0.99]),
                                       time_text(1e9 * total / count), f"{count:,.0f}"])
        self.assertEqual(probe["legend"], [f"{name} {activity['blocks'][name]:,}" for name in ["free", "cached", "used", "shared"]])
        self.assertEqual(sum(activity["blocks"][name] for name in ["free", "cached", "used", "shared"]), metrics["ridge_kv_cache_blocks"])
        self.assertEqual(probe["steps"], min(120, metrics["ridge_engine_steps_total"]))
        self.assertEqual(probe["lanes"], min(16, len(ended)))

    def settled(self, served, key=None):
        tokens = f"{served.metrics(key)['ridge_generation_tokens_total']:,.0f}"
        self.browser.await_true(f"document.querySelector('#now').innerText.includes('{tokens}\\n')")
        self.browser.await_true("document.querySelector('#now dd').firstChild.textContent === '0'")
        self.browser.run("new Promise((done) => setTimeout(done, 1200))")
        return self.browser.run(PROBE)

    def test_a_chat_and_the_panels(self):
        served = self.serve("--chat-template", "chatml")
        self.browser.open(served.url + "/")
        self.browser.await_true("!document.getElementById('live').hidden")
        self.browser.run("document.getElementById('most').value = '999'; document.getElementById('heat').value = '0'")
        # How the answer grows: greedy, it does not end early, and it is long enough to come in pieces.
        self.browser.run("""window.grown = new Set();
            new MutationObserver(() => window.grown.add(document.querySelectorAll('.turn.assistant')[0]?.textContent.length))
                .observe(document.getElementById('turns'), {childList: true, subtree: true, characterData: true})""")
        self.send("3dc <script>alert(1)</script> <img src=x>")
        self.browser.await_true("document.querySelectorAll('.account').length === 1")
        self.assertGreater(self.browser.run("window.grown.size"), 3)
        account = self.browser.run("document.querySelector('.account').textContent")
        self.assertRegex(account, r"^\d+ tokens in · \d+ out · TTFT .*FLOPs")
        self.assertIn("<img src=x>", self.browser.run("document.querySelector('.turn.user').textContent"))
        self.send("and more")
        self.browser.await_true("document.querySelectorAll('.account').length === 2")
        self.assertIn("cached)", self.browser.run("document.querySelectorAll('.account')[1].textContent"))
        clients = [threading.Thread(target=served.complete, args=(WORDS[100 * i:100 * i + 200], 30)) for i in range(4)]
        for each in clients:
            each.start()
        for each in clients:
            each.join()
        probe = self.settled(served)
        self.expect_sound(probe)
        self.expect_figures(probe, served)
        for width, dark in [(700, False), (700, True), (1280, True)]:
            self.browser.open(served.url + "/", width=width, dark=dark)
            self.browser.await_true("!document.getElementById('live').hidden")
            self.expect_sound(self.settled(served))
        # By keyboard: the last step, the one before it, and its explanation.
        self.browser.run("document.querySelector('#steps .step[tabindex=\"0\"]').focus()")
        self.browser.press("ArrowLeft", 37)
        number = int(served.metrics()["ridge_engine_steps_total"]) - 1
        self.assertIn(f"step {number:,}", self.browser.run("document.getElementById('tip').textContent"))
        self.browser.press("Escape", 27)
        self.assertTrue(self.browser.run("document.getElementById('tip').hidden"))

    def test_a_stopped_answer(self):
        served = self.serve("--chat-template", "chatml")
        self.browser.open(served.url + "/")
        self.browser.await_true("!document.getElementById('live').hidden")
        # Greedy, the answer repeats itself until the context is full; drawn, it may end before it is stopped.
        self.browser.run("document.getElementById('most').value = '100000'; document.getElementById('heat').value = '0'")
        # The page itself stops it: a busy machine may let the browser wait for longer than the answer takes.
        self.browser.run("""new MutationObserver(() => document.querySelector('.turn.assistant')?.textContent.length > 3
                && document.getElementById('stop').click())
            .observe(document.getElementById('turns'), {childList: true, subtree: true, characterData: true})""")
        self.send("1ee")
        self.browser.await_true("document.querySelectorAll('.account').length === 1")
        self.assertEqual(self.browser.run("document.querySelector('.account').textContent"), "Stopped.")
        self.browser.await_true("document.querySelector('#now dd').firstChild.textContent === '0'")

    def test_a_key_and_texts_without_a_chat_format(self):
        served = self.serve("--api-key-file", "keys")
        self.browser.open(served.url + "/")
        self.assertTrue(self.browser.run("!document.getElementById('key').hidden && document.getElementById('live').hidden"))
        self.assertEqual(self.browser.faults(), [])
        self.browser.type(KEY)  # the field has the focus
        self.browser.press("Enter", 13, "\r")
        self.browser.await_true("!document.getElementById('live').hidden")
        self.browser.run("document.getElementById('most').value = '5'")
        self.send("1ee 3dc")
        self.browser.await_true("document.querySelectorAll('.account').length === 1")
        probe = self.settled(served, KEY)
        self.expect_sound(probe)
        self.expect_figures(probe, served, KEY)

    def test_a_server_that_begins_again(self):
        first = self.serve()
        self.browser.open(first.url + "/")
        self.browser.await_true("!document.getElementById('live').hidden")
        first.complete("1ee 3dc", 30)
        self.settled(first)
        first.close()
        self.browser.await_true("document.getElementById('about').className === 'warning'")
        second = self.serve(port=first.url.rsplit(":", 1)[1])
        second.complete("1ee", 3)
        self.browser.await_true("document.getElementById('about').className === ''")
        self.expect_figures(self.settled(second), second)

    def test_it_can_be_off(self):
        served = self.serve("--no-page")
        for path in ["/", "/page.js", "/page.css"]:
            with self.assertRaises(urllib.error.HTTPError) as caught:
                served.get(path)
            self.assertEqual(caught.exception.code, 404)


def look(folder, model):
    """Screenshots of the page under load."""
    folder = pathlib.Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    served, browser = Served(folder, model, "--max-sequences", 4), Browser()
    prefix = "Rivers carry water from the mountains to the sea. " * 8
    try:
        for name, width, dark in [("wide", 1280, False), ("narrow", 700, False), ("dark", 1280, True)]:
            browser.open(served.url + "/", width=width, dark=dark)
            browser.await_true("!document.getElementById('live').hidden")
            browser.run("document.getElementById('message').value = 'Name three rivers of Europe, and say a word on each.';"
                        "document.getElementById('send').click()")
            clients = [threading.Thread(target=served.complete, args=(prefix * (i % 3) + f"Question {i}:", 20 + 15 * i)) for i in range(7)]
            for each in clients:
                each.start()
                time.sleep(0.3)
            time.sleep(0.2)
            browser.picture(folder / f"{name}.png")
            for each in clients:
                each.join()
            browser.await_true("document.querySelectorAll('.account').length === 1")
            time.sleep(1)
            browser.picture(folder / f"{name}_done.png")
            print(name, browser.faults())
    finally:
        browser.close()
        served.close()


if __name__ == "__main__":
    if not CHROMIUM:
        print("no Chromium (Debian's package chromium)")
        sys.exit(SKIPPED)
    if "--look" in sys.argv:
        look(*sys.argv[sys.argv.index("--look") + 1:])
    else:
        unittest.main(argv=sys.argv[:1] + sys.argv[2:])
