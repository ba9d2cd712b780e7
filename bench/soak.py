#!/usr/bin/env python3
"""Soaks `rocmforge serve` in clients that misbehave, and looks for what they leave behind.

    python3 bench/soak.py build/rocmforge --seconds 1800
    python3 bench/soak.py build/rocmforge -m MODEL.gguf --seconds 60 --clients 8 --idle 2000

Starts a server of its own with little memory and a short queue.  Each client does one thing after the
other, drawn at random: it asks and reads the answer, leaves in the middle, leaves before the start,
stalls while it sends or reads, cancels, sends garbage or damaged requests, goes beyond a limit.  Beside
them idle connections stay open.  The soak has failed, and the exit code is 1, if

  - a whole answer has another text than the same question had before, or is cut off,
  - anything is answered with a 5xx but 503, or 429 and 503 come without Retry-After,
  - at the end, with all clients gone, a request still runs or waits, an accepted one was neither
    completed nor cancelled, a KV block is not free, a connection or file is still open, an idle
    connection was closed, or memory has grown in the last quarter of a minute or more,
  - the server dies, complains on stderr, or does not end with 0 after SIGTERM.

Only Python's own library is needed.  Linux: memory and files of the server are read from /proc.
"""
import argparse
import asyncio
import collections
import json
import os
import random
import re
import signal
import socket
import statistics
import struct
import subprocess
import sys
import time

SERVER_FLAGS = ["--ctx", "512", "--kv-tokens", "1024", "--parallel", "8", "--queue", "16", "--max-body", "65536",
                "--request-seconds", "2", "--ping-seconds", "1", "--drain-seconds", "20",
                "--log", "error"]
PROMPTS = ["Once upon a time", "The fox", "A long time ago there was a king", "Two and two", "In the deep sea"]


class Wrong(Exception):
    """The server did what it must not do."""


# ---- HTTP, as little of it as the clients need ----

class Connection:
    async def open(self, port, window=None):
        sock = socket.socket()
        if window:  # small, so that the server feels that nobody reads
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        self.reader, self.writer = await asyncio.open_connection(sock=sock, limit=window or 65536)
        return self

    async def send(self, data):
        self.writer.write(data)
        await self.writer.drain()

    def leave(self, rng):
        """FIN, RST, or FIN of the sending side only; whoever closes that one does so when it is collected."""
        how = rng.randrange(3)
        if how == 0:
            self.writer.close()
        elif how == 1:
            linger = struct.pack("ii", 1, 0)
            self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.writer.transport.abort()
        else:
            self.writer.write_eof()

    def close(self):
        self.writer.transport.abort()

    async def head(self):
        """(status, {name: value}) of the next answer."""
        status = (await self.reader.readline()).split()
        if len(status) < 2 or status[0] != b"HTTP/1.1":
            raise EOFError
        headers = {}
        while (line := await self.reader.readline()).strip():
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.strip().lower()] = value.strip()
        return int(status[1]), headers

    async def chunks(self, headers):
        """The body as it comes; raises EOFError (IncompleteReadError is one) if it is cut off."""
        if "content-length" in headers:
            yield await self.reader.readexactly(int(headers["content-length"]))
            return
        while True:
            line = await self.reader.readline()
            if not line.endswith(b"\r\n"):
                raise EOFError
            size = int(line, 16)
            data = await self.reader.readexactly(size + 2)
            if size == 0:
                return
            yield data[:-2]

    async def answer(self):
        status, headers = await self.head()
        body = b"".join([c async for c in self.chunks(headers)])
        check_status(status, headers, body)
        return status, body


def check_status(status, headers, body=b""):
    if status >= 500 and status != 503:
        raise Wrong(f"status {status}: {body[:200]}")
    if status in (429, 503) and not headers.get("retry-after", "").isdigit():
        raise Wrong(f"status {status} without Retry-After")


def post(path, body):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
        path.encode(), len(data), data)


def get(path):
    return b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path.encode()


async def fetch(port, data):
    """(status, body) of one request over a connection of its own."""
    c = await Connection().open(port)
    try:
        await c.send(data)
        return await c.answer()
    finally:
        c.close()


def events(body):
    """Data of the server-sent events in body."""
    return [e[6:] for e in body.decode().split("\n\n") if e.startswith("data: ")]


# ---- what clients do: each takes (soak, rng), returns a word for the tally, raises Wrong ----

