#!/usr/bin/env python3
"""test_page.py BINARY [--screenshot FILE] - the web page of `rocmforge serve` in headless Chromium:
what a person sees and does, with the mouse or the keyboard alone.  Needs chromium, its driver and
selenium (Debian: chromium chromium-driver python3-selenium)."""
import argparse
import hashlib
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

n_checks = 0


def check(truth, what):
    global n_checks
    n_checks += 1
    if not truth:
        sys.exit(f"FAILED: {what}")


class Server:
    """`rocmforge serve` with the demo model on a free port."""

    def __init__(self, binary, *flags):
        self.process = subprocess.Popen(
            [binary, "serve", "--addr", "127.0.0.1:0", "-t", "1", "-m", "models/demo.gguf", *flags],
            stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().split(" is served at ")[1].strip()

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=60) as reply:
            return json.load(reply)

    def end(self):
        self.process.terminate()
        check(self.process.wait(60) == 0, "the server's end")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()


class Page:
    """The page in a browser of its own."""

    def __init__(self, url):
        options = webdriver.ChromeOptions()
        for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     "--window-size=1100,760"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
        self.driver.set_script_timeout(60)
        self.driver.get(url)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.driver.quit()

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def script(self, code, *args):
        return self.driver.execute_script(code, *args)

    def wait(self, truth, what, seconds=60):
        global n_checks
        n_checks += 1
        try:
            return WebDriverWait(self.driver, seconds, 0.05).until(lambda _: truth())
        except Exception as e:
            sys.exit(f"FAILED: waited in vain for {what}: {e}\n{self.find('body').text}")

    def press(self, *keys):
        ActionChains(self.driver).send_keys(*keys).perform()

    def hold(self, modifier, key):
        ActionChains(self.driver).key_down(modifier).send_keys(key).key_up(modifier).perform()

    def set(self, selector, value):
        field = self.find(selector)
        field.clear()
        field.send_keys(value)

    def focus(self):
        return self.script("return document.activeElement.id")

    def is_idle(self):
        return self.find("#send").is_displayed()

    def ask(self, text):
        """Sends with Enter and waits for the end of the answer: its text and its facts."""
        n = len(self.all(".assistant"))
        self.find("#message").send_keys(text, Keys.ENTER)
        self.wait(lambda: len(self.all(".assistant .facts")) > n and self.is_idle(), "an answer")
        last = self.all(".assistant")[-1]
        return (last.find_element(By.CSS_SELECTOR, ".text").text,
                last.find_element(By.CSS_SELECTOR, ".facts").text)

    def problems(self, *expected):
        """What the browser complained about, but for lines with one of the expected texts."""
        return [line["message"] for line in self.driver.get_log("browser")
                if not any(text in line["message"] for text in expected)]

    def check_quiet(self, *expected):
        problems = self.problems(*expected)
        check(not problems, f"complaints of the browser: {problems}")


def test_chat(server, page):
    page.wait(lambda: page.find("#state").text == "running", "the server's state")
    check(page.find("#model").get_attribute("value") == "demo", "the model's name")
    check("Ember" in page.find("#about").text, "facts about the model")
    check(page.focus() == "message", "the message has the focus")
    page.set("#max_tokens", "200")
    page.set("#temperature", "0")
    page.set("#seed", "7")
    first, facts = page.ask("Tell me a story about a fox.")
    check("tokens/s" in facts and "first token after" in facts, f"timings: {facts}")
    check("stop" in facts or "length" in facts, f"the reason of the end: {facts}")
    check(page.find(".assistant").get_attribute("aria-busy") is None, "not busy at the end")
    check(page.find("#message").get_attribute("value") == "", "the message was taken")
    said = [{"role": "user", "content": "Tell me a story about a fox."}]
    ask = {"messages": said, "max_tokens": 200, "temperature": 0, "top_p": 0.95, "seed": 7}
    request = urllib.request.Request(server.url + "/v1/chat/completions", json.dumps(ask).encode())
    with urllib.request.urlopen(request, timeout=60) as reply:
        answer = json.load(reply)["choices"][0]["message"]["content"]
    check(first.split() == answer.split(), "the text is the server's, with these parameters")

    def prompt_tokens(facts):
        return int(facts.split("(prompt: ")[1].split(")")[0])
    page.set("#max_tokens", "5")
    _, later = page.ask("And then?")
    check("5 tokens (" in later and "length" in later, f"max tokens: {later}")
    check(prompt_tokens(later) > prompt_tokens(facts) + 100, "what was said before is sent too")
    page.find("#new").click()
    check(not page.all("article"), "a new chat is empty")
    page.set("#system", "You are a pirate. " * 20)
    _, later = page.ask("Hello")
    check(prompt_tokens(later) > 80, "the system prompt is sent")
    page.set("#system", "")
    page.check_quiet()


