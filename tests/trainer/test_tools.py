"""The four tools: the words a model is shown, for every way a call can go."""

import pytest
from pydantic import ValidationError

from trainer.errors import SandboxError
from trainer.sandbox import Limits, SandboxSpec, open_sandbox
from trainer.tools import MAX_ANSWER_CHARS, TOOL_NAMES, TOOL_SCHEMAS, ToolCall, ToolResult, call_tool


@pytest.fixture(scope='module')
def sandbox():
    with open_sandbox() as made:
        made.run(
            'mkdir empty full; touch full/a full/b; printf text > file; head -c 3000000 /dev/zero | tr "\\0" z > big'
        )
        yield made


@pytest.mark.parametrize(
    ('command', 'text', 'exit_code'),
    [
        ('echo hi', 'hi\n', 0),
        ('true', '[exit code 0]', 0),
        ('echo hi; exit 3', 'hi\n[exit code 3]', 3),
        ('printf hi; exit 3', 'hi\n[exit code 3]', 3),
        ('exit 3', '[exit code 3]', 3),
        ('kill -9 $$', '[exit code -9]', -9),
        ('sleep 99 & sleep 99', '[timed out after 1 s]', None),
        ('echo so far; sleep 99', 'so far\n[timed out after 1 s]', None),
        (r"printf '\033[1;31mred\033[0m \033]0;title\007\033(Bend\n'", 'red end\n', 0),
        (r"printf '\377\0\007é\n'", '\ufffd\ufffd\ufffdé\n', 0),
        ('a\0b', 'a command cannot be empty or hold a NUL character\n[exit code 126]', 126),
    ],
)
def test_run_command(sandbox, command, text, exit_code):
    result = call_tool(sandbox, 'run_command', {'command': command}, timeout_s=1 if 'sleep' in command else 30)
    assert (result.text, result.exit_code) == (text, exit_code)
    assert result.ok
    assert result.timed_out == ('timed out' in text)
    assert 0 <= result.duration_ms < 5000


@pytest.mark.parametrize(
    ('name', 'args', 'text'),
    [
        ('read_file', {'path': 'file'}, 'text'),
        ('write_file', {'path': 'new/é.txt', 'content': 'é{}$%\n'}, 'wrote 7 bytes to new/é.txt'),
        ('read_file', {'path': 'new/é.txt'}, 'é{}$%\n'),
        ('list_dir', {'path': 'full'}, 'a\nb'),
        ('list_dir', {'path': 'empty'}, '(empty)'),
        ('list_dir', {'path': 'new'}, 'é.txt'),
    ],
)
def test_files(sandbox, name, args, text):
    result = call_tool(sandbox, name, args)
    assert (result.text, result.ok, result.exit_code) == (text, True, None)


@pytest.mark.parametrize(
    ('name', 'args', 'says'),
    [
        ('rm', {}, "there is no tool 'rm'; the tools are run_command, read_file, write_file, list_dir"),
        (['rm'], {}, 'there is no tool'),
        (None, {}, 'there is no tool None'),
        ('run_command', {}, 'run_command takes exactly the arguments command'),
        ('run_command', {'cmd': 'ls'}, 'takes exactly the arguments command'),
        ('run_command', {'command': 'ls', 'timeout': 5}, 'takes exactly the arguments command'),
        ('run_command', 'ls', 'takes exactly the arguments command'),
        ('run_command', None, 'takes exactly the arguments command'),
        ('run_command', ['ls'], 'takes exactly the arguments command'),
        ('run_command', {'command': ['ls']}, 'command of run_command has to be a string'),
        ('write_file', {'path': 'a'}, 'write_file takes exactly the arguments path, content'),
        ('write_file', {'path': 'a', 'content': {'x': 1}}, 'content of write_file has to be a string'),
        ('write_file', {'path': '../a', 'content': ''}, '../a: the path leaves the workspace'),
        ('write_file', {'path': 'empty', 'content': ''}, 'empty: this is a folder'),
        ('read_file', {'path': 'missing'}, 'missing: no such file or folder'),
        ('read_file', {'path': 'empty'}, 'empty: this is a folder'),
        ('read_file', {'path': 3}, 'path of read_file has to be a string'),
        ('read_file', {'path': '\ud800\0'}, 'this is not a usable path'),
        ('list_dir', {'path': 'file'}, 'file: this is not a folder'),
        ('list_dir', {'path': '/etc'}, '/etc: the path leaves the workspace'),
    ],
)
def test_mistakes_of_a_model_are_answers(sandbox, name, args, says):
    result = call_tool(sandbox, name, args)
    assert not result.ok
    assert result.text.startswith('error: ')
    assert says in result.text
    assert result.exit_code is None


