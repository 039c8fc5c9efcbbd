"""A real browser without a screen: Debian's chromium, driven by chromedriver
over plain HTTP (the W3C's WebDriver). Tests skip themselves without them.

    page = browser.Browser(case, "http://127.0.0.1:8081/")
    page.run("return document.title")
    page.find("#filter button").click()
"""
import http.client
import json
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import harness

DRIVER = shutil.which("chromedriver")
BINARY = shutil.which("chromium")
# What would look for hosts of its maker's own, or need a graphics card.
FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--disable-dev-shm-usage"]
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the standard's name of one

needed = unittest.skipUnless(DRIVER and BINARY, "no chromium, see Debian's chromium-driver")


class Element:
    def __init__(self, browser, reference):
        self.browser, self.id = browser, reference[ELEMENT]

    def click(self):
        self.browser.call("POST", f"element/{self.id}/click", {})

    def type(self, text):
        self.browser.call("POST", f"element/{self.id}/value", {"text": text})


class Browser:
    """One page. dark: what its reader likes."""

    def __init__(self, case, url, dark=False, size=(1280, 900)):
        folder = tempfile.mkdtemp(prefix="browser-", dir=case.folder)
        log = pathlib.Path(folder) / "driver.log"
        self.driver = subprocess.Popen([DRIVER, "--port=0", f"--log-path={log}"],
                                       stdout=subprocess.PIPE, text=True)
        case.addCleanup(self.end)
        line = ""
        while "successfully on port " not in line:  # "... was started successfully on port N."
            line = self.driver.stdout.readline()
            if line == "":
                raise RuntimeError("chromedriver has ended")
        port = line.partition("on port ")[2].strip().rstrip(".")
        self.connection = http.client.HTTPConnection("127.0.0.1", int(port),
                                                     timeout=harness.IO_TIMEOUT_S)
        options = {"binary": BINARY, "args": [
            *FLAGS, f"--user-data-dir={folder}/profile", f"--window-size={size[0]},{size[1]}",
            *(["--force-dark-mode", "--blink-settings=preferredColorScheme=0"] if dark else [])]}
        self.session = None
        made = self.call("POST", "", {"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}})
        self.session = made["sessionId"]
        self.call("POST", "url", {"url": url})

    def call(self, method, path, body=None):
        base = "/session" + (f"/{self.session}" if self.session else "")
        self.connection.request(method, f"{base}/{path}".rstrip("/"),
                                json.dumps(body) if body is not None else None)
        value = json.load(self.connection.getresponse())["value"]
        if isinstance(value, dict) and "error" in value:
            raise RuntimeError(f"{method} {path}: {value['message']}")
        return value

    def run(self, script, *arguments):
        """What a script returns; find elements with `return document...`."""
        return self.call("POST", "execute/sync", {"script": script, "args": list(arguments)})

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0])?.textContent", selector)

    def find(self, selector):
        return Element(self, self.call("POST", "element",
                                       {"using": "css selector", "value": selector}))

    def focus(self, selector):
        self.run("document.querySelector(arguments[0]).focus()", selector)

    def press(self, *keys):
        """Keys, one after the other, where the focus is."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self.call("POST", "actions", {"actions": [{"type": "key", "id": "k", "actions": actions}]})

    def wait(self, script, what, *arguments):
        return harness.wait_until(lambda: self.run(script, *arguments), what)

    def faults(self):
        """Errors of scripts and refused loads since the last call."""
        return [entry["message"] for entry in self.call("POST", "se/log", {"type": "browser"})
                if entry["level"] == "SEVERE"]

    def end(self):
        """Tells the browser and its driver to end; kills what does not."""
        try:
            if self.session:
                self.call("DELETE", "")
        except (OSError, RuntimeError, http.client.HTTPException):
            pass  # the driver's end takes the browser along
        self.connection.close()
        self.driver.terminate()
        try:
            self.driver.wait(30)
        except subprocess.TimeoutExpired:
            self.driver.kill()
            self.driver.wait(30)
        self.driver.stdout.close()