def metric(server, name):
    with urllib.request.urlopen(server.url + "/metrics", timeout=60) as reply:
        lines = reply.read().decode().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(f"rocmforge_{name} ")))


def test_stop(slow, page):
    """On a server so slow that its answers would take most of a minute."""
    page.driver.get(slow.url)
    page.set("#max_tokens", "900")
    page.find("#message").send_keys("Tell me a very long story.", Keys.ENTER)
    seen = set()

    def grows():
        seen.update(len(e.text) for e in page.all(".assistant .text"))
        return len(seen) > 3
    page.wait(grows, "text that grows while it is made")
    check(page.find(".assistant").get_attribute("aria-busy") == "true", "busy while it is made")
    check(page.find("#stop").is_displayed() and not page.is_idle(), "it can be stopped")
    page.find("#message").send_keys("Too early", Keys.ENTER)
    check(len(page.all("article")) == 2, "one answer at a time")
    page.find("#message").clear()
    n_stopped = 0
    for stop in (lambda: page.find("#stop").click(), lambda: page.press(Keys.ESCAPE)):
        if n_stopped:
            page.find("#message").send_keys("Tell me a very long story.", Keys.ENTER)
            page.wait(lambda: page.all(".assistant .text")[-1].text, "the first words")
        stop()
        n_stopped += 1
        page.wait(page.is_idle, "the end after stop")
        check(page.focus() == "message", "the focus is where one writes next")
        kept = page.all(".assistant")[-1].text
        check("stopped" in kept, f"it says so: {kept}")
        check(page.all(".assistant")[-1].get_attribute("aria-busy") is None, "not busy any more")
        page.wait(lambda: metric(slow, "requests_cancelled_total") == n_stopped,
                  "the server stopped too")
        check(page.all(".assistant")[-1].text == kept, "nothing comes after stop")
    page.find("#message").send_keys("Once more.", Keys.ENTER)
    page.wait(lambda: page.all(".assistant .text")[-1].text, "the first words")
    page.find("#new").click()
    page.wait(lambda: metric(slow, "requests_cancelled_total") == 3, "a new chat stops the answer")
    check(not page.all("article") and page.is_idle(), "and is empty")
    page.find("#message").send_keys("And again.", Keys.ENTER)
    page.wait(lambda: page.all(".assistant .text")[-1].text, "the first words")
    page.driver.refresh()
    page.wait(lambda: metric(slow, "requests_cancelled_total") == 4, "so does a reload")
    check(metric(slow, "requests_completed_total") == 0, "nothing was finished unseen")
    page.check_quiet()


def test_error(server, page):
    page.driver.get(server.url)
    page.set("#temperature", "1000")
    page.find("#message").send_keys("Hello", Keys.ENTER)
    page.wait(lambda: page.all(".problem"), "an error")
    check("temperature is 1000; it must lie between" in page.find(".problem").text,
          "the server's message")
    check(page.find(".problem").get_attribute("role") == "alert", "it is announced")
    check(page.find("#message").get_attribute("value") == "Hello", "the question comes back")
    check(not page.all("article"), "and is not part of the chat")
    page.set("#temperature", "0.8")
    page.set("#max_tokens", "4")
    page.find("#send").click()
    page.wait(lambda: page.all(".facts"), "the same question again")
    page.find("#more").click()
    page.script("document.getElementById('max_tokens').value = '-3'")
    page.find("#message").send_keys("Hello", Keys.ENTER)
    check(page.find("#max_tokens").is_displayed() and page.focus() == "max_tokens",
          "a wrong setting is shown where it is")
    page.set("#max_tokens", "4")
    page.find("#message").clear()
    page.check_quiet("status of 400")


