"""The training program: tasks, sandbox, checkers and certificates (light half), GRPO on them (heavy half).

Light half (pydantic and the standard library, imported by the studio):
``errors < verdict < sandbox < checkers < task < tools < attempt < certify``, ``config, manifest, events, runfolder``.
Heavy half (torch, transformers, peft, trl): ``engines < rollout < grpo, evaluate, adapters < __main__``.
Nothing here imports ``studio``; the only thing between the two programs is a run folder.
"""

__version__ = '0.1.0'
