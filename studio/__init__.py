"""The studio: author tasks, launch and watch runs, keep results.

One direction: ``ui``, ``api`` and ``cli`` call the services, services call ``store``, ``launchers`` and ``exchange``;
only ``ui`` and ``app`` know NiceGUI. The services lie in packages named by what they serve: ``documents``; on them
``variants`` and ``runs``; on runs ``adapters``; on all of these ``calibrations`` and ``workspaces``; and for everybody
``side_jobs`` and ``security``. In a package ``service`` is the way in, ``views`` is what goes into it and comes out,
``rows`` are its rows in the store. ``services.Studio`` wires everything, once.

The studio never imports the training stack: between it and a trainer there is only a run folder
(``trainer.runfolder``), which ``ingest`` reads into the store and ``supervisor`` watches.
"""