def question(rng, n_tokens=None):
    """A greedy completion: the same question has the same answer, whatever else runs."""
    return {"prompt": rng.choice(PROMPTS), "max_tokens": n_tokens or rng.choice([1, 7, 20, 60]), "temperature": 0,
            "ignore_eos": True}


def long_question(rng):
    return {"prompt": [rng.randrange(300, 1800) for _ in range(rng.randrange(20, 250))], "temperature": 1,
            "max_tokens": rng.randrange(1, 200), "ignore_eos": True}


def refused(status, body):
    if status not in (429, 503):
        raise Wrong(f"a good request was answered {status}: {body[:200]}")
    return f"refused {status}"


async def asks(soak, rng):
    q = question(rng)
    status, body = await fetch(soak.port, post("/v1/completions", q))
    if status != 200:
        return refused(status, body)
    soak.compare(q, json.loads(body)["choices"][0]["text"])
    return "answered"


async def asks_for_a_stream(soak, rng):
    q = question(rng)
    status, body = await fetch(soak.port, post("/v1/completions", {**q, "stream": True}))
    if status != 200:
        return refused(status, body)
    data = events(body)
    if data[-1] != "[DONE]":
        raise Wrong(f"a stream without [DONE]: {body[-200:]}")
    soak.compare(q, "".join(json.loads(e)["choices"][0]["text"] for e in data[:-1]))
    return "answered"


async def asks_much(soak, rng):
    """Long prompts, several answers: what makes others wait and give way."""
    q = {**long_question(rng), "n": rng.choice([1, 1, 2, 4])}
    status, body = await fetch(soak.port, post("/v1/completions", q))
    if status != 200:
        return refused(status, body)
    n = json.loads(body)["usage"]["completion_tokens"]
    if n != q["n"] * q["max_tokens"]:
        raise Wrong(f"{n} tokens instead of {q['n']} * {q['max_tokens']}")
    return "answered"


async def wants_json(soak, rng):
    q = {"messages": [{"role": "user", "content": rng.choice(PROMPTS)}], "max_tokens": 60, "seed": rng.randrange(100),
         "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {
             "type": "object", "properties": {"a": {"type": "integer"}, "b": {"enum": ["x", "y"]}},
             "required": ["a", "b"], "additionalProperties": False}}}}
    status, body = await fetch(soak.port, post("/v1/chat/completions", q))
    if status != 200:
        return refused(status, body)
    choice = json.loads(body)["choices"][0]
    if choice["finish_reason"] == "stop" and set(json.loads(choice["message"]["content"])) != {"a", "b"}:
        raise Wrong(f"not what the schema says: {choice}")
    return "answered"


async def leaves_in_the_middle(soak, rng):
    c = await Connection().open(soak.port)
    await c.send(post("/v1/completions", {**long_question(rng), "stream": True}))
    status, headers = await c.head()
    check_status(status, headers)
    if status != 200:
        c.close()
        return refused(status, b"")
    n = rng.randrange(20)
    async for _ in c.chunks(headers):
        n -= 1
        if n < 0:
            break
    c.leave(rng)
    return "left"


async def leaves_at_once(soak, rng):
    """While it waits, or while its prompt is worked on."""
    c = await Connection().open(soak.port)
    await c.send(post("/v1/completions", {**long_question(rng), "stream": rng.random() < 0.5}))
    await asyncio.sleep(rng.choice([0, 0, 0.001, 0.02]))
    c.leave(rng)
    return "left"


async def stalls_sending(soak, rng):
    c = await Connection().open(soak.port)
    whole = post("/v1/completions", question(rng))
    await c.send(whole[:rng.randrange(1, len(whole))])
    if rng.random() < 0.3:
        c.leave(rng)
        return "left"
    try:
        status, _ = await c.answer()
    except (EOFError, ConnectionError):
        return "hung up on"
    finally:
        c.close()
    if status != 408 and status != 400:
        raise Wrong(f"half a request was answered {status}")
    return f"refused {status}"


async def stalls_reading(soak, rng):
    """The answer is whole all the same."""
    c = await Connection().open(soak.port, window=4096)
    q = {"prompt": rng.choice(PROMPTS), "max_tokens": 200, "temperature": 0, "ignore_eos": True, "logprobs": 5}
    await c.send(post("/v1/completions", {**q, "stream": True}))
    await asyncio.sleep(rng.random() * 3)
    try:
        status, body = await c.answer()
    finally:
        c.close()
    if status != 200:
        return refused(status, body)
    data = events(body)
    if data[-1] != "[DONE]":
        raise Wrong(f"a stream without [DONE]: {body[-200:]}")
    soak.compare(q, "".join(json.loads(e)["choices"][0]["text"] for e in data[:-1]))
    return "answered"


