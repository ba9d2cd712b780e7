#!/usr/bin/env python3
"""anthropic_client.py BINARY - the official Python client of Anthropic's API against `rocmforge serve`
with the demo model: whole, streamed and asynchronous calls, tools, counts, errors.  Needs `anthropic`."""
import asyncio
import json
import subprocess
import sys

import anthropic

ASK = [{"role": "user", "content": "Tell me a story about a fox."}]
TOOL = {"name": "weather", "description": "the weather of a city",
        "input_schema": {"type": "object", "properties": {"city": {"enum": ["Bern", "Rome"]}},
                         "required": ["city"], "additionalProperties": False}}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Bern"}}\n</tool_call>'
n_checks = 0


def check(truth, what):
    global n_checks
    n_checks += 1
    if not truth:
        sys.exit(f"FAILED: {what}")


def usual(extra=None, **more):
    """Arguments of a request; extra: fields that the package does not know, samplers among them."""
    return {"model": "demo", "max_tokens": 30, "messages": ASK, "extra_body": {"temperature": 0, **(extra or {})},
            **more}


def exactly(text, **more):
    """A request whose answer can be nothing but the text."""
    return usual({"guided_choice": [text]}, **{"max_tokens": 400, **more})


def valid(answer):
    """What the package's own types say: it does not check them by itself."""
    type(answer).model_validate(answer.to_dict())
    return answer


def whole(client):
    m = valid(client.messages.create(**usual()))
    check(m.type == "message" and m.role == "assistant" and m.model == "demo", "a message")
    check(m.id.startswith("msg_") and m._request_id and m.id.endswith(m._request_id), "its id")
    check([b.type for b in m.content] == ["text"] and len(m.content[0].text) > 20, "its text")
    check(m.stop_reason == "max_tokens" and m.usage.output_tokens == 30, "its end")
    total = m.usage.input_tokens + m.usage.cache_read_input_tokens
    check(client.messages.count_tokens(model="demo", messages=ASK).input_tokens == total, "a count")
    blocks = [{"role": "user", "content": [{"type": "text", "text": ASK[0]["content"],
                                            "cache_control": {"type": "ephemeral"}}]}]
    check(client.messages.create(**usual(messages=blocks)).content == m.content, "text as a block")
    told = client.messages.create(**usual(system="You are a cat."))
    listed = client.messages.create(**usual(system=[{"type": "text", "text": "You are a cat."}]))
    check(told.content == listed.content and told.usage.input_tokens
          + told.usage.cache_read_input_tokens > total, "a system prompt")
    words = m.content[0].text.split()
    stopped = client.messages.create(**usual(stop_sequences=["never said", words[3]]))
    check(stopped.stop_reason == "stop_sequence" and stopped.stop_sequence == words[3], "a stop sequence")
    check(m.content[0].text.startswith(stopped.content[0].text), "text up to the stop sequence")
    end = client.messages.create(**exactly("Good night."))
    check(end.stop_reason == "end_turn" and end.content[0].text == "Good night.", "an end of turn")
    talk = ASK + [{"role": "assistant", "content": m.content}, {"role": "user", "content": "Go on."}]
    longer = client.messages.create(**usual(messages=talk)).usage
    check(longer.output_tokens > 0 and longer.input_tokens + longer.cache_read_input_tokens > total + 30,
          "a conversation")