@pytest.mark.parametrize(
    ('name', 'args', 'head', 'tail'),
    [
        ('run_command', {'command': 'seq 100000; exit 2'}, '1\n2\n', '100000\n[exit code 2]'),
        ('run_command', {'command': 'head -c 20000 file /dev/zero | tr "\\0" z'}, '==> file', 'zzz'),
        ('read_file', {'path': 'big'}, 'zzz', '[… only the first 1048576 bytes were read …]'),
    ],
)
def test_long_answers_keep_head_and_tail(sandbox, name, args, head, tail):
    text = call_tool(sandbox, name, args).text
    assert MAX_ANSWER_CHARS - 100 < len(text) <= MAX_ANSWER_CHARS
    assert text.startswith(head)
    assert text.endswith(tail)
    assert ' characters cut …]\n' in text


def test_the_mark_counts_all_that_is_missing(sandbox):
    text = call_tool(sandbox, 'run_command', {'command': 'head -c 1000000 /dev/zero | tr "\\0" z'}).text
    missing = int(text.split('[… ')[1].split()[0])
    assert abs(missing + text.count('z') - 1_000_000) < 100


def test_names_that_are_no_text(sandbox):
    sandbox.run('mkdir odd; touch "odd/$(printf "a\\377")"')
    assert call_tool(sandbox, 'list_dir', {'path': 'odd'}).text == 'a\ufffd'
    result = call_tool(sandbox, 'write_file', {'path': 'odd/s', 'content': 'a\ud800b'})
    assert result.text == 'wrote 3 bytes to odd/s'
    call_tool(sandbox, 'read_file', {'path': 'odd/s'}).text.encode()


def test_limits_are_said():
    limits = Limits(memory_bytes=64 << 20, inodes=200)
    with open_sandbox(SandboxSpec(limits=limits)) as small:
        code = (
            'import mmap, time; m = mmap.mmap(-1, 300 << 20)\n'
            'for _ in range(9): m.write(bytes(20 << 20))\ntime.sleep(5)'
        )
        result = call_tool(small, 'run_command', {'command': f"python3 -c '{code}'"})
        assert result.text == '[stopped: out of memory]'
        assert (result.exit_code, result.timed_out, result.ok) == (None, False, True)
        result = call_tool(small, 'run_command', {'command': 'mkdir d; cd d; seq 900 | xargs touch; sleep 5'})
        assert result.text == '[stopped: too many files in the workspace]'


def test_a_broken_sandbox_is_no_answer():
    sandbox = open_sandbox()
    sandbox.close()
    for name, args in (('run_command', {'command': 'ls'}), ('read_file', {'path': 'a'}), ('list_dir', {'path': '.'})):
        with pytest.raises(SandboxError):
            call_tool(sandbox, name, args)


def test_schemas_and_models():
    assert TOOL_NAMES == ('run_command', 'read_file', 'write_file', 'list_dir')
    assert [tuple(schema['function']['parameters']['properties']) for schema in TOOL_SCHEMAS] == [
        ('command',),
        ('path',),
        ('path', 'content'),
        ('path',),
    ]
    assert ToolCall(name='x').args == {}
    with pytest.raises(ValidationError):
        ToolResult(text='', extra=1)
    with pytest.raises(ValidationError):
        ToolCall(name='x', args={}).name = 'y'