def test_status(server, page):
    def points():
        return (page.find("#charts polyline").get_attribute("points") or "").split()
    page.wait(points, "a chart")
    page.set("#max_tokens", "300")
    page.ask("Count.")
    page.wait(lambda: min(float(p.split(",")[1]) for p in points()) < 38,
              "the chart shows the work that was done")
    page.wait(lambda: len(points()) > 2, "a chart that goes on")
    rate, answers, kv = (e.text.split("\n")[-1] for e in page.all("figcaption"))
    check(float(rate.replace(",", "")) >= 0, f"tokens per second: {rate}")
    check("running" in answers and "waiting" in answers, f"answers: {answers}")
    check("% of" in kv and "blocks" in kv, f"KV cache: {kv}")


def test_text(page):
    hostile = ("A <img src=x onerror=alert(1)> **bold** and `a <b> c`\nsecond line\n\n"
               "```c\nint x;\n\n**not bold**\n```\n<script>alert(2)</script>\n\n"
               "no\n```fence`\n\n```\nopen")
    code = """const [text, steps] = arguments, grown = element('div', {});
        const whole = (text) => { const e = element('div', {}); show(e, text); return e; };
        const at_once = whole(text), differ = [];
        document.getElementById('log').append(at_once);
        for (let n = 0; steps && n <= text.length; n++) {
            show(grown, text.slice(0, n));
            if (grown.innerHTML !== whole(text.slice(0, n)).innerHTML) differ.push(n);
        }
        return [at_once.innerHTML, differ, at_once.textContent]"""
    at_once, differ, text = page.script(code, hostile, True)
    check(not differ, f"piece by piece it becomes the same: {differ}")
    check("<p>A &lt;img src=x onerror=alert(1)&gt; <strong>bold</strong> and "
          "<code>a &lt;b&gt; c</code>\nsecond line</p>" in at_once, f"a paragraph: {at_once}")
    check("<code>int x;\n\n**not bold**</code>" in at_once, f"code: {at_once}")
    check("<p>&lt;script&gt;alert(2)&lt;/script&gt;</p>" in at_once, f"no markup: {at_once}")
    check("<code>open</code>" in at_once and text.endswith("open"), f"open code: {at_once}")
    for worst in ("`" * 30000, "*" * 30001, "** " * 10000, "`a" * 15000, "```\n" * 7000):
        # far beyond the script's time limit, were it not linear
        _, _, text = page.script(code, worst, False)
        check(text.count("a") == worst.count("a"), f"the text of {worst[:4]}...")
    page.find("#new").click()
    page.script(code, hostile, False)
    page.driver.execute_cdp_cmd("Browser.grantPermissions", {
        "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]})
    read = "navigator.clipboard.readText().then(arguments[0], (e) => arguments[0](String(e)))"
    for plain_http in (False, True):
        if plain_http:
            page.script("Object.defineProperty(navigator, 'clipboard', {value: undefined,"
                        " configurable: true})")
        button = page.all(".code button")[1 if plain_http else 0]
        button.click()
        page.wait(lambda: button.text == "Copied", "copied")
        page.script("delete navigator.clipboard")
        copied = page.driver.execute_async_script(read)
        check(copied == ("open" if plain_http else "int x;\n\n**not bold**"), f"copied: {copied}")
    page.check_quiet()
    refused = page.script("""try { document.body.innerHTML += '<b>no</b>'; } catch (e) {
        return e.name; }""")
    check(refused == "TypeError", f"the policy refuses markup made of text: {refused}")
    page.script("""const script = document.createElement('script');
        try { script.textContent = 'window.ran = true'; } catch {}
        document.head.append(script);
        const style = document.createElement('style');
        style.textContent = 'body { display: none; }';
        document.head.append(style);
        fetch('http://127.0.0.1:1/').catch(() => { window.held = true; });""")
    page.wait(lambda: page.script("return window.held"), "a refused connection elsewhere")
    check(page.script("return window.ran") is None, "the policy refuses other scripts")
    check(page.find("#log").is_displayed(), "and other styles")
    refused = page.problems()
    check(all("Content Security Policy" in line or "Trusted" in line for line in refused) and
          any("connect-src" in line for line in refused), f"it is the policy's doing: {refused}")
    page.driver.refresh()


def test_stream(page):
    """What a server may send, byte by byte, in place of what this one sends."""
    play = """const [text, status] = arguments, bytes = new TextEncoder().encode(text);
        const real = window.fetch;
        window.fetch = (path, options) => {
            if (!path.endsWith('chat/completions')) return real(path, options);
            window.fetch = real;
            const body = new ReadableStream({start(c) {
                for (const b of bytes) c.enqueue(new Uint8Array([b]));
                c.close();
            }});
            return Promise.resolve(new Response(body, {status, headers: {'Retry-After': '7'}}));
        };"""

    def data(*deltas):
        chunks = [json.dumps({"choices": [{"delta": d}]}, ensure_ascii=False) for d in deltas]
        return "".join(f"data: {chunk}\n\n" for chunk in chunks)

    def answer(text, status=200):
        page.find("#new").click()
        page.script(play, text, status)
        page.find("#message").send_keys("Hello", Keys.ENTER)
        page.wait(lambda: page.is_idle() and page.all(".facts, .problem"), "the end")
        shown = [e.text for e in page.all(".assistant .text, .problem")]
        page.find("#message").clear()
        return shown
    words = data({"role": "assistant", "content": ""}, {"content": "Grüße 🦊"}, {"content": "!"})
    end = "data: [DONE]\n\n"
    check(answer(": ping\n\n" + words + end) == ["Grüße 🦊!"], "UTF-8 and comments")
    check(not page.find(".thoughts").is_displayed(), "no thoughts")
    answer(data({"reasoning_content": "Hm, "}, {"reasoning_content": "hello."}) + words + end)
    page.find(".thoughts summary").click()
    check(page.find(".thoughts div").text == "Hm, hello.", "thoughts when asked for")
    check(answer(words) == ["Grüße 🦊!", "the answer broke off before its end"], "a stream cut off")
    failed = 'data: {"error": {"message": "the engine failed", "code": "engine_error"}}\n\n'
    check(answer(words + failed) == ["Grüße 🦊!", "the engine failed"], "an error in the stream")
    check(page.find(".facts").text == "broke off", "and the part that came stays")
    hostile = "<img src=x onerror=alert(1)><script>alert(2)</script>[a](javascript:alert(3))"
    check(answer(data({"reasoning_content": hostile}, {"content": hostile}) + end) == [hostile],
          "markup of a model is shown as text")
    hostile = {"error": {"message": hostile}}
    check(answer(json.dumps(hostile), 400) == [hostile["error"]["message"] + " (again in 7 s)"],
          "as is an error's")
    check(not page.all("#log :is(img, script, a)"), "no element of it")
    check(answer('{"error": {"message": "the queue is full"}}', 429) ==
          ["the queue is full (again in 7 s)"], "when to come again")
    check(answer("<html>Bad gateway</html>", 502) ==
          ["the server answered 502 (again in 7 s)"], "a proxy's error")
    page.find("#new").click()


def test_themes(page):
    def back():
        return page.script("return getComputedStyle(document.body).backgroundColor")

    def system(scheme):
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": scheme}]})
    system("light")
    page.wait(lambda: page.find("#theme").get_attribute("aria-checked") == "false", "light")
    light = back()
    system("dark")
    page.wait(lambda: page.find("#theme").get_attribute("aria-checked") == "true", "dark")
    dark = back()
    check(light != dark, f"the system's theme is followed: {light} {dark}")
    page.find("#theme").click()
    check(back() == light, "the switch wins")
    page.driver.refresh()
    check(back() == light, "and is remembered")
    page.find("#theme").click()
    check(back() == dark, "and back")
    contrast = """const rgb = (c) => c.match(/[\\d.]+/g).slice(0, 3).map((x) => {
            x /= 255; return x <= .04045 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4; });
        const light = ([r, g, b]) => .2126 * r + .7152 * g + .0722 * b;
        const style = getComputedStyle(document.querySelector(arguments[0]));
        const a = light(rgb(style.color)), b = light(rgb(getComputedStyle(
            document.querySelector(arguments[1])).backgroundColor));
        return (Math.max(a, b) + .05) / (Math.min(a, b) + .05)"""
    for _ in range(2):
        for text, ground in (("body", "body"), (".hint", "#composer"), ("#send", "#send"),
                             ("dt", "aside"), ("#state", "aside")):
            ratio = page.script(contrast, text, ground)
            check(ratio >= 4.5, f"the contrast of {text} is {ratio:.1f}")
        page.find("#theme").click()
    system("light")


def test_keyboard(page):
    page.driver.refresh()
    page.wait(lambda: page.find("#state").text == "running", "the server's state")
    check(page.focus() == "message", "the message has the focus after a reload")
    page.press("one")
    page.hold(Keys.SHIFT, Keys.ENTER)
    page.press("two")
    check(page.find("#message").get_attribute("value") == "one\ntwo", "Shift+Enter begins a line")
    check(page.is_idle() and not page.all("article"), "and does not send")
    reached = []
    for _ in range(40):
        page.press(Keys.TAB)
        focus = page.driver.switch_to.active_element
        if focus.tag_name == "body":
            continue
        reached.append(focus.get_attribute("id"))
        check(focus.accessible_name, f"#{reached[-1]} has a name")
        outline = page.script("return getComputedStyle(document.activeElement).outlineStyle")
        check(outline == "solid", f"the focus on #{reached[-1]} is seen")
    wanted = {"model", "new", "more", "theme", "system", "temperature", "top_p", "max_tokens",
              "seed", "log", "message", "send"}
    check(wanted <= set(reached), f"the Tab key does not reach {wanted - set(reached)}")
    order = reached[reached.index("model"):]
    check(order.index("new") < order.index("system") < order.index("message"), f"order: {order}")
    page.script("document.getElementById('theme').focus()")
    before = page.find("#theme").get_attribute("aria-checked")
    page.press(Keys.SPACE)
    check(page.find("#theme").get_attribute("aria-checked") != before, "Space works the switch")
    page.script("document.getElementById('max_tokens').focus()")
    page.hold(Keys.CONTROL, "a")
    page.press("6")
    page.script("document.getElementById('message').focus()")
    page.press(Keys.ENTER)
    page.wait(lambda: page.all(".facts") and page.is_idle(), "an answer without a mouse")
    check(page.focus() == "message", "the focus stays where one writes")


def test_narrow(page):
    page.driver.set_window_size(500, 800)  # the narrowest window
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": 340, "height": 700, "deviceScaleFactor": 1, "mobile": True})
    page.driver.refresh()
    check(not page.find("#side").is_displayed(), "the settings are folded away")
    page.find("#more").click()
    check(page.find("#side").is_displayed(), "and come when asked for")
    for selector in ("#send", "#message", "#system", "#theme"):
        box = page.find(selector).rect
        check(box["x"] >= 0 and box["x"] + box["width"] <= 340, f"{selector} fits: {box}")
    check(page.script("return document.documentElement.scrollWidth") <= 340, "nothing sticks out")
    page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    page.driver.set_window_size(1100, 760)


def test_reload(page):
    page.set("#max_tokens", "4")
    page.ask("Hello")
    page.driver.refresh()
    check(not page.all("article"), "the conversation was in memory only")
    page.set("#max_tokens", "4")
    check(len(page.ask("Hello")[0]) > 0, "it works after a reload")


def test_server_gone(server, page):
    server.end()
    page.find("#message").send_keys("Anybody there?", Keys.ENTER)
    page.wait(lambda: page.all(".problem"), "an error")
    check("cannot be reached" in page.find(".problem").text, page.find(".problem").text)
    page.wait(lambda: "cannot be reached" in page.find("#state").text, "the state says so")


def test_keys(binary):
    keys = {"alice-key": "user alice", "root-key": "admin root"}
    with tempfile.NamedTemporaryFile("w") as f:
        for key, line in keys.items():
            f.write(f"{hashlib.sha256(key.encode()).hexdigest()} {line}\n")
        f.flush()
        with Server(binary, "--api-key-file", f.name) as server, Page(server.url) as page:
            page.wait(lambda: page.find("#ask-key").is_displayed(), "the dialog")
            check(page.focus() == "key", "the focus is in it")
            page.press(Keys.ESCAPE)
            page.wait(lambda: not page.find("#ask-key").is_displayed(), "Escape closes it")
            page.wait(lambda: "API key" in page.find("#state").text, "the state says why")
            page.find("#message").send_keys("Hello", Keys.ENTER)
            page.wait(lambda: page.find("#ask-key").is_displayed(), "who sends is asked again")
            page.press("wrong", Keys.ENTER)
            page.wait(lambda: "not known" in page.find("#key-problem").text, "the server's message")
            page.press("alice-key", Keys.ENTER)
            page.wait(lambda: page.all(".facts"), "the answer to what was sent first")
            page.wait(lambda: "may not read the metrics" in page.find("#state").text, "scopes")
            check(not page.find("#charts").is_displayed(), "no charts without data")
            page.driver.refresh()
            page.set("#max_tokens", "4")
            page.ask("Hello")
            check(not page.find("#ask-key").is_displayed(), "the key is kept in this tab")
            check(page.script("return localStorage.length + document.cookie.length") == 0,
                  "and nowhere else")
            page.find("#forget").click()
            page.find("#message").send_keys("Hello", Keys.ENTER)
            page.wait(lambda: page.find("#ask-key").is_displayed(), "a forgotten key")
            page.press("root-key", Keys.ENTER)
            page.wait(lambda: page.find("#state").text == "running", "an administrator's key")
            check(page.find("#charts").is_displayed(), "charts are back")
            page.check_quiet("status of 401", "status of 403")
            server.end()


def keep_busy(server, over):
    while not over.is_set():
        n = random.randrange(20, 400)
        body = json.dumps({"prompt": "Once", "max_tokens": n, "ignore_eos": True}).encode()
        request = urllib.request.Request(server.url + "/generate", body)
        urllib.request.urlopen(request, timeout=120).read()
        over.wait(random.random() * 3)


def make_screenshot(server, page, path):
    """A chat on a server that others use too."""
    page.driver.set_window_size(1100, 900)
    page.driver.refresh()
    page.wait(lambda: page.find("#state").text == "running", "the server's state")
    page.set("#seed", "1")
    page.set("#temperature", "0")
    page.set("#max_tokens", "120")
    random.seed(1)
    over = threading.Event()
    others = [threading.Thread(target=keep_busy, args=(server, over)) for _ in range(4)]
    for thread in others:
        thread.start()
    for text in ("Why is the sea salty?", "Write a short poem about rain.",
                 "How do bees make honey?"):
        page.ask(text)
        time.sleep(7)
    page.wait(lambda: not page.all("figcaption")[1].text.endswith("0 running, 0 waiting"), "work")
    page.driver.save_screenshot(path)
    over.set()
    for thread in others:
        thread.join()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary")
    parser.add_argument("--screenshot", metavar="FILE", help="write a picture of the page")
    args = parser.parse_args()
    with Server(args.binary) as server, Page(server.url) as page:
        test_chat(server, page)
        with Server(args.binary, "--backend", "ref") as slow:
            test_stop(slow, page)
        test_error(server, page)
        test_status(server, page)
        test_text(page)
        test_stream(page)
        test_themes(page)
        test_keyboard(page)
        test_narrow(page)
        test_reload(page)
        if args.screenshot:
            make_screenshot(server, page, args.screenshot)
        test_server_gone(server, page)
    test_keys(args.binary)
    print(f"{n_checks} checks")


if __name__ == "__main__":
    main()
