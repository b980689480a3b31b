"""Demonstrations: replayed for real, read line by line, and only what the assistant says is learned."""

import json
from pathlib import Path

import pytest
import trl
from tiny_models import GEMMA, LLAMA, QWEN, Family, tokenizer

from trainer.demonstrations import Demonstration, read_demonstrations, replayed, write_demonstrations
from trainer.errors import ConfigError
from trainer.models import STARTER
from trainer.policy import load_tokenizer
from trainer.rollout.chat import Chat
from trainer.sandbox.python_env import base_environment
from trainer.sft import IGNORED, labelled
from trainer.task import TaskFile, parse_task
from trainer.tools import TOOL_SCHEMAS

TRL_TEMPLATES = Path(trl.__file__).parent / 'chat_templates'

WRITE = {'function': {'name': 'write_file', 'arguments': {'path': 'a.txt', 'content': 'x\n'}}}
LOOK = {'id': 'c1', 'type': 'function', 'function': {'name': 'list_dir', 'arguments': '{"path": "."}'}}
CHAT = {
    'messages': [
        {'role': 'user', 'content': 'Write x to a.txt'},
        {'role': 'assistant', 'content': None, 'tool_calls': [WRITE]},
        {'role': 'tool', 'content': 'wrote 2 bytes to a.txt'},
        {'role': 'assistant', 'content': '', 'tool_calls': [LOOK, LOOK]},
        {'role': 'tool', 'tool_call_id': 'c1', 'content': 'a.txt'},
        {'role': 'tool', 'tool_call_id': 'c1', 'content': 'a.txt'},
        {'role': 'assistant', 'content': 'Done.'},
    ]
}


def task(*solutions: dict[str, object]) -> TaskFile:
    spec = {
        'prompt': 'Write x to a.txt',
        'checker': {'type': 'exit_code', 'config': {'command': 'test "$(cat a.txt)" = x'}},
    }
    return parse_task({'id': 'one', 'title': 'One', 'task_spec': spec, 'solutions': list(solutions)})[0]


@pytest.fixture(scope='module')
def chat() -> Chat:
    return Chat(load_tokenizer(STARTER))


def pieces(chat: Chat, demonstration: Demonstration, *, learned: bool) -> list[str]:
    """The runs of tokens that are (not) learned, as text."""
    ids, labels = labelled(chat, demonstration, 100)
    assert len(ids) == len(labels)
    found: list[list[int]] = []
    inside = False
    for token, label in zip(ids, labels, strict=True):
        assert label in (IGNORED, token)
        wanted = (label != IGNORED) == learned
        if wanted and not inside:
            found.append([])
        if wanted:
            found[-1].append(token)
        inside = wanted
    return [chat.tokenizer.decode(run) for run in found]


def test_exactly_what_the_assistant_says_is_learned(chat: Chat) -> None:
    demonstration = Demonstration.model_validate(CHAT)
    call = '<tool_call>\n{{"name": "{}", "arguments": {}}}\n</tool_call>'
    look = call.format('list_dir', '{"path": "."}')
    assert pieces(chat, demonstration, learned=True) == [
        call.format('write_file', '{"path": "a.txt", "content": "x\\n"}') + '<|im_end|>',
        f'{look}\n{look}<|im_end|>',
        'Done.<|im_end|>',
    ]
    rest = ''.join(pieces(chat, demonstration, learned=False))
    assert 'Write x to a.txt' in rest and 'wrote 2 bytes' in rest and rest.count('a.txt\n</tool_response>') == 3


def test_the_mask_is_that_of_the_templates_own_marks(chat: Chat) -> None:
    """The starter's template marks what it lets a model generate."""
    told = Demonstration.model_validate(CHAT).chat(str)
    marked = chat.tokenizer.apply_chat_template(
        told, tools=list(TOOL_SCHEMAS), tokenize=True, return_dict=True, return_assistant_tokens_mask=True
    )
    ids, mask = chat.demonstration(told)
    # A template goes on for a newline after the last turn; a policy does not.
    assert marked['input_ids'][: len(ids)] == ids
    assert marked['assistant_masks'][: len(ids)] == mask
    assert not any(marked['assistant_masks'][len(ids) :])


@pytest.mark.parametrize(
    ('family', 'template', 'ends'),
    [(QWEN, 'qwen3', '<|im_end|>'), (LLAMA, 'llama3_2', '<|eot_id|>'), (GEMMA, 'gemma3', '<end_of_turn>')],
)
def test_families_learn_their_own_calls_and_ends(family: Family, template: str, ends: str) -> None:
    """Each turn is learned as the family's parser reads it back, up to the token that ends it."""
    given = (TRL_TEMPLATES / f'{template}.jinja').read_text(encoding='utf-8')
    chat = Chat(tokenizer(family, given))
    one_call = {'messages': [*CHAT['messages'][:3], CHAT['messages'][-1]]}
    learned = pieces(chat, Demonstration.model_validate(one_call), learned=True)
    assert len(learned) == 2
    assert all(text.endswith(ends) and text.count(ends) == 1 for text in learned)
    told = Demonstration.model_validate(one_call).chat(str)
    ids, mask = chat.demonstration(told)
    first = mask.index(1)
    turn = ids[first : mask.index(0, first)]
    (call,) = chat.parse(turn, ids[:first]).calls
    assert (call.name, call.args) == ('write_file', {'path': 'a.txt', 'content': 'x\n'})
    assert 'Done.' in learned[1]
    # The whole is what the template renders, as far as the last turn goes.
    assert chat._render(told, tools=list(TOOL_SCHEMAS), generation=False)[: len(ids)] == ids


