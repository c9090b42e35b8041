"""Chat templates, with Jinja2 as the oracle: its sandbox with the options that chat templates are written for."""

import datetime
import json
import os
import pathlib

import pytest

llm = pytest.importorskip("quern.llm")
jinja2 = pytest.importorskip("jinja2")
sandbox = pytest.importorskip("jinja2.sandbox")
ext = pytest.importorskip("jinja2.ext")


class Generation(ext.Extension):
    """{% generation %}: what stands in it stays."""

    tags = {"generation"}

    def parse(self, parser):
        next(parser.stream)
        return parser.parse_statements(["name:endgeneration"], drop_needle=True)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def oracle(source, variables):
    env = sandbox.SandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, ext.loopcontrols])
    env.filters["tojson"] = lambda x, ensure_ascii=False, indent=None, separators=None, sort_keys=False: json.dumps(
        x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    env.filters["safe"] = lambda x: x  # nothing is HTML here; Jinja2 would escape what is added to it
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    return env.from_string(source).render(**variables)


def outcome(function, *arguments):
    """What it returns, or that it raises."""
    try:
        return function(*arguments)
    except Exception as error:  # noqa: BLE001 (any refusal is one)
        return error


def compare(source, variables):
    expected = outcome(oracle, source, variables)
    got = outcome(lambda: llm.ChatTemplate(source).render(**variables))
    if isinstance(expected, TypeError) and "generator" in str(expected):
        return  # what Jinja2 computes later is a list here
    if isinstance(expected, Exception):
        assert isinstance(got, Exception), f"Jinja2 refuses ({expected}), quern gives {got!r}"
    else:
        assert got == expected


VARIABLES = {
    "xs": [3, 1, 2], "names": ["b", "A", "c", "a"], "text": "  Hello, World! äÖ\n", "none": None, "yes": True, "no": False, "n": 7, "f": 2.5,
    "d": {"b": 1, "a": [1, {"x": None}], "C": "ü'\"<&>\n"}, "empty": [], "rows": [{"k": 1, "v": "x"}, {"k": 2, "v": "y"}, {"k": 1, "v": "z"}],
}
TEMPLATES = [
    # Output and literals
    "{{ 1 }} {{ 1.0 }} {{ 1e20 }} {{ 1e-7 }} {{ 'a' }} {{ true }} {{ none }} {{ [1, 'a', none, 2.5] }} {{ (1,) }} {{ {'a': 1, 2: 'b'} }}",
    r"{{ 'a\n\t\\\'' }} {{ ['a\nb', 'it\'s', '\"', 'ü\\'] }} {{ 'con' 'cat' }} {{ '\u00e4\x41' }}",
    "{{ undefined_name }}|{{ d.missing }}|{{ d['missing'] }}|{{ xs[9] }}", "{{ undefined_name.x }}", "{{ undefined_name + 1 }}",
    "{{ text }}{{ d }}{{ xs }}{{ f }}{{ n }}",
    # Arithmetic, comparison, logic
    "{{ 1 + 2 * 3 - 4 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ -2 ** 2 }} {{ 7.5 // 2 }} {{ 7.5 % 2 }}",
    "{{ 'a' ~ 1 ~ none ~ 2.0 }} {{ 'ab' * 3 }} {{ [1] * 2 + [3] }} {{ 3 * 'x' }} {{ (1, 2) + (3,) }}", "{{ 1 / 0 }}", "{{ 1 + 'a' }}", "{{ [] + 1 }}",
    "{{ 1 < 2 < 3 }} {{ 1 < 2 > 3 }} {{ 1 == 1.0 }} {{ 'a' < 'b' }} {{ [1, 2] == [1, 2] }} {{ true == 1 }} {{ 'a' == 1 }} {{ (1, 2) < (1, 3) }}", "{{ 1 < 'a' }}",
    "{{ 1 in xs }} {{ 9 not in xs }} {{ 'ell' in text }} {{ 'a' in d }} {{ 1 in 'a' }}", "{{ 'a' in undefined_name }}",
    "{{ not yes }} {{ yes and no }} {{ 0 or 'x' }} {{ none or [] or 0 }} {{ not 1 == 2 }} {{ '' and 1 }}", "{{ 'a' if yes else 'b' }}{{ 'a' if no }}{{ 1 if no else 2 if no else 3 }}",
    "{{ -n }} {{ +n }} {{ -f|abs }} {{ (-3)|abs }} {{ n - -1 }} {{ 2 * -3 }}",
    # Indices and slices
    "{{ xs[0] }} {{ xs[-1] }} {{ text[2] }} {{ d.a[1].x }} {{ d['a'][0] }} {{ xs.0 }} {{ rows[0].v }} {{ rows[1]['v'] }}",
    "{{ xs[1:] }} {{ xs[:-1] }} {{ xs[::-1] }} {{ xs[-2:] }} {{ xs[5:] }} {{ xs[::2] }} {{ 'äöü'[1:] }} {{ 'abcdef'[-1:0:-2] }} {{ xs[-9:9] }} {{ xs[9::-1] }} {{ xs[:0:-1] }}", "{{ xs[::0] }}",
    # Blocks and spaces around them
    "a\n{% if yes %}\n  b\n  {% endif %}\nc\n", "a\n  {%- if yes -%}\n  b\n  {%- endif -%}\nc\n\n", "  {{ 1 }}  \n  {{- 2 -}}  \n3", "a {# c #} b\n{# d #}\ne\n   {#- f -#}   g", "  {%+ if yes %} x {% endif +%}\ny",
    "{% raw %}{{ x }}{% y %}{% endraw %}\nz", "a\n{%- raw -%}  {{ }}  {%- endraw -%}\n z", "\n\n{% set x = 1 %}\n\n{{ x }}\n\n", "x\r\n{% if yes %}\r\ny\r\n{% endif %}\r\nz", "{% if no %}1{% elif n == 7 %}2{% else %}3{% endif %}", "{{ '}}' }}{{ {'a': {'b': 1}} }}{{'%}'}}",
    # set, scopes, namespaces
    "{% set x = 1 %}{% for i in xs %}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}", "{% set ns = namespace(x=1, y='a') %}{% for i in xs %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}{{ ns.y }}{{ ns.z }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, d) = [3, 4] %}{{ c }}{{ d }}", "{% set a, b = [1] %}", "{% set x %} block {{ n }} {% endset %}[{{ x }}]", "{% set x | trim | upper %} block {% endset %}[{{ x }}]", "{% if yes %}{% set x = 5 %}{% endif %}{{ x }}", "{% set n = 1 %}{{ n }}",
    "{% set d.x = 1 %}", "{% set a = 1, 2 %}{{ a }}",
    # for
    "{% for i in xs %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }},{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for c in 'äb' %}<{{ c }}>{% endfor %}", "{% for i in xs if i > 1 %}{{ loop.index }}:{{ i }} {% else %}none{% endfor %}{% for i in xs if i > 5 %}{{ i }}{% else %}none{% endfor %}",
    "{% for i in empty %}x{% else %}empty{% endfor %}{% for i in undefined_name %}x{% else %}undefined{% endfor %}", "{% for i in n %}{% endfor %}", "{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "{% for i in range(2) %}{% for j in range(i, 4, 2) %}{{ i }}{{ j }}{{ loop.index }} {% endfor %}{{ loop.index }};{% endfor %}{{ range(5, 0, -2)|list }}", "{% for i in xs %}{{ loop.cycle('a', 'b') }}{{ loop.changed(i > 1) }}{% endfor %}",
    "{% for x in [[1, [2, [3]]], [4]] recursive %}{% if x is number %}{{ x }}@{{ loop.depth }}{% else %}({{ loop(x) }}){% endif %}{% endfor %}", "{% for k, v in [(1, 2), [3, 4]] %}{{ k }}{{ v }}{% endfor %}",
    "{% for i in xs %}{% set y = i %}{% endfor %}{{ y }}", "{% for loop_var in xs %}{{ n }}{% set n = loop_var %}{{ n }}{% endfor %}{{ n }}",
    # Macros
    "{% macro m(a, b='x', c=none) %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(1, c=3) }}{{ m(b=1, a=2) }}{{ m() }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}",
    "{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}", "{% set g = 1 %}{% macro m() %}{{ g }}{% set g = 2 %}{{ g }}{% endmacro %}{{ m() }}{{ g }}", "{% macro m() %}a{% endmacro %}{{ m() ~ m()|upper }}",
    "{% macro m(x) %}<{{ caller() }}{{ x }}>{% endmacro %}{% call m(1) %}body{% endcall %}", "{% macro m() %}{{ caller(2) }}{% endmacro %}{% call(a) m() %}body{{ a }}{% endcall %}", "{% for i in xs %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}", "{{ m() }}",
    "{% filter upper %}a{{ text }}{% endfilter %}", "{% filter replace('a', 'b')|trim %} aa {% endfilter %}", "{% generation %}a{% endgeneration %}b",
    # Filters
    "{{ x|default('d') }}{{ none|default('d') }}{{ ''|default('d', true) }}{{ x|default }}{{ 0|d(5, boolean=true) }}", "{{ xs|length }}{{ text|length }}{{ d|count }}{{ 'äö'|length }}{{ empty|length }}", "{{ n|length }}",
    "[{{ text|trim }}][{{ 'xxaxx'|trim('x') }}]{{ text|upper }}{{ text|lower }}{{ 'hello wORLD'|title }}{{ 'hELLO'|capitalize }}", "{{ text|replace('l', 'L') }}{{ 'aaa'|replace('a', 'b', 2) }}{{ 'ab'|replace('', '-') }}",
    "{{ xs|join(', ') }}{{ xs|join }}{{ rows|join('-', attribute='v') }}{{ 'abc'|join('.') }}{{ ['a', 1, none]|join('/') }}", "{{ xs|first }}{{ xs|last }}{{ empty|first }}{{ 'abc'|first }}{{ xs|list }}{{ 'ab'|list }}{{ xs|reverse|list }}{{ 'abc'|reverse }}",
    "{{ rows|map(attribute='v')|list }}{{ rows|map(attribute='q', default='-')|list }}{{ names|map('upper')|join }}{{ [' a ', 'b']|map('trim')|list }}{{ names|map('replace', 'a', 'x')|list }}",
    "{{ xs|select('odd')|list }}{{ xs|reject('gt', 1)|list }}{{ rows|selectattr('k', 'equalto', 1)|list }}{{ rows|rejectattr('k', '==', 1)|map(attribute='v')|first }}{{ rows|selectattr('v')|list|length }}{{ [0, 1, '']|select|list }}{{ rows|selectattr('q', 'defined')|list }}{{ rows|selectattr('k', 'in', [2])|list }}",
    "{{ d|tojson }}{{ d|tojson(indent=2) }}{{ xs|tojson }}{{ none|tojson }}{{ f|tojson }}{{ text|tojson }}{{ d|tojson(ensure_ascii=true) }}{{ d|tojson(sort_keys=true) }}{{ d|tojson(separators=(',', ':')) }}{{ [] | tojson(indent=1) }}{{ {}|tojson(indent=4) }}{{ {1: true}|tojson }}", "{{ x|tojson }}",
    "{{ d|items|list }}{{ d|dictsort }}{{ d|dictsort(true) }}{{ {'a': 3, 'b': 1}|dictsort(by='value') }}{{ d|dictsort(reverse=true)|first }}", "{{ names|sort }}{{ names|sort(reverse=true) }}{{ names|sort(case_sensitive=true) }}{{ rows|sort(attribute='v', reverse=true)|first }}{{ names|unique|list }}{{ xs|sort|join }}", "{{ [1, 'a']|sort }}",
    "{{ xs|min }}{{ xs|max }}{{ xs|sum }}{{ rows|sum(attribute='k') }}{{ names|min }}{{ empty|max }}{{ [0.5, 1]|sum }}", "{{ 'a\nb\n\nc'|indent }}|{{ 'a\nb'|indent(2, true) }}|{{ 'a\n\nb'|indent('--', blank=true) }}|{{ 'a\n'|indent(3) }}", "{{ '12'|int }}{{ 'x'|int }}{{ 'x'|int(5) }}{{ 2.9|int }}{{ ' 3 '|int }}{{ '2.5'|float }}{{ 'x'|float }}{{ '3.7'|int }}{{ true|int }}{{ none|int }}",
    "{{ 2.567|round(2) }}{{ 2.5|round }}{{ 3.5|round }}{{ 2.1|round(method='ceil') }}{{ 7|round }}{{ (-3)|abs }}{{ 2.675|round(2) }}", "{{ '<a&\"\\'>'|e }}{{ 'x'|string }}{{ 1|string ~ 'a' }}{{ 'x'|safe }}{{ d|attr('items') is callable }}", "{{ [1, 2, 3]|batch(2)|list }}{{ [1, 2, 3]|batch(2, 0)|list }}", "{{ 1|no_such_filter }}",
    # Tests
    "{{ x is defined }}{{ n is defined }}{{ x is undefined }}{{ d.q is not defined }}{{ none is none }}{{ n is not none }}", "{{ n is number }}{{ f is float }}{{ n is integer }}{{ yes is integer }}{{ yes is number }}{{ 'a' is string }}{{ yes is boolean }}{{ yes is true }}{{ no is false }}{{ 1 is true }}",
    "{{ d is mapping }}{{ xs is mapping }}{{ xs is sequence }}{{ 'a' is sequence }}{{ d is sequence }}{{ n is sequence }}{{ xs is iterable }}{{ d is iterable }}{{ n is iterable }}{{ (1, 2) is sequence }}{{ none is iterable }}", "{{ n is odd }}{{ n is even }}{{ 9 is divisibleby 3 }}{{ 9 is divisibleby(2) }}{{ n is eq 7 }}{{ n is gt(3) }}{{ n is in [7] }}{{ 'a' is sameas 'a' }}{{ range is callable }}",
    "{{ n is defined and n > 3 }}{{ x is defined or yes }}{{ not x is defined }}{{ 'yes' if n is number else 'no' }}{{ 'ab' is lower }}{{ 'AB' is upper }}", "{{ 1 is no_such_test }}", "{{ x is defined and x.y }}{{ (x is not defined) }}",
    # Methods
    "{{ text.strip() }}|{{ text.lstrip() }}|{{ text.rstrip() }}|{{ 'xxaxx'.strip('x') }}{{ 'abcab'.lstrip('ab') }}{{ 'abcab'.rstrip('ab') }}", "{{ 'a,b,,c'.split(',') }}{{ ' a  b '.split() }}{{ 'a b c'.split(' ', 1) }}{{ 'a b c'.rsplit(' ', 1) }}{{ 'a b  c '.rsplit(none, 1) }}{{ 'a\nb\r\nc'.splitlines() }}{{ 'abc'.split('x')[0] }}{{ 'a b c'.split(none, 1) }}",
    "{{ 'abc'.startswith('ab') }}{{ 'abc'.endswith(('x', 'c')) }}{{ 'aBc'.upper() }}{{ 'ABc'.lower() }}{{ 'hello big World'.title() }}{{ 'hELLO'.capitalize() }}{{ 'aXbX'.replace('X', 'yy') }}{{ 'aXbX'.replace('X', '', 1) }}", "{{ '-'.join(['a', 'b']) }}{{ 'abcabc'.find('c') }}{{ 'abc'.find('x') }}{{ 'abcabc'.rfind('c') }}{{ 'aaa'.count('a') }}{{ 'äbc'.find('c') }}{{ '12'.isdigit() }}{{ ''.isdigit() }}{{ 'ab'.isalpha() }}{{ ' '.isspace() }}",
    "{{ '{} {}!'.format('a', 1) }}{{ '{1}{0}{{}}{x}'.format('a', 'b', x=2) }}", "{{ '{}'.format() }}", "{{ 'prefix_x'.removeprefix('prefix_') }}{{ 'x.py'.removesuffix('.py') }}", "{{ d.get('a') }}{{ d.get('q') }}{{ d.get('q', 5) }}{{ d.keys()|list }}{{ d.values()|list }}{{ d.items()|list }}",
    "{% set l = [1] %}{% set _ = l.append(2) %}{{ l }}{{ l.pop() }}{{ l }}{{ l.index(1) }}{{ [1, 1].count(1) }}{% set _ = l.insert(0, 9) %}{{ l }}{% set _ = l.extend([4, 5]) %}{{ l.pop(0) }}{{ l }}", "{% set q = dict(a=1) %}{% set _ = q.update({'b': 2}) %}{{ q }}{{ q.pop('a') }}{{ q }}", "{{ 'a'.no_such_method() }}", "{{ xs.items }}", "{{ '-'.join([1]) }}", "{{ d.C }}",
    "{{ raise_exception('no') }}", "{% if no %}{{ raise_exception('no') }}{% endif %}ok", "{{ strftime_now('%Y') }}", "{{ dict(a=1, b=2) }}{{ dict({'x': 1}, y=2) }}{{ namespace(a=1).a }}",
    # What is no template
    "{% if %}", "{% if yes %}", "{% endif %}", "{{ }}", "{{ 1", "{% for x xs %}{% endfor %}", "{% nothing %}", "{{ 'a }}", "{{ (1 }}", "{# a", "{% set %}", "{% macro %}{% endmacro %}", "{{ a b }}", "{% else %}", "{{ 1 + }}", "{{ ] }}", "{% raw %}x",
]


@pytest.mark.parametrize("source", TEMPLATES)
def test_written_templates(source):
    compare(source, VARIABLES)


TOOLS = [{"type": "function", "function": {
    "name": "get_weather", "description": "The weather\nof a \"place\" <now>.",
    "parameters": {"type": "object", "properties": {"place": {"type": "string", "description": "where, e.g. Zürich"},
                                                    "days": {"type": "integer", "default": 3}, "unit": {"type": "string", "enum": ["C", "F"]},
                                                    "tags": {"type": "array", "items": {"type": "string"}}}, "required": ["place"]}}}]
USER, SYSTEM = {"role": "user", "content": "Hello, ünï <b>!\n"}, {"role": "system", "content": "Be brief."}
ANSWER = {"role": "assistant", "content": "<think>\nhm\n</think>\n\nHi there. "}
CALL = {"role": "assistant", "content": "", "tool_calls": [
    {"id": "call_12345", "type": "function", "function": {"name": "get_weather", "arguments": {"place": "Bern", "days": 2}}}]}
RESULT = {"role": "tool", "tool_call_id": "call_12345", "name": "get_weather", "content": "{\"sunny\": true}"}
AGAIN = {"role": "user", "content": "And tomorrow?"}
THINKING = {"role": "assistant", "content": "Yes.", "reasoning_content": "I think\nso."}
PARTS = {"role": "user", "content": [{"type": "text", "text": "What is"}, {"type": "text", "text": " this?"}]}
TALKS = {
    "user": {"messages": [USER]}, "system": {"messages": [SYSTEM, USER]}, "turns": {"messages": [SYSTEM, USER, ANSWER, AGAIN]},
    "unfinished": {"messages": [USER, ANSWER], "add_generation_prompt": False}, "tools": {"messages": [SYSTEM, USER], "tools": TOOLS},
    "no_system_tools": {"messages": [USER], "tools": TOOLS}, "called": {"messages": [SYSTEM, USER, CALL, RESULT], "tools": TOOLS},
    "called_again": {"messages": [USER, CALL, RESULT, ANSWER, AGAIN], "tools": TOOLS}, "thinking": {"messages": [USER, THINKING, AGAIN], "enable_thinking": True},
    "not_thinking": {"messages": [USER, THINKING, AGAIN], "enable_thinking": False}, "parts": {"messages": [PARTS]}, "two_users": {"messages": [USER, AGAIN]}, "nothing": {"messages": []},
}


def templates_of_models():
    folder = os.environ.get("QUERN_VOCABULARIES")
    return sorted(pathlib.Path(folder, "templates").glob("*.jinja")) if folder else []


@pytest.mark.skipif(not templates_of_models(), reason="QUERN_VOCABULARIES is not set")
@pytest.mark.parametrize("talk", TALKS)
@pytest.mark.parametrize("path", templates_of_models(), ids=lambda path: path.stem)
def test_templates_of_models(path, talk):
    """Each gives the same text, or both refuse."""
    variables = {"add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>", "date_string": "26 Jul 2024", **TALKS[talk]}
    compare(path.read_text(encoding="utf-8"), variables)


@pytest.mark.parametrize(("source", "words"), [
    ("a\nb{% include 'x' %}", ["line 2", "include"]),
    ("\n\n{{ x|no_such_filter }}", ["line 3", "filter 'no_such_filter'"]),
    ("{{ 1 is strange }}", ["line 1", "test 'strange'"]),
    ("{% if x %}\n{{ f(1) }}{% endif %}", ["line 2", "function 'f'"]),
    ("{{ 'a'.encode() }}", ["line 1", "method 'encode' of a str"]),
    ("\n{{ x.y.z }}", ["line 2", "'y' is not defined"]),
    ("{{ f(*x) }}", ["line 1", "(*)"]),
    ("{{ '%d' % 1 }}", ["formatting with %"]),
])
def test_errors_name_the_construct_and_its_line(source, words):
    with pytest.raises(Exception, match="chat template") as error:
        llm.ChatTemplate(source).render(x={"a": 1})
    assert all(word in str(error.value) for word in words), error.value


@pytest.mark.parametrize("source", [
    "{% for i in range(1000000) %}{% for j in range(1000000) %}{% endfor %}{% endfor %}",
    "{% set ns = namespace(x='a') %}{% for i in range(100) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
    "{% set ns = namespace(x=[1]) %}{% for i in range(100) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
    "{{ 'a' * 1000000000000 }}", "{{ [1] * 1000000000000 }}", "{{ range(1000000000000) }}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}",
    "{% set l = [] %}{% set _ = l.append(l) %}{{ l }}", "{% set l = [] %}{% set _ = l.append(l) %}{{ l == [l] }}{{ l|tojson }}",
    "{% set ns = namespace() %}{% set ns.x = [] %}{% for i in range(100000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
    "{{ " + "(" * 100000 + "1" + ")" * 100000 + " }}", "{{ " + "not " * 100000 + "1 }}", "{{ 1" + " + 1" * 100000 + " }}", "{{ " + "[" * 100000, "{{ x" + "|trim" * 100000 + " }}", "{{ x" + ".a" * 100000 + " }}",
    "{% if x %}" * 100000, "{{ '" + "a" * 1000000 + "'.replace('a', '" + "b" * 1000 + "') }}", "{{ 9223372036854775807 + 1 }}", "{{ 99999999999999999999 }}", "{{ 2 ** 100000000 }}", "{{ 'a'|indent(1000000000) * 1000000000 }}",
    "{{ x" + " if x else x" * 100000 + " }}", "{{ 'x'.join([" + "'a'," * 100000 + "]) * 100000 }}",
])
def test_hostile_templates_end_in_an_error(source):
    with pytest.raises(Exception, match="chat template"):
        llm.ChatTemplate(source).render(x="a")


def test_random_bytes_are_templates_or_errors():
    import random

    rng = random.Random(5)
    words = ["{{", "}}", "{%", "%}", "{#", "#}", "if", "for", "in", "x", "endif", "endfor", "set", "=", "|", "trim", "(", ")", "[", "]", "'a'", "1", ".", "-", "+", " ", "\n", "is", "not",
             "macro", "loop", "{", "}", ":", ",", "~", "else", "tojson", "raw", "endraw"]
    for _ in range(3000):
        source = "".join(rng.choice(words) + rng.choice(["", " "]) for _ in range(rng.randrange(1, 25)))
        expected = outcome(oracle, source, {"x": [1, "b"]})
        got = outcome(lambda source=source: llm.ChatTemplate(source).render(x=[1, "b"]))
        if isinstance(got, str) and isinstance(expected, str):
            assert got == expected, source
        if isinstance(expected, str):
            assert isinstance(got, str), f"{source!r}: {got}"
