"""Episodes played by all processes of a run: each plays its share, and every one knows how all of them went."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace

from trainer.engines import GenerationEngine
from trainer.recording import Change
from trainer.rollout.chat import Chat
from trainer.rollout.environment import TfcodeEnv
from trainer.rollout.play import Episode, EpisodeLimits, Player, Stopped
from trainer.task import TaskFile
from trainer.team import Team
from trainer.verdict import Verdict
from trainer.workspace_capture import Captured
from trainer.workspace_keeper import WorkspaceKeeper

Played = tuple[Episode, Verdict, float, Captured | None]
"""An episode as it travels: without its sandbox and its futures, with verdict, seconds of the check, and workspace."""


class SharedPlayer(Player):
    """A player of which every process of a team has one. All are asked to play the same tasks at the same time."""

    def __init__(
        self,
        chat: Chat,
        engine: GenerationEngine,
        limits: EpisodeLimits,
        environment: Callable[[], TfcodeEnv],
        *,
        team: Team,
        workspaces: WorkspaceKeeper | None = None,
    ) -> None:
        super().__init__(chat, engine, limits, environment)
        self._team = team
        self._workspaces = workspaces

    def play(
        self, tasks: Sequence[TaskFile], *, stop: Callable[[], bool] = lambda: False, share_calls: bool = False
    ) -> list[Episode]:
        """Play this process's share of the tasks; return the episodes of all, in the order of the tasks.

        Raises ``Stopped`` on every process when ``stop`` said so on any. ``seconds`` are those of the slowest.
        """
        if self._team.size == 1:
            return super().play(tasks, stop=stop, share_calls=share_calls)
        mine = self._team.share(tasks)
        # The random state of the first process decides for all: it is the one that a checkpoint holds.
        self._seeds = random.Random(f'{self._team.gather(super()._seed())[0]}/{self._team.rank}')
        played: list[Played] | None = []
        self.seconds = {}
        try:
            if mine:
                played = [self._packed(episode) for episode in super().play(mine, stop=stop, share_calls=share_calls)]
        except Stopped:
            played = None
        shares = self._team.gather((played, self.seconds))
        phases = {phase for _, seconds in shares for phase in seconds}
        self.seconds = {phase: max(seconds.get(phase, 0.0) for _, seconds in shares) for phase in sorted(phases)}
        episodes: list[Episode] = []
        for share, _ in shares:
            if share is None:
                raise Stopped
            episodes += [self._unpacked(*one) for one in share]
        return episodes

    def _seed(self) -> int:
        return super()._seed() if self._team.size == 1 else self._seeds.getrandbits(62)

    def _packed(self, episode: Episode) -> Played:
        assert episode.checked is not None
        verdict, seconds = episode.checked.result()
        played = episode.environment
        ended = _Ended(played.changes, played.workspace)
        captured = self._workspaces.captured(played.workspace) if self._workspaces is not None else None
        return replace(episode, environment=ended, started=None, checked=None), verdict, seconds, captured

    def _unpacked(self, episode: Episode, verdict: Verdict, seconds: float, captured: Captured | None) -> Episode:
        episode.checked = Future()
        episode.checked.set_result((verdict, seconds))
        if captured is not None and self._workspaces is not None and self._team.writes:
            self._workspaces.add(episode.environment.workspace, captured)
        return episode


class _Ended(TfcodeEnv):
    """What is left of an episode's workspace in the other processes: what it changed, and the name it is kept by."""

    def __init__(self, changes: tuple[Change, ...], workspace: str) -> None:
        self.changes = changes
        self.workspace = workspace