def test_a_replayed_solution_shows_real_answers(chat: Chat, checker_home: Path) -> None:
    good = {
        'kind': 'reference',
        'files': {'a.txt': 'x'},
        'steps': [{'tool': 'run_command', 'args': {'command': 'ls; echo $((6 * 7))'}}],
    }
    wrong = {'kind': 'wrong', 'files': {'a.txt': 'y'}}
    stale = {'kind': 'alternative', 'files': {'a.txt': 'z'}}
    environment = base_environment(checker_home)
    shown, left_out = replayed(
        [task(good, wrong, stale), task()], home=checker_home, isolation='bubblewrap', environment=environment
    )
    assert [message['role'] for message in shown[0].chat(str)] == [
        'user', 'assistant', 'tool', 'assistant', 'tool', 'assistant',
    ]  # fmt: skip
    answers = [message['content'] for message in shown[0].chat(str) if message['role'] == 'tool']
    assert answers == ['wrote 1 bytes to a.txt', 'a.txt\n42\n']
    assert len(shown) == 1
    assert len(left_out) == 1 and left_out[0].startswith('One: its alternative solution earns no 1.0')


def test_a_long_answer_is_cut_as_in_a_rollout(chat: Chat) -> None:
    text = ' '.join(str(number) for number in range(500))
    cut = chat.cut(text, 60)
    assert cut.startswith('0 1 2') and cut.endswith('498 499')
    assert 'tokens cut' in cut
    assert len(chat.tokenizer.encode(cut)) <= 60
    assert chat.cut(text, 16).count('cut') == 1
    assert chat.cut('short', 60) == 'short'


def test_chats_are_written_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / 'chats.jsonl'
    path.write_text(json.dumps(CHAT) + '\n\n' + json.dumps({**CHAT, 'tools': [{'any': 'thing'}]}))
    chats = read_demonstrations(path)
    again = tmp_path / 'again.jsonl'
    write_demonstrations(again, chats)
    assert [one.messages for one in read_demonstrations(again)] == [one.messages for one in chats]


def said(*messages: object) -> str:
    return json.dumps({'messages': [{'role': 'user', 'content': 'go'}, *messages]})


DONE = {'role': 'assistant', 'content': 'Done.'}


@pytest.mark.parametrize(
    ('line', 'where', 'what'),
    [
        ('{', '', 'Not JSON'),
        ('[1]', '', 'An object'),
        ('{"message": []}', 'message', "did you mean 'messages'"),
        (said(), 'messages', 'a request and an answer'),
        (json.dumps({'messages': [DONE, DONE]}), 'messages.0', 'opens with what the user asks'),
        (said({'role': 'robot', 'content': ''}), 'messages.1.role', "'robot' is not known"),
        (said({'role': 'tool', 'content': ''}, DONE), 'messages.1', 'answers no call'),
        (said({'role': 'assistant', 'tool_calls': [WRITE]}, DONE), 'messages.2', 'has no answer'),
        (said(DONE, {'role': 'user', 'content': 'more'}), 'messages.2', 'Only the assistant'),
        (
            said({'role': 'assistant', 'tool_calls': [WRITE]}, {'role': 'tool', 'content': ''}),
            'messages.2',
            'ends with words',
        ),
        (
            said({'role': 'assistant', 'tool_calls': [{'function': {'name': 'rm', 'arguments': {}}}]}),
            'messages.1.tool_calls.0.function.name',
            'There is no tool',
        ),
        (
            said({'role': 'assistant', 'tool_calls': [{'function': {'name': 'read_file', 'arguments': {'p': 'a'}}}]}),
            'messages.1.tool_calls.0.function.arguments',
            'exactly the arguments path',
        ),
        (
            said({'role': 'assistant', 'tool_calls': [{'function': {'name': 'read_file', 'arguments': '{'}}]}),
            'messages.1.tool_calls.0.function.arguments',
            'no JSON',
        ),
    ],
)
def test_a_bad_line_is_refused_by_number_and_field(tmp_path: Path, line: str, where: str, what: str) -> None:
    path = tmp_path / 'chats.jsonl'
    path.write_text(json.dumps(CHAT) + '\n' + line)
    with pytest.raises(ConfigError) as refused:
        read_demonstrations(path)
    found = {field.loc: field.msg for field in refused.value.fields}
    loc = f'line 2: {where}' if where else 'line 2'
    assert what in found[loc], found


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / 'chats.jsonl'
    path.write_text('\n')
    with pytest.raises(ConfigError, match='holds no demonstration'):
        read_demonstrations(path)
