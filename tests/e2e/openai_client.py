#!/usr/bin/env python3
"""openai_client.py BINARY - the official Python client against `rocmforge serve` with the demo model:
whole, streamed and asynchronous calls, errors, and the example of docs/serving.md.  Needs `openai`."""
import asyncio
import json
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


def valid(answer):
    """What the package's own types say: it does not check them by itself."""
    type(answer).model_validate(answer.to_dict())
    return answer


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


def embeddings(client):
    texts = ["a fox", "a cat"]
    one = client.embeddings.create(model="demo", input=texts[0], encoding_format="float")
    vector = one.data[0].embedding
    check(len(vector) > 8 and abs(sum(x * x for x in vector) - 1) < 1e-5, "a vector of length 1")
    check(one.usage.prompt_tokens == one.usage.total_tokens > 0, "usage of a vector")
    several = client.embeddings.create(model="demo", input=texts)  # as base64
    check([d.index for d in several.data] == [0, 1], "a vector for each text")
    check(all(abs(a - b) < 1e-7 for a, b in zip(several.data[0].embedding, vector)), "one text, one vector")
    ids = client.embeddings.create(model="demo", input=[[5, 6], [7]])
    check(len(ids.data) == 2 and ids.usage.prompt_tokens == 3, "token ids")
    try:
        client.embeddings.create(model="demo", input="a", dimensions=3)
        check(False, "other dimensions were accepted")
    except openai.BadRequestError as e:
        check(e.body["param"] == "dimensions", "which field was wrong")


def responses(client):
    r = client.responses.create(model="demo", input=ASK[0]["content"], max_output_tokens=30, temperature=0)
    check(r.id.startswith("resp_") and r.object == "response" and len(r.output_text) > 20, "a response")
    check(r.status == "incomplete" and r.incomplete_details.reason == "max_output_tokens", "how it ended")
    check(r.usage.output_tokens == 30 and r.usage.total_tokens == r.usage.input_tokens + 30, "its usage")
    chat = client.chat.completions.create(model="demo", messages=ASK, max_tokens=30, temperature=0)
    check(chat.choices[0].message.content == r.output_text, "the same answer as by chat")
    listed = client.responses.create(
        model="demo", input=[{"role": "user", "content": [{"type": "input_text", "text": ASK[0]["content"]}]}],
        max_output_tokens=30, temperature=0, store=False, metadata={"a": "b"})
    check(listed.output_text == r.output_text and listed.metadata == {"a": "b"}, "input as items")
    told = client.responses.create(model="demo", input="Hello", instructions="You are a cat.",
                                   max_output_tokens=8, temperature=0)
    check(told.instructions == "You are a cat." and told.usage.input_tokens > 10, "instructions")
    with client.responses.stream(model="demo", input=ASK, max_output_tokens=30, temperature=0) as stream:
        events = list(stream)
    check([e.sequence_number for e in events] == list(range(len(events))), "numbers of events")
    kinds = [e.type for e in events]
    check(kinds[:4] == ["response.created", "response.in_progress", "response.output_item.added",
                        "response.content_part.added"], "how a stream begins")
    check(kinds[-4:] == ["response.output_text.done", "response.content_part.done",
                         "response.output_item.done", "response.incomplete"], "how a stream ends")
    check(set(kinds[4:-4]) == {"response.output_text.delta"}, "what is between")
    check("".join(e.delta for e in events[4:-4]) == r.output_text, "a stream is the whole answer")
    check(events[-1].response.output_text == r.output_text, "the whole answer at the end of a stream")
    for name, value in (("store", True), ("previous_response_id", "resp_1"), ("background", True)):
        try:
            client.responses.create(model="demo", input="a", **{name: value})
            check(False, f"{name} was accepted")
        except openai.BadRequestError as e:
            check(e.body["param"] == name and "keeps no answers" in e.body["message"], f"why not {name}")


def response_tools(client):
    tool = {"type": "function", "name": "weather", "strict": True, "parameters": {
        "type": "object", "properties": {"city": {"enum": ["Bern", "Rome"]}}, "required": ["city"],
        "additionalProperties": False}}
    text = ('<think>\nhm\n</think>\n\nI look.\n<tool_call>\n{"name": "weather", "arguments": {"city": "Bern"}}\n'
            '</tool_call>')
    ask = {"model": "demo", "tools": [tool], "temperature": 0, "max_output_tokens": 400}
    exact = {"input": "a", "extra_body": {"guided_choice": [text]}, **ask}
    r = valid(client.responses.create(**exact))
    check([o.type for o in r.output] == ["reasoning", "message", "function_call"], "items")
    check(r.output[0].content[0].text.strip() == "hm" and r.output_text.strip() == "I look.", "words")
    call = r.output[2]
    check(call.name == "weather" and json.loads(call.arguments) == {"city": "Bern"}, "a call")
    check(r.status == "completed" and r.tools[0].name == "weather", "the end of a call")
    final = [valid(e) for e in client.responses.create(**exact, stream=True)][-1]
    check(final.type == "response.completed" and [(o.type, getattr(o, "arguments", None)) for o in
          final.response.output] == [(o.type, getattr(o, "arguments", None)) for o in r.output], "a call in a stream")
    back = [{"role": "user", "content": "a"}, *r.output,
            {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}]
    check(client.responses.create(input=back, **ask).usage.output_tokens > 0, "a result")
    for choice in ("required", {"type": "function", "name": "weather"}):
        forced = client.responses.create(input="a", tool_choice=choice, parallel_tool_calls=False, **ask)
        check([o.type for o in forced.output] == ["function_call"], f"a call by {choice}")
    formed = client.responses.create(model="demo", input="a", max_output_tokens=200, text={"format": {
        "type": "json_schema", "name": "n", "strict": True, "schema": {
            "type": "object", "properties": {"n": {"enum": [7]}}, "required": ["n"],
            "additionalProperties": False}}})
    check(json.loads(formed.output_text) == {"n": 7}, "a form")


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
        said = await asyncio.gather(*(client.responses.create(
            model="demo", input=ASK, max_output_tokens=20, extra_body={"seed": i % 4}) for i in range(8)))
        check(all(said[i].output_text == answers[i % 4] for i in range(8)), "responses at once")
        vectors = await asyncio.gather(*(
            client.embeddings.create(model="demo", input=f"text {i % 3}") for i in range(12)))
        check(all(vectors[i].data == vectors[i % 3].data for i in range(12)), "vectors at once")
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
    server = subprocess.Popen([sys.argv[1], "serve", "--addr", "127.0.0.1:0", "-m", "models/demo.gguf",
                               "--tool-format", "hermes"], stdout=subprocess.PIPE, text=True)
    try:
        url = server.stdout.readline().split(" is served at ")[1].strip() + "/v1"
        client = openai.OpenAI(base_url=url, api_key="x", max_retries=0)
        check([m.id for m in client.models.list()] == ["demo"], "models")
        check(client.models.retrieve("demo").id == "demo", "one model")
        chat(client)
        completions(client)
        embeddings(client)
        responses(client)
        response_tools(client)
        errors(client)
        asyncio.run(together(url))
        example(url)
    finally:
        server.terminate()
    check(server.wait(60) == 0, "the server's end")
    print(f"{n_checks} checks")


if __name__ == "__main__":
    main()
