#!/usr/bin/env python3
"""openai_tools.py BINARY - tool calls through the official Python client: calls that a grammar makes
of the demo model's answers, whole, streamed, asynchronous and as Pydantic objects, their results sent
back, calls in a model's own notation, and what is refused.  Needs `openai`."""
import asyncio
import enum
import json
import subprocess
import sys

import openai
import pydantic

ASK = [{"role": "user", "content": "What is the weather like?"}]
n_checks = 0


class City(enum.Enum):
    bern = "Bern"
    oslo = "Oslo"


class Place(pydantic.BaseModel):
    city: City
    days: int = pydantic.Field(ge=1, le=7)


class Weather(pydantic.BaseModel):
    """The weather of a place."""
    place: Place


WEATHER = openai.pydantic_function_tool(Weather)
NOW = {"type": "function", "function": {"name": "now", "description": "The time."}}
TOOLS = [WEATHER, NOW]
NAMED = {"type": "function", "function": {"name": "Weather"}}


def check(truth, what):
    global n_checks
    n_checks += 1
    if not truth:
        sys.exit(f"FAILED: {what}")


def ask(client, **more):
    more = {"model": "demo", "messages": ASK, "tools": TOOLS, "temperature": 0, "max_tokens": 300} | more
    return client.chat.completions.create(**more)


def forced(client):
    choice = ask(client, tool_choice=NAMED).choices[0]
    call = choice.message.tool_calls[0]
    check(choice.finish_reason == "tool_calls" and choice.message.content is None, "a call and no content")
    check(call.type == "function" and call.function.name == "Weather" and call.id, "the call")
    Weather.model_validate_json(call.function.arguments)
    one = ask(client, tool_choice="required", parallel_tool_calls=False).choices[0]
    check(len(one.message.tool_calls) == 1, "one call")
    check(one.message.tool_calls[0].function.name in ("Weather", "now"), "of a known function")
    several = ask(client, tool_choice=NAMED, n=3, temperature=1, top_p=0.9, seed=5)
    for c in several.choices:
        Weather.model_validate_json(c.message.tool_calls[0].function.arguments)
    check(len(several.choices) == 3, "three answers")
    none = ask(client, tool_choice="none", max_tokens=8).choices[0]
    check(none.message.tool_calls is None and none.message.content, "no call")
    return choice.message


def streamed(client, whole):
    parts = {"name": "", "arguments": "", "id": "", "content": ""}
    ends = []
    for chunk in ask(client, tool_choice=NAMED, stream=True):
        delta = chunk.choices[0].delta
        parts["content"] += delta.content or ""
        for call in delta.tool_calls or []:
            check(call.index == 0, "the index")
            parts["id"] += call.id or ""
            parts["name"] += call.function.name or ""
            parts["arguments"] += call.function.arguments or ""
        ends += [chunk.choices[0].finish_reason] if chunk.choices[0].finish_reason else []
    function = whole.tool_calls[0].function
    check(parts["name"] == function.name and parts["arguments"] == function.arguments, "the same call")
    check(parts["id"] and parts["content"] == "" and ends == ["tool_calls"], "what is around it")
    with client.chat.completions.stream(model="demo", messages=ASK, tools=TOOLS, tool_choice=NAMED,
                                        temperature=0, max_tokens=300) as stream:
        parsed = stream.get_final_completion().choices[0].message.tool_calls[0].function.parsed_arguments
    check(parsed == Weather.model_validate_json(function.arguments), "as an object, from a stream")


def parsed(client):
    r = client.chat.completions.parse(model="demo", messages=ASK, tools=[WEATHER], tool_choice=NAMED,
                                      temperature=0, max_tokens=300)
    arguments = r.choices[0].message.tool_calls[0].function.parsed_arguments
    check(isinstance(arguments, Weather) and 1 <= arguments.place.days <= 7, "as an object")


def answered(client, message):
    """The call and its result go back; the model answers in words."""
    history = ASK + [message.model_dump(exclude_none=True)]
    history += [{"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "rain"}]
    choice = ask(client, messages=history, tool_choice="auto", max_tokens=8).choices[0]
    check(choice.message.content and choice.message.tool_calls is None, "an answer to the result")


def own_notation(client):
    call = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
    text = f"<think>\nhm\n</think>\n\nI look.\n{call}\n{call}"
    message = ask(client, extra_body={"guided_choice": [text]}).choices[0].message
    check(message.content == "I look." and message.reasoning_content == "hm", "content and reasoning")
    check([c.function.name for c in message.tool_calls] == ["now", "now"], "two calls")
    check(len({c.id for c in message.tool_calls}) == 2, "ids of their own")
    one = ask(client, parallel_tool_calls=False, extra_body={"guided_choice": [text]})
    check(len(one.choices[0].message.tool_calls) == 1, "one call when more are not wanted")
    broken = '<tool_call>{"name": </tool_call>'
    kept = ask(client, extra_body={"guided_choice": [broken]}).choices[0]
    check(kept.message.content == broken and kept.finish_reason == "stop", "what is no call is content")


def refused(client):
    odd = {"type": "function", "function": {"name": "f", "parameters": {
        "type": "object", "properties": {"a": {"type": "string", "contentEncoding": "base64"}}}}}
    cases = (("tool_choice", "#/$defs/f/properties/a", {"tools": [odd], "tool_choice": "required"}),
             ("tool_choice", "'other'", {"tool_choice": {"type": "function", "function": {"name": "other"}}}),
             ("tool_choice", "no tools", {"tools": [], "tool_choice": "required"}),
             ("tools[0].type", "function", {"tools": [{"type": "web_search"}]}))
    for param, says, more in cases:
        try:
            ask(client, **more)
            check(False, f"{more} was accepted")
        except openai.BadRequestError as e:
            check(e.body["param"] == param and says in e.body["message"], f"why not {more}: {e.body}")


async def asynchronous(url):
    client = openai.AsyncOpenAI(base_url=url, api_key="x", max_retries=0)
    answers = await asyncio.gather(*(ask(client, tool_choice=NAMED, seed=i, temperature=1, top_p=0.9)
                                     for i in range(8)))
    for a in answers:
        Weather.model_validate(json.loads(a.choices[0].message.tool_calls[0].function.arguments))
    check(len(answers) == 8, "eight at a time")


def main():
    server = subprocess.Popen([sys.argv[1], "serve", "--addr", "127.0.0.1:0", "--alias", "demo",
                               "--tool-format", "hermes"], stdout=subprocess.PIPE, text=True)
    try:
        url = server.stdout.readline().split(" is served at ")[1].strip() + "/v1"
        client = openai.OpenAI(base_url=url, api_key="x", max_retries=0)
        message = forced(client)
        streamed(client, message)
        parsed(client)
        answered(client, message)
        own_notation(client)
        refused(client)
        asyncio.run(asynchronous(url))
    finally:
        server.terminate()
    check(server.wait(60) == 0, "the server's end")
    print(f"openai_tools: {n_checks} checks passed")


if __name__ == "__main__":
    main()