async def cancels(soak, rng):
    """By the native route, from another connection."""
    c = await Connection().open(soak.port)
    try:
        await c.send(post("/generate/stream", {**long_question(rng), "max_tokens": 100}))
        status, headers = await c.head()
        check_status(status, headers)
        if status != 200:
            return refused(status, b"")
        async for chunk in c.chunks(headers):
            found = re.search(rb'"id":"([^"]+)"', chunk)
            if found:
                break
        else:
            raise Wrong("a native stream without an id")
        status, body = await fetch(soak.port, post("/cancel/" + found[1].decode(), b""))
        if status != 200 and status != 404 and status != 409:
            raise Wrong(f"/cancel answered {status}: {body[:200]}")
        async for _ in c.chunks(headers):
            pass
    finally:
        c.close()
    return "cancelled"


def damage(rng, data):
    data = bytearray(data)
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(data))
        if rng.random() < 0.5:
            data[at] = rng.randrange(256)
        else:
            del data[at:at + rng.randrange(1, 4)]
        if not data:
            data = bytearray(b"\r")
    return bytes(data)


async def sends_garbage(soak, rng):
    c = await Connection().open(soak.port)
    data = rng.choice([rng.randbytes(rng.randrange(1, 3000)), damage(rng, post("/v1/completions", question(rng))),
                       b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: b\r\n\r\n", b"\r\n" * 50 + b"GET",
                       b"POST /generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
                       b"POST /generate HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\n"])
    await c.send(data)
    try:
        status, _ = await c.answer()
    except (EOFError, ConnectionError):
        return "hung up on"
    finally:
        c.close()
    return f"got {status}"


async def sends_damaged_json(soak, rng):
    body = json.dumps({**question(rng, 5), "stop": ["x"], "logit_bias": {"5": 1}, "top_p": 0.5}).encode()
    status, _ = await fetch(soak.port, post(rng.choice(["/v1/completions", "/generate", "/tokenize",
                                                        "/v1/chat/completions", "/v1/embeddings"]), damage(rng, body)))
    return f"got {status}"


LIMITS = [  # (request, status): the limits that docs/serving.md names
    (lambda: post("/v1/completions", b" " * 70000), 413),
    (lambda: b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 20000 + b"\r\n\r\n", 431),
    (lambda: get("/" + "x" * 3000), 414),
    (lambda: post("/v1/completions", {"prompt": [500] * 600}), 400),
    (lambda: post("/v1/completions", {"prompt": "a", "n": 1000}), 400),
    (lambda: post("/v1/completions", {"prompt": "a", "stop": ["x"] * 65}), 400),
    (lambda: post("/v1/completions", {"prompt": "a", "stop": ["x" * 5000]}), 400),
    (lambda: post("/v1/completions", {"prompt": "a", "logit_bias": {str(i): 1 for i in range(1100)}}), 400),
    (lambda: post("/v1/completions", {"prompt": "a", "logprobs": 21}), 400),
    (lambda: post("/v1/completions", b"[" * 1000), 400),
    (lambda: post("/v1/completions", {"prompt": "a", "guided_regex": "(" * 3000}), 400),
    (lambda: get("/nowhere"), 404),
]


async def goes_too_far(soak, rng):
    make, expected = rng.choice(LIMITS)
    c = await Connection().open(soak.port)
    try:
        await c.send(make())
        status, body = await c.answer()
    except (EOFError, ConnectionError):
        return "hung up on"  # a server may close on who sends more than it will read
    finally:
        c.close()
    if status not in (expected, 429, 503):  # a full queue may come first
        raise Wrong(f"a limit was answered {status} instead of {expected}: {body[:200]}")
    return f"refused {status}"


async def looks(soak, rng):
    path = rng.choice(["/metrics", "/slots", "/health", "/ready", "/props", "/v1/models", "/openapi.json", "/"])
    status, body = await fetch(soak.port, get(path))
    if status != 200:
        raise Wrong(f"{path} answered {status}: {body[:200]}")
    return "answered"


