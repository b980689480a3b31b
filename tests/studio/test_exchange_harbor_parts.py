"""Parts of Harbor tasks: what is read of a Dockerfile and a test.sh, what is left out and said, what is refused."""

from typing import Any

import pytest
from harbor_tasks import plain, zipped
from hypothesis import example, given, settings
from hypothesis import strategies as st

from studio.exchange.archive import pack
from studio.exchange.formats import read_all
from studio.exchange.harbor.dockerfile import read_dockerfile
from studio.exchange.harbor.verifier import adapted
from studio.exchange.pool import Incoming


def test_the_oldest_schema_is_read() -> None:
    found = zipped(plain())
    assert found.task is not None and found.task.topics == ('t',)
    assert {'memory: 4096 MB asked for, a sandbox has 2048 MB'} <= set(found.warnings)
    assert any('a sandbox has no network' in warning for warning in found.warnings)


@pytest.mark.parametrize(
    ('files', 'loc', 'message'),
    [
        ({'task.toml': 'a = ['}, 'task.toml', 'cannot be read'),
        ({'task.toml': b'\xff'}, 'task.toml', 'not UTF-8'),
        ({'task.toml': 'agent = 3'}, 'task.toml', 'must be a table'),
        ({'task.toml': '[[steps]]\nname = "a"'}, 'task.toml', '1 steps'),
        ({'task.toml': '[environment]\nos = "windows"'}, 'task.toml', 'needs windows'),
        ({'task.toml': '[environment]\ngpus = 2'}, 'task.toml', 'needs 2 GPU'),
        ({'task.toml': '[environment]\nmcp_servers = [{name = "a"}]'}, 'task.toml', 'MCP'),
        ({'task.toml': '[[verifier.collect]]\ncommand = "x"'}, 'task.toml', 'verifier.collect'),
        ({'instruction.md': b'\xff'}, 'instruction.md', 'not UTF-8'),
        ({'instruction.md': ' \n'}, 'task_spec.prompt', 'what the model should do'),
        ({'environment/docker-compose.yaml': 'services: {}'}, 'environment/docker-compose.yaml', 'several containers'),
        (
            {'environment/Dockerfile': 'FROM ubuntu\nWORKDIR /app\nCOPY . .\n', 'environment/x.bin': b'\xff\0'},
            'environment/x.bin',
            'not UTF-8',
        ),
    ],
)
def test_what_a_sandbox_cannot_be_is_refused_with_its_file(files: dict[str, Any], loc: str, message: str) -> None:
    found = zipped(plain(**files))
    assert found.task is None and message.lower() in {error.loc: error.msg.lower() for error in found.errors}.get(
        loc, ''
    )


@pytest.mark.parametrize('gone', ['task.toml', 'instruction.md', 'tests/test.sh'])
def test_missing_files_are_named(gone: str) -> None:
    files = plain()
    del files[gone]
    found = zipped(files)
    assert found.task is None and gone in {error.loc for error in found.errors}


def test_parts_of_a_folder_say_to_zip_the_whole() -> None:
    (row,) = read_all([Incoming('task.toml', b'version = "1.0"')]).found
    assert 'zip the whole folder' in row.errors[0].msg
    assert 'Terminal-Bench 1' in zipped({'old/task.yaml': 'instruction: x'}).errors[0].msg


def test_a_task_with_a_refused_entry_is_refused() -> None:
    data = pack(
        [(name, str(text).encode(), 0o644) for name, text in plain().items()] + [('environment/../../x', b'', 0o644)]
    )
    rows = read_all([Incoming('t.zip', data)]).found
    assert [row.task for row in rows] == [None, None]
    assert 'remove ../' in rows[1].errors[0].msg


def test_dockerfiles_are_read_as_docker_would() -> None:
    text = (
        'FROM gcc AS b\nRUN make\nFROM ubuntu\nWORKDIR /srv/x\nWORKDIR app\nCOPY --from=b /o /srv/x/app/o\n'
        'COPY ["a b.txt", "c.txt"]\nCOPY *.py src/\nCOPY one.txt two.txt\nRUN ["touch", "it is"]\n'
        'COPY <<EOF note.txt\nhello\nEOF\nRUN <<EOF\necho 1\necho 2\nEOF\nADD https://example.invalid/x /srv/x/app/\n'
        'RUN cat /etc/passwd > p\nUSER me\nENTRYPOINT ["/start"]\n'
    )
    build = read_dockerfile(text, {'a b.txt': b'', 'x.py': b'', 'sub/y.py': b'', 'one.txt': b''})
    assert build.root == '/srv/x/app'
    assert build.files == {'c.txt': 'a b.txt', 'src/x.py': 'x.py', 'two.txt': 'one.txt'}
    assert build.texts == {'note.txt': 'hello\n'}
    assert build.commands == ["touch 'it is'", 'echo 1\necho 2']
    said = '\n'.join(build.warnings)
    for part in (
        '1 earlier build stages',
        'line 6',
        'line 18: ADD https',
        'line 19',
        'line 20: USER',
        'line 21: ENTRYPOINT',
    ):
        assert part in said, (part, said)