def streams(client):
    text = client.messages.create(**usual()).content[0].text
    with client.messages.stream(**usual()) as stream:
        check("".join(stream.text_stream) == text, "a stream is the whole answer")
        m = stream.get_final_message()
    check(m.stop_reason == "max_tokens" and m.usage.output_tokens == 30, "the end of a stream")
    kinds = [valid(e).type for e in client.messages.create(**usual(stream=True))]
    check(kinds[:2] == ["message_start", "content_block_start"], "how a stream begins")
    check(kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"], "how a stream ends")
    check(set(kinds[2:-3]) == {"content_block_delta"}, "what is between")


def tools(client):
    text = "<think>\nhm\n</think>\n\nI look.\n" + CALL
    m = valid(client.messages.create(**exactly(text, tools=[TOOL])))
    check([b.type for b in m.content] == ["thinking", "text", "tool_use"], "blocks")
    check(m.content[0].thinking.strip() == "hm" and m.content[1].text.strip() == "I look.", "words")
    call = m.content[2]
    check(call.name == "weather" and call.input == {"city": "Bern"} and call.id, "a call")
    check(m.stop_reason == "tool_use", "why it ended")
    with client.messages.stream(**exactly(text, tools=[TOOL])) as stream:
        streamed = stream.get_final_message()
    check([(b.type, getattr(b, "input", None)) for b in streamed.content] ==
          [(b.type, getattr(b, "input", None)) for b in m.content], "a call in a stream")
    back = ASK + [{"role": "assistant", "content": m.content},
                  {"role": "user", "content": [
                      {"type": "tool_result", "tool_use_id": call.id, "content": [
                          {"type": "text", "text": "sunny"}]},
                      {"type": "text", "text": "So?"}]}]
    check(client.messages.create(**usual(messages=back, tools=[TOOL])).usage.output_tokens > 0, "a result")
    for choice in ({"type": "any", "disable_parallel_tool_use": True}, {"type": "tool", "name": "weather"}):
        forced = client.messages.create(**usual(max_tokens=300, tools=[TOOL], tool_choice=choice))
        check([b.type for b in forced.content] == ["tool_use"] and forced.stop_reason == "tool_use",
              f"a call by {choice}")
        check(forced.content[0].input["city"] in ("Bern", "Rome"), f"the input of {choice}")
    plain = client.messages.create(**exactly(CALL, tools=[TOOL], tool_choice={"type": "none"}))
    check([b.type for b in plain.content] == ["text"], "no call where none may be")
    schema = {"type": "object", "properties": {"n": {"enum": [7]}}, "required": ["n"],
              "additionalProperties": False}
    formed = client.messages.create(**usual(max_tokens=200, output_config={
        "format": {"type": "json_schema", "schema": schema}}))
    check(json.loads(formed.content[0].text) == {"n": 7}, "a form")


def errors(client, url):
    image = [{"role": "user", "content": [{"type": "image", "source": {
        "type": "base64", "media_type": "image/png", "data": "AAAA"}}]}]
    for wrong, kind, name in (
            ({"messages": []}, anthropic.BadRequestError, "invalid_request_error"),
            ({"messages": image}, anthropic.BadRequestError, "invalid_request_error"),
            ({"messages": ASK + [{"role": "assistant", "content": "Once"}]}, anthropic.BadRequestError,
             "invalid_request_error"),
            ({"extra": {"temperature": -1}}, anthropic.BadRequestError, "invalid_request_error"),
            ({"max_tokens": 0}, anthropic.BadRequestError, "invalid_request_error"),
            ({"model": "other"}, anthropic.NotFoundError, "not_found_error")):
        try:
            client.messages.create(**usual(**wrong))
            check(False, f"{wrong} was accepted")
        except kind as e:
            check(e.body["type"] == "error" and e.body["error"]["type"] == name, f"the type for {wrong}")
            check(e.body["error"]["message"] and e.request_id, "a message")
    try:
        anthropic.Anthropic(base_url=url + "/v1/messages", api_key="x").messages.create(**usual())
        check(False, "a wrong path was found")
    except anthropic.NotFoundError as e:
        check(e.body["error"]["type"] == "not_found_error", "the type of a wrong path")


async def together(url):
    async with anthropic.AsyncAnthropic(base_url=url, api_key="x") as client:
        async def one(i):
            async with client.messages.stream(**usual({"temperature": 1, "seed": i % 4})) as stream:
                return "".join([t async for t in stream.text_stream])
        answers = await asyncio.gather(*(one(i) for i in range(16)))
        check(all(answers[i] == answers[i % 4] for i in range(16)), "one seed, one answer")
        check(len(set(answers)) > 1, "several seeds, several answers")
        m = await client.messages.create(**usual())
        check(m.usage.output_tokens == 30, "an asynchronous answer")
        stream = await client.messages.create(**usual(max_tokens=900, stream=True))
        async for _ in stream:
            break
        await stream.close()


def main():
    server = subprocess.Popen([sys.argv[1], "serve", "--addr", "127.0.0.1:0", "-m", "models/demo.gguf",
                               "--tool-format", "hermes"], stdout=subprocess.PIPE, text=True)
    try:
        url = server.stdout.readline().split(" is served at ")[1].strip()
        client = anthropic.Anthropic(base_url=url, api_key="x", max_retries=0)
        whole(client)
        streams(client)
        tools(client)
        errors(client, url)
        asyncio.run(together(url))
    finally:
        server.terminate()
    check(server.wait(60) == 0, "the server's end")
    print(f"{n_checks} checks")


if __name__ == "__main__":
    main()
