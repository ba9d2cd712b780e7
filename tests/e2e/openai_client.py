#!/usr/bin/env python3
"""openai_client.py BINARY - the official Python client against `rocmforge serve` with the demo model:
whole, streamed and asynchronous calls, errors, and the example of docs/serving.md.  Needs `openai`."""
import asyncio
import re
import subprocess
import sys

import openai

ASK = [{"role": "user", "content": "Tell me a story about a fox."}]
n_checks = 0


def check(truth, what):
    global n_checks
    n_checks += 1
    if not truth:
        sys.exit(f"FAILED: {what}")


def chat(client):
    whole = client.chat.completions.create(
        model="demo", messages=ASK, max_tokens=30, temperature=0, logprobs=True, top_logprobs=3)
    text = whole.choices[0].message.content
    check(len(text) > 20 and whole.choices[0].finish_reason == "length", "an answer")
    check(whole.usage.completion_tokens == 30, "usage")
    tokens = whole.choices[0].logprobs.content
    check(len(tokens) == 30 and all(len(t.top_logprobs) == 3 for t in tokens), "logprobs")
    check(b"".join(bytes(t.bytes) for t in tokens).decode() == text, "bytes of tokens")
    streamed, roles, usage, ends = "", 0, None, []
    for chunk in client.chat.completions.create(
            model="demo", messages=ASK, max_tokens=30, temperature=0, stream=True,
            stream_options={"include_usage": True}):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            roles += choice.delta.role == "assistant"
            streamed += choice.delta.content or ""
            ends += [choice.finish_reason] if choice.finish_reason else []
    check(streamed == text, "a stream is the whole answer")
    check(roles == 1 and ends == ["length"], "one role and one end")
    check(usage.completion_tokens == 30, "usage of a stream")
    several = client.chat.completions.create(
        model="demo", messages=ASK, max_tokens=8, n=3, seed=1, stop=["zzz"],
        extra_body={"min_p": 0.1, "top_k": 20})
    check([c.index for c in several.choices] == [0, 1, 2], "three answers")


def completions(client):
    r = client.completions.create(model="demo", prompt=["Once upon", "The fox"], max_tokens=6,
                                  echo=True, temperature=0)
    check(r.choices[0].text.startswith("Once upon") and r.choices[1].text.startswith("The fox"), "echo")
    r = client.completions.create(model="demo", prompt="Once upon", max_tokens=6, logprobs=2)
    check(len(r.choices[0].logprobs.tokens) == 6, "logprobs of a completion")
    text = "".join(c.choices[0].text for c in client.completions.create(
        model="demo", prompt="Once upon", max_tokens=6, temperature=0, stream=True))
    check(len(text) > 5, "a streamed completion")


def errors(client):
    for wrong, kind in (({"messages": []}, openai.BadRequestError),
                        ({"messages": ASK, "temperature": -1}, openai.BadRequestError),
                        ({"messages": ASK, "model": "other"}, openai.NotFoundError)):
        try:
            client.chat.completions.create(**{"model": "demo", **wrong})
            check(False, f"{wrong} was accepted")
        except kind as e:
            check(e.body["message"] and e.body["type"], "a message")


async def together(url):
    async with openai.AsyncOpenAI(base_url=url, api_key="x") as client:
        async def one(i):
            stream = await client.chat.completions.create(
                model="demo", messages=ASK, max_tokens=20, seed=i % 4, stream=True)
            return "".join([c.choices[0].delta.content or "" async for c in stream])
        answers = await asyncio.gather(*(one(i) for i in range(24)))
        check(all(answers[i] == answers[i % 4] for i in range(24)), "one seed, one answer")
        stream = await client.chat.completions.create(
            model="demo", messages=ASK, max_tokens=900, stream=True)
        async for _ in stream:
            break
        await stream.close()


def example(url):
    with open("docs/serving.md", encoding="utf-8") as f:
        code = re.search(r"```python\n(.*?)```", f.read(), re.S).group(1)
    run = subprocess.run([sys.executable, "-c", code.replace("http://127.0.0.1:8080", url[:-3])],
                         capture_output=True, text=True, timeout=120)
    check(run.returncode == 0 and len(run.stdout) > 20, f"the example: {run.stderr}")


def main():
    server = subprocess.Popen([sys.argv[1], "serve", "--addr", "127.0.0.1:0", "-m", "models/demo.gguf"],
                              stdout=subprocess.PIPE, text=True)
    try:
        url = server.stdout.readline().split(" is served at ")[1].strip() + "/v1"
        client = openai.OpenAI(base_url=url, api_key="x", max_retries=0)
        check([m.id for m in client.models.list()] == ["demo"], "models")
        check(client.models.retrieve("demo").id == "demo", "one model")
        chat(client)
        completions(client)
        errors(client)
        asyncio.run(together(url))
        example(url)
    finally:
        server.terminate()
    check(server.wait(60) == 0, "the server's end")
    print(f"{n_checks} checks")


if __name__ == "__main__":
    main()