async def wants_vectors(soak, rng):
    q = {"input": [rng.choice(PROMPTS) for _ in range(rng.randrange(1, 5))]}
    status, body = await fetch(soak.port, post("/v1/embeddings", q))
    if status != 200:
        return refused(status, body)
    if len(json.loads(body)["data"]) != len(q["input"]):
        raise Wrong("another number of vectors than texts")
    return "answered"


HABITS = {asks: 4, asks_for_a_stream: 4, asks_much: 3, wants_json: 1, wants_vectors: 1, leaves_in_the_middle: 4,
          leaves_at_once: 4, stalls_sending: 1, stalls_reading: 1, cancels: 2, sends_garbage: 2, sends_damaged_json: 2,
          goes_too_far: 2, looks: 1}


# ---- the soak ----

class Soak:
    def __init__(self, args):
        self.args = args
        self.tally = collections.Counter()
        self.wrong = collections.Counter()
        self.known = {}  # question: its answer
        self.memory = []  # (seconds, bytes)
        self.start = time.monotonic()

    def compare(self, q, text):
        if self.known.setdefault(json.dumps(q), text) != text:
            raise Wrong(f"two answers to {q}: {self.known[json.dumps(q)]!r} and {text!r}")

    def start_server(self):
        command = [self.args.program, "serve", "--addr", "127.0.0.1:0", *SERVER_FLAGS,
                   "--idle-seconds", str(max(20, int(self.args.patience / 6)))]
        if self.args.model:
            command += ["-m", self.args.model]
        self.server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        found = re.search(r"http://127.0.0.1:(\d+)", self.server.stdout.readline())
        if not found:
            sys.exit(f"the server does not start: {self.server.stderr.read()}")
        self.port = int(found[1])

    def rss(self):
        with open(f"/proc/{self.server.pid}/status") as f:
            return int(re.search(r"VmRSS:\s+(\d+) kB", f.read())[1]) * 1024

    def n_files(self):
        return len(os.listdir(f"/proc/{self.server.pid}/fd"))

    def alive(self):
        return self.server.poll() is None

    async def metrics(self):
        _, body = await fetch(self.port, get("/metrics"))
        return {m[1].decode(): float(m[2]) for m in re.finditer(rb"^rocmforge_(\w+) ([\d.]+)$", body, re.M)}

    async def client(self, number):
        rng = random.Random(self.args.seed * 100003 + number)
        while time.monotonic() < self.end and self.alive():
            habit = rng.choices(list(HABITS), HABITS.values())[0]
            try:
                outcome = await asyncio.wait_for(habit(self, rng), self.args.patience)
                self.tally[habit.__name__, outcome] += 1
            except Exception as e:  # whatever it is, it is a finding
                self.wrong[f"{habit.__name__}: {type(e).__name__}: {e}"] += 1
                await asyncio.sleep(0.1)

    async def watch_memory(self):
        while time.monotonic() < self.end and self.alive():
            self.memory.append((time.monotonic() - self.start, self.rss()))
            await asyncio.sleep(0.5)

    async def use_idle(self):
        """A request over each idle connection now and then: the server would close them otherwise."""
        while self.working:
            await self.n_idle_kept()
            await asyncio.sleep(4)

    async def open_idle(self):
        before = self.rss()
        self.idle = [await Connection().open(self.port) for _ in range(self.args.idle)]
        for c in self.idle:
            await c.send(get("/health"))
            await c.answer()
        self.idle_bytes = (self.rss() - before) / self.args.idle if self.args.idle else 0

    async def n_idle_kept(self):
        n = 0
        for c in self.idle:
            try:
                await c.send(get("/health"))
                n += (await c.answer())[0] == 200
            except (EOFError, ConnectionError):
                pass
        return n

    async def at_rest(self):
        """Idle connections that answer, and metrics, once only these connections and this one are open."""
        end = time.monotonic() + 60
        while True:
            kept, m = await self.n_idle_kept(), await self.metrics()
            quiet = m["active_requests"] == m["queue_length"] == 0 and m["http_connections"] <= len(self.idle) + 1
            if quiet or time.monotonic() > end:
                return kept, m
            await asyncio.sleep(0.2)

    def growth(self):
        """Bytes by which memory's median over the last quarter exceeds that of the one before."""
        t = self.args.seconds
        quarter = [statistics.median([b for s, b in self.memory if lo * t <= s < hi * t] or [0])
                   for lo, hi in ((0.5, 0.75), (0.75, 1))]
        return quarter[1] - quarter[0]

    async def run(self):
        self.first = await self.metrics()
        self.n_files_before = self.n_files()
        await self.open_idle()
        self.start = time.monotonic()
        self.end = self.start + self.args.seconds
        self.working = True
        watchers = asyncio.gather(self.watch_memory(), self.use_idle())
        await asyncio.gather(*(self.client(i) for i in range(self.args.clients)))
        self.working = False
        await watchers
        if not self.alive():
            self.wrong[f"the server died with {self.server.returncode}"] += 1
            return
        self.kept, self.last = await self.at_rest()
        status, body = await fetch(self.port, get("/slots"))
        self.check_rest(json.loads(body))
        for c in self.idle:
            c.close()
        self.idle = []
        await self.at_rest()
        await asyncio.sleep(0.5)
        if self.n_files() > self.n_files_before:
            self.wrong[f"{self.n_files()} files are open, {self.n_files_before} were at the start"] += 1

    def expect(self, what, got, wanted):
        if got != wanted:
            self.wrong[f"{what}: {got} instead of {wanted}"] += 1

    def check_rest(self, slots):
        m = self.last
        self.expect("running", slots["running"], 0)
        self.expect("waiting", slots["waiting"], 0)
        self.expect("requests in /slots", slots["requests"], [])
        self.expect("free KV blocks", slots["kv_blocks_free"], slots["kv_blocks"])
        self.expect("completed + cancelled", m["requests_completed_total"] + m["requests_cancelled_total"],
                    m["requests_started_total"])
        self.expect("failed", m["requests_failed_total"], 0)
        self.expect("connections", m["http_connections"], len(self.idle) + 1)
        self.expect("idle connections that still answer", self.kept, len(self.idle))
        if self.args.seconds >= 60 and self.growth() > max(1 << 20, 0.02 * self.memory[-1][1]):
            self.wrong[f"memory grew by {self.growth() / 1e6:.1f} MB in the last quarter"] += 1

    def stop_server(self):
        if self.alive():
            self.server.send_signal(signal.SIGTERM)
        try:
            _, errors = self.server.communicate(timeout=40)
        except subprocess.TimeoutExpired:
            self.server.kill()
            _, errors = self.server.communicate()
        self.expect("exit code", self.server.returncode, 0)
        self.expect("stderr", errors[:2000], "")

    def report(self):
        for (habit, outcome), n in sorted(self.tally.items()):
            print(f"{habit:24} {outcome:16} {n:8}")
        if hasattr(self, "last"):
            m = self.last
            print(f"{m['requests_started_total']:.0f} requests accepted, {m['requests_completed_total']:.0f} completed, "
                  f"{m['requests_cancelled_total']:.0f} cancelled, {m['requests_rejected_total']:.0f} rejected; "
                  f"{m['preemptions_total']:.0f} preemptions; "
                  f"{m['kv_blocks_free']:.0f} of {m['kv_blocks']:.0f} KV blocks free")
            print(f"{self.kept} of {self.args.idle} idle connections kept, {self.idle_bytes / 1024:.1f} KiB each")
        if self.memory:
            marks = [self.memory[int((len(self.memory) - 1) * x / 4)][1] / 2**20 for x in range(5)]
            print("memory, MiB, from the start to the end:", " ".join(f"{x:.1f}" for x in marks))
        for what, n in self.wrong.most_common(20):
            print(f"WRONG {n} times: {what}")
        print("FAILED" if self.wrong else "nothing wrong")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("program")
    p.add_argument("-m", "--model", help="GGUF file (default: the program's demo model)")
    p.add_argument("--seconds", type=float, default=60)
    p.add_argument("--patience", type=float, default=120, metavar="SECONDS",
                   help="nothing that is answered at all takes longer (a program with sanitizers: 600)")
    p.add_argument("--clients", type=int, default=32)
    p.add_argument("--idle", type=int, default=100, help="idle connections beside them")
    p.add_argument("--seed", type=int, default=0, help="of what clients do; when they do it the machine decides")
    soak = Soak(p.parse_args())
    soak.start_server()
    try:
        asyncio.run(soak.run())
    finally:
        soak.stop_server()
    soak.report()
    sys.exit(1 if soak.wrong else 0)


if __name__ == "__main__":
    main()