def test_lines_that_need_a_network_are_taken_out_or_named() -> None:
    text, said = adapted(
        'pip install x\nfoo && pip install y\nuv run --with rich pytest -q /tests/t.py\n# apt-get\necho "pip"\n'
    )
    assert text.split('\n')[:3] == [':', 'foo && pip install y', 'python3 -m pytest -q /tests/t.py']
    assert ['line 1' in said[0], 'line 2' in said[1] and 'will fail' in said[1], 'needs rich' in said[2]] == [True] * 3
    assert len(said) == 3
    assert adapted('cd /app\nbash run.sh\n') == ('cd /app\nbash run.sh\n', [])


def test_files_of_a_set_that_are_no_tasks_are_left_out() -> None:
    entries = [(f't/{name}', str(text).encode(), 0o644) for name, text in plain().items()]
    more = [
        ('registry.json', b'{"tasks": []}', 0o644),
        ('README.md', b'', 0o644),
        ('x.jsonl', b'{"prompt": ""}', 0o644),
    ]
    reading = read_all([Incoming('set.zip', pack([*entries, *more]))])
    assert [(one.format, one.task is not None) for one in reading.found] == [('harbor', True), ('jsonl', False)]
    assert reading.skipped == ('registry.json, line 1', 'README.md')


def test_hostile_sizes_end_quickly() -> None:
    assert 'larger than 256 kB' in zipped(plain(**{'tests/test.sh': 'a\\\n' * 200_000})).errors[0].msg
    long = zipped(
        plain(**{'tests/test.sh': '\\\n' * 100_000, 'environment/Dockerfile': 'FROM ubuntu\nRUN \\\n' * 10_000})
    )
    assert long.task is not None
    many = {f'environment/{number}.txt': 'x' for number in range(2001)}
    assert 'at most 2000' in zipped(plain(**many)).errors[0].msg


LINES = st.lists(
    st.sampled_from(
        [
            *('FROM x AS y', 'COPY . .', 'COPY --from=a b c', 'RUN <<EOF', 'EOF', 'RUN ["a"', 'WORKDIR ..', 'ENV A'),
            *('ENV A=1 "', 'ADD [', 'a = [', '[verifier]', 'timeout_sec = nan', 'timeout_sec = "x"', 'env = 3'),
            *(
                '[environment]',
                'cpus = []',
                'memory = "?"',
                'tags = 5',
                '[metadata]',
                'steps = 3',
                'uvx',
                'pip install',
            ),
            *(
                'uv run --with',
                'if ! uvx -p 3 pytest; then',
                "echo '",
                '. ~/venv/bin/activate',
                '{{ item }}',
                '{',
                '[[',
            ),
            *('\\', '"', '#', '\t', '\x00', '🔄'),
        ]
    ),
    max_size=12,
)


@settings(max_examples=150, deadline=None)
@given(toml=LINES, docker=LINES, test=LINES, solve=LINES)
@example(toml=['steps = 3'], docker=[], test=[], solve=[])
def test_no_file_makes_the_reading_fail(toml: list[str], docker: list[str], test: list[str], solve: list[str]) -> None:
    names = ('task.toml', 'environment/Dockerfile', 'tests/test.sh', 'solution/solve.sh')
    found = zipped(
        plain(**{name: '\n'.join(one) for name, one in zip(names, (toml, docker, test, solve), strict=True)})
    )
    assert bool(found.task) != bool(found.errors)


@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=200), cut=st.integers(0, 400))
def test_no_bytes_make_the_reading_fail(data: bytes, cut: int) -> None:
    archive = pack([('t/task.toml', data, 0o644), ('t/instruction.md', b'x', 0o644)])
    for one in (data, b'PK\x03\x04' + data, archive[:cut] + data + archive[cut:]):
        assert all(row.task or row.errors for row in read_all([Incoming('x', one)]).found)
