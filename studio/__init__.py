"""The studio: author tasks, launch and watch runs, keep results.

One direction: ``ui`` and ``api`` call the services (``documents``, ``runs``, ``results``, ``playground``), services
call ``store`` and ``launchers``; only ``ui`` and ``app`` know NiceGUI. ``services.Studio`` wires everything, once.
The studio never imports the training stack: between it and a trainer there is only a run folder
(``trainer.runfolder``), which ``ingest`` reads into the store and ``supervisor`` watches.
"""
